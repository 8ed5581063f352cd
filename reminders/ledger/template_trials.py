"""What a reminder would say: the template that its claim would pin, and the delivery it would be, without claiming it."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.errors import NotFound
from reminders.ledger.database import Database
from reminders.ledger.delivery_columns import COLUMNS, delivery_of
from reminders.ledger.statement import Statement
from reminders.ledger.template_choice import CHOSEN

# The claim's own choice, for a reminder that is only thought of, or for one that has pinned none yet.
WOULD_PIN = Statement(
    "template_would_pin",
    f"""
SELECT COALESCE(n.template_id, {CHOSEN})::text
FROM (SELECT :tenant AS tenant_id, :user AS user_id, :kind AS kind, :channel AS channel, :key AS delivery_key) r
LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
""",
    {"tenant": "text", "user": "text", "kind": "text", "channel": "text", "key": "text", "templated": "text[]"},
)


AS_DELIVERY = Statement(
    "template_as_delivery",
    f"""
SELECT r.delivery_key, COALESCE(n.body_format, 0), {COLUMNS}
FROM {{s}}.reminders r LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE r.id = :id
""",
    {"id": "uuid"},
)

# Whatever waits for its first attempt on a channel that has templates, and would find none.
LACKING = Statement(
    "template_lacking",
    f"""
SELECT r.tenant_id, r.kind, r.channel, count(*)
FROM {{s}}.due d JOIN {{s}}.reminders r ON r.id = d.id
LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE r.channel = ANY(:templated) AND n.template_id IS NULL AND {CHOSEN} IS NULL
GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
""",
    {"templated": "text[]"},
)


def would_pin(database: Database, *, tenant: str, user: str, kind: str, channel: str, key: str = "") -> UUID | None:
    """The version that a first claim would pin now, or that the delivery `key` has pinned."""
    given = {"tenant": tenant, "user": user, "kind": kind, "channel": channel, "key": key}
    found = database.fetch(WOULD_PIN, **given, templated=[channel])[0][0]
    return None if found is None else UUID(found)


def as_delivery(database: Database, reminder_id: UUID) -> Delivery:
    """The reminder as a provider would get it. Raises `NotFound`."""
    rows = database.fetch(AS_DELIVERY, id=str(reminder_id))
    if not rows:
        raise NotFound(f"there is no reminder {reminder_id}")
    key, body_format, *columns = rows[0]
    return delivery_of(reminder_id, key, columns, attempt=1, body_format=body_format)


def waiting_without(database: Database, channels: Iterable[str]) -> list[tuple[str, str, str, int]]:
    """Tenant, kind and channel of live reminders that would find no template, and how many they are. Reads all that live."""
    found = database.fetch(LACKING, templated=sorted(channels))
    return [(tenant, kind, channel, count) for tenant, kind, channel, count in found]

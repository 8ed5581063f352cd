"""A text to send, as the ledger would hand it to channel `sms`."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.template import Template

TO = "+4915123456789"
TEXT = "Your order 17 is due."
CLAIMED = datetime(2026, 11, 29, 12, tzinfo=UTC)


def template(text: str = "Your order {{ data.order }} is due.") -> Template:
    return Template(UUID(int=3), "acme", "payment_due", "sms", "", 1, {"text": text})


def delivery(text: str | None = None, **changes) -> Delivery:
    plain = Delivery(
        reminder_id=UUID(int=1),
        delivery_key="rk_0123456789abcdef",
        tenant_id="acme",
        user_id="anna",
        kind="payment_due",
        channel="sms",
        destination_id=UUID(int=2),
        destination=TO,
        due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        zone=None,
        reference="order-17",
        slot="",
        data={"order": 17},
        attempt=1,
        body_format=1,
        template=template() if text is None else template(text),
        claimed_at=CLAIMED,
    )
    return replace(plain, **changes)

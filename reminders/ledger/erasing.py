"""Erasing one user's reminders: cancelled if they live, then without what is personal, as the proof that something was sent.

What stays bears the erasure's token in place of the user's id. The destination of a reminder that is erased is noted in
`erasures` in the same transaction: whether anybody else has it is asked once all are erased.
"""

from __future__ import annotations

import socket
from datetime import datetime
from uuid import UUID

from reminders.domain.identity import NOWHERE
from reminders.ledger.database import Database
from reminders.ledger.erasure_records import OF, WHO, WORDS, Erasure, note, step
from reminders.ledger.statement import Statement

_OF_R = "r.tenant_id = :tenant AND r.user_id = :user AND r.created_at <= :upto"

CLOCK = Statement("erasure_clock", "SELECT clock_timestamp()", {})

STOP_SERIES = Statement(
    "erasure_stop_series",
    f"""
UPDATE {{s}}.series SET status = 'cancelled', plan_at = NULL, fault = NULL, changed_at = clock_timestamp()
WHERE {OF} AND status <> 'cancelled' RETURNING 1
""",
    WHO,
)

ADDRESSES = Statement(
    "erasure_addresses",
    f"SELECT DISTINCT destination FROM {{s}}.reminders WHERE {OF} UNION SELECT destination FROM {{s}}.series WHERE {OF}",
    WHO,
)

LIVE = Statement(
    "erasure_live",
    f"SELECT r.id::text FROM {{s}}.reminders r WHERE {_OF_R} AND r.status = 'live' AND r.id > :after ORDER BY r.id LIMIT :size",
    {**WHO, "upto": "timestamptz", "after": "uuid", "size": "integer"},
)

CANCEL = Statement("erasure_cancel", "SELECT answer FROM {s}.cancel_rows(:ids)", {"ids": "uuid[]"})

STILL_LIVE = Statement(
    "erasure_still_live",
    f"""
SELECT count(*), max(d.wake_at) FILTER (WHERE d.status = 'sending')
FROM {{s}}.reminders r LEFT JOIN {{s}}.due d ON d.id = r.id
WHERE {_OF_R} AND r.status = 'live'
""",
    {**WHO, "upto": "timestamptz"},
)

HOLD = Statement(
    "erasure_hold",
    f"""
SELECT r.id::text FROM {{s}}.reminders r WHERE {_OF_R} AND r.status <> 'live' ORDER BY r.id LIMIT :size FOR NO KEY UPDATE
""",
    {**WHO, "upto": "timestamptz", "size": "integer"},
)

# A provider's reference is the proof, and stays, unless it repeats the address.
_REFERENCE = "CASE WHEN strpos(lower(x.{0}), lower(NULLIF(e.destination, ''))) > 0 THEN 'erased' ELSE x.{0} END"

ERASE = Statement(
    "erasure_reminders",
    f"""
WITH ended AS MATERIALIZED (
    SELECT id, destination, destination_id, identity_key FROM {{s}}.reminders
    WHERE id = ANY(:held) AND {OF} AND status <> 'live'
), attempts AS (
    UPDATE {{s}}.delivery_attempts x
    SET reason = {WORDS.format("reason")}, provider_reference = {_REFERENCE.format("provider_reference")}
    FROM ended e
    WHERE x.reminder_id = e.id AND x.delivery_key = ANY(ARRAY(
        SELECT n.delivery_key FROM {{s}}.notification_deliveries n WHERE n.reminder_id = ANY(ARRAY(SELECT id FROM ended))))
    RETURNING 1
), deliveries AS (
    UPDATE {{s}}.notification_deliveries x
    SET body_hash = CASE WHEN x.body_hash IS NOT NULL THEN {{s}}.erased_hash() END,
        provider_reference = {_REFERENCE.format("provider_reference")}
    FROM ended e WHERE x.reminder_id = e.id RETURNING 1
), letters AS (
    UPDATE {{s}}.dead_letters x
    SET reason = 'erased', note = {WORDS.format("note")}, action_reason = 'erased',
        resolution_reference = {_REFERENCE.format("resolution_reference")},
        state = CASE x.state WHEN 'open' THEN 'discarded' ELSE x.state END, closed_at = COALESCE(x.closed_at, clock_timestamp()),
        actor = COALESCE(x.actor, :actor), host = CASE x.state WHEN 'open' THEN :host ELSE x.host END
    FROM ended e WHERE x.reminder_id = e.id RETURNING 1
), shadows AS (
    UPDATE {{s}}.shadow_deliveries x
    SET user_id = :token, reference = NULL, slot = '', destination_id = :nowhere, why = {WORDS.format("why")},
        body_hash = CASE WHEN x.body_hash IS NOT NULL THEN {{s}}.erased_hash() END,
        released_reason = {WORDS.format("released_reason")}
    FROM ended e WHERE x.reminder_id = e.id RETURNING 1
), marks AS (
    UPDATE {{s}}.keys_seen k SET request_hash = {{s}}.erased_hash()
    WHERE k.identity_key = ANY(ARRAY(SELECT identity_key FROM ended)) RETURNING 1
), erased AS (
    UPDATE {{s}}.reminders r
    SET user_id = :token, destination = '', destination_id = :nowhere, reference = NULL, slot = '', data = '{{}}', zone = NULL,
        request_hash = {{s}}.erased_hash(), suppressed_reason = CASE WHEN r.suppressed_reason IS NOT NULL THEN 'erased' END,
        withdrawn_at = NULL, erased_at = clock_timestamp()
    FROM ended e WHERE r.id = e.id RETURNING 1
), noted AS (
    UPDATE {{s}}.erasures
    SET destination_ids = ARRAY(SELECT DISTINCT i.id FROM (SELECT unnest(destination_ids) UNION SELECT destination_id FROM ended) i (id)
                                WHERE i.id <> :nowhere)
    WHERE id = :erasure
)
SELECT (SELECT count(*) FROM erased), (SELECT count(*) FROM deliveries), (SELECT count(*) FROM attempts),
       (SELECT count(*) FROM letters), (SELECT count(*) FROM shadows), (SELECT count(*) FROM marks)
""",
    {
        **WHO, "token": "text", "erasure": "uuid", "held": "uuid[]", "actor": "text", "host": "text", "nowhere": "uuid",
    },
)  # fmt: skip
TABLES = (
    "reminders", "notification_deliveries", "delivery_attempts", "dead_letters", "shadow_deliveries", "keys_seen",
)  # fmt: skip


def addresses(database: Database, of: Erasure) -> list[str]:
    """The addresses that the user's reminders and series have."""
    return [row[0] for row in database.fetch(ADDRESSES, **of.who) if row[0]]


def stop_series(database: Database, of: Erasure) -> datetime:
    """Have nothing more planned for the user. The time by the ledger's clock: what is scheduled later is not erased."""
    with step(database) as run:
        run(STOP_SERIES, **of.who)
    now: datetime = database.fetch(CLOCK)[0][0]
    return now


def cancel_live(database: Database, of: Erasure, upto: datetime, after: UUID, size: int) -> UUID | None:
    """Cancel the next live reminders of the user; of those with an open claim no attempt follows. The last, or None."""
    with step(database) as run:
        ids = [row[0] for row in run(LIVE, **of.who, upto=upto, after=str(after), size=size)]
        if ids:
            run(CANCEL, ids=ids)
    # Crash here, or before: they are cancelled, or live as before; the next run finds those that live.
    return UUID(ids[-1]) if ids else None


def still_live(database: Database, of: Erasure, upto: datetime) -> tuple[int, datetime | None]:
    """How many of the user's reminders live still, and when the last of their claims ends."""
    ((number, until),) = database.fetch(STILL_LIVE, **of.who, upto=upto)
    return number, until


def erase_reminders(database: Database, of: Erasure, upto: datetime, size: int) -> int:
    """Erase the next reminders of the user that have ended, with all that belongs to them; how many there were."""
    with step(database) as run:
        held = [row[0] for row in run(HOLD, **of.who, upto=upto, size=size)]
        if not held:
            return 0
        given = {"token": of.token, "erasure": str(of.id), "actor": of.actor, "host": socket.gethostname()}
        (counts,) = run(ERASE, **of.who, **given, held=held, nowhere=str(NOWHERE))
        note(run, of, dict(zip(TABLES, counts, strict=True)))
        # Crash here: nothing of this step is committed, and the next run begins with it.
    return len(held)

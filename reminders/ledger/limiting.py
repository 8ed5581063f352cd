"""Limits at lease time: of what a scan has leased, that goes out which caps and the state of destinations let pass.

The rest is put off in the ledger before any message is made of it. A lease that meets no limit pays for one look.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from reminders.ledger.database import Database
from reminders.ledger.rate_rules import uncalled
from reminders.ledger.statement import Statement
from reminders.ledger.turn_moves import LeasedRow, without_turn
from reminders.pipeline.ports import Message

RETRIES_OF_ONE = 2
"""Calls at once to a destination whose last call has timed out: more would only hold more threads for the whole deadline."""
TIMED_OUT_AGAIN = (5.0, 25.0)
"""Seconds after which what is beyond that is looked at again, and over how many more it is spread."""
SLOW_AGAIN = (3.0, 9.0)
"""The same for what would go to a destination with a slow call open, while there are many such calls."""
PROBE_AGAIN = (5.0, 5.0)
"""The same for what waits for the probe of a breaker that is half open."""

_T = "t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now)"

# Of a live row: its call has been under way for longer than `SLOW_AFTER`, by what is left of its claim.
SLOW = """status = 'sending' AND wake_at > (SELECT now FROM t)
      AND wake_at <= (SELECT now FROM t) + make_interval(secs => :young)"""

TO_SLOW = Statement(
    "to_slow",
    f"""
WITH {_T}, slow AS MATERIALIZED (
    SELECT DISTINCT destination_id FROM {{s}}.due WHERE {SLOW}
)
SELECT d.id::text FROM {{s}}.due d JOIN slow USING (destination_id) JOIN {{s}}.reminders r ON r.id = d.id
WHERE d.id = ANY(:ids) AND d.status = 'leased' AND d.lease_token = :token AND NOT {uncalled("r.tenant_id")}
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid", "young": "float8"},
)

# A breaker whose hold has ended is half open. Where nobody is called (its tenant is off or in shadow) nothing is limited: it
# takes nobody's turn, and asks no destination. The caps are asked in the order of the list, the narrowest first.
LIMITED = Statement(
    "limited",
    f"""
WITH {_T}
SELECT d.id::text, r.tenant_id, d.destination_id::text, d.turn_at, d.waits_since,
       array_remove(ARRAY[zd.id, zt.id, zc.id], NULL)::text[], p.timed_out_at IS NOT NULL,
       p.breaker_opened_at IS NOT NULL AND COALESCE(p.hold_until <= (SELECT now FROM t), true), p.probe_id::text
FROM {{s}}.due d
JOIN {{s}}.reminders r ON r.id = d.id
LEFT JOIN {{s}}.rates zd ON zd.destination_id = d.destination_id AND zd.removed_at IS NULL
LEFT JOIN {{s}}.rates zt ON zt.tenant_id = r.tenant_id AND zt.removed_at IS NULL
LEFT JOIN {{s}}.rates zc ON zc.channel = r.channel AND zc.removed_at IS NULL
LEFT JOIN {{s}}.destinations p ON p.id = d.destination_id
WHERE d.id = ANY(:ids) AND d.status = 'leased' AND d.lease_token = :token
  AND (zd.id IS NOT NULL OR zt.id IS NOT NULL OR zc.id IS NOT NULL OR p.timed_out_at IS NOT NULL OR p.breaker_opened_at IS NOT NULL)
  AND NOT {uncalled("r.tenant_id")}
""",
    {"now": "timestamptz", "ids": "uuid[]", "token": "uuid"},
)

IN_FLIGHT_THERE = Statement(
    "in_flight_there",
    f"""
WITH {_T}
SELECT destination_id::text, count(*) FROM {{s}}.due
WHERE status IN ('published', 'sending') AND wake_at > (SELECT now FROM t) AND destination_id = ANY(:destinations)
GROUP BY destination_id
""",
    {"now": "timestamptz", "destinations": "uuid[]"},
)

TO_RETRY = Statement(
    "to_retry",
    """
WITH mine AS MATERIALIZED (
    SELECT id FROM {s}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token AND route = 'deliver' FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {s}.due d SET route = 'retry' FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {"ids": "uuid[]", "token": "uuid"},
)

# One reminder at a time asks whether the destination is well again. While another one's message or call stands, none does.
CHOOSE_PROBES = Statement(
    "choose_probes",
    f"""
WITH {_T}, wanted AS MATERIALIZED (
    SELECT * FROM unnest(:destinations, :ids) AS w (destination_id, reminder_id)
), free AS MATERIALIZED (
    SELECT p.id, wanted.reminder_id
    FROM wanted JOIN {{s}}.destinations p ON p.id = wanted.destination_id
    WHERE p.breaker_opened_at IS NOT NULL AND COALESCE(p.hold_until <= (SELECT now FROM t), true)
      AND NOT EXISTS (SELECT 1 FROM {{s}}.due d
                      WHERE d.id = p.probe_id AND d.id <> wanted.reminder_id AND d.wake_at > (SELECT now FROM t)
                        AND d.status IN ('leased', 'published', 'sending'))
    FOR NO KEY UPDATE OF p SKIP LOCKED
)
UPDATE {{s}}.destinations p SET probe_id = free.reminder_id FROM free WHERE p.id = free.id
RETURNING p.probe_id::text
""",
    {"now": "timestamptz", "destinations": "uuid[]", "ids": "uuid[]"},
)

PUT_OFF_LEASED = Statement(
    "put_off_leased",
    f"""
WITH {_T}, mine AS MATERIALIZED (
    SELECT id, LEAST(give_up_at, (SELECT now FROM t) + make_interval(secs => :max_wait)) AS give_up_at FROM {{s}}.due
    WHERE id = ANY(:ids) AND status = 'leased' AND lease_token = :token FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {{s}}.due d
SET status = 'pending', give_up_at = mine.give_up_at,
    wake_at = LEAST((SELECT now FROM t) + make_interval(secs => :seconds + random() * :spread), mine.give_up_at)
FROM mine WHERE d.id = mine.id
RETURNING 1
""",
    {
        "now": "timestamptz",
        "ids": "uuid[]",
        "token": "uuid",
        "max_wait": "float8",
        "seconds": "float8",
        "spread": "float8",
    },
)


def within_limits(
    database: Database,
    messages: Sequence[Message],
    token: UUID,
    *,
    now: datetime | None,
    max_wait: float,
    young: float | None = None,
) -> list[Message]:
    """Those of the messages, leased under `token`, that may go out now; see `ScanLedger.within_limits`.

    With `young`, nothing goes to a destination whose call has fewer seconds of its claim left.

    Crash anywhere here: rows `leased`; the lease's end wakes them.
    """
    given = {"now": now, "token": str(token)}
    if young is not None:
        messages = _without_slow(database, messages, young, {**given, "max_wait": max_wait})
    ids = [str(message.reminder_id) for message in messages]
    rows = {row[0]: LeasedRow(*row) for row in database.fetch_in_loops(LIMITED, **given, ids=ids)}
    if not rows:
        return list(messages)
    stay = _beyond_probes(database, list(rows.values()), {**given, "max_wait": max_wait})
    stay |= _beyond_retries(
        database, [row for row in rows.values() if row.id not in stay], {**given, "max_wait": max_wait}
    )
    woke = {str(message.reminder_id): message.woke_at for message in messages}
    capped = [row for row in rows.values() if row.caps and row.id not in stay]
    if capped:
        stay |= without_turn(database, capped, woke, {**given, "max_wait": max_wait})
    return [
        _limited(message, rows.get(str(message.reminder_id)))
        for message in messages
        if str(message.reminder_id) not in stay
    ]


def _without_slow(
    database: Database, messages: Sequence[Message], young: float, given: dict[str, Any]
) -> list[Message]:
    """Those that go to nobody with a slow call open; the others are put off."""
    ids = [str(message.reminder_id) for message in messages]
    rows = database.fetch_in_loops(TO_SLOW, now=given["now"], token=given["token"], ids=ids, young=young)
    beyond = {row[0] for row in rows}
    _put_off(database, beyond, SLOW_AGAIN, given)
    return [message for message in messages if str(message.reminder_id) not in beyond]


def _limited(message: Message, row: LeasedRow | None) -> Message:
    if row is None:
        return message
    route = "retry" if row.timed_out and message.route == "deliver" else message.route
    return replace(message, route=route, caps=(*(UUID(each) for each in row.caps), *message.caps))


def _beyond_probes(database: Database, rows: list[LeasedRow], given: dict[str, Any]) -> set[str]:
    """Of what goes to destinations whose breaker is half open, what is not the probe: put off."""
    half_open: dict[str, list[LeasedRow]] = {}
    for row in rows:
        if row.half_open:
            half_open.setdefault(row.destination_id, []).append(row)
    if not half_open:
        return set()
    wanted = {place: _candidate(found) for place, found in half_open.items()}
    ledger_time = {"now": given["now"]}
    chosen = database.fetch(CHOOSE_PROBES, **ledger_time, destinations=list(wanted), ids=list(wanted.values()))
    probes = {row[0] for row in chosen}
    beyond = {row.id for found in half_open.values() for row in found if row.id not in probes}
    _put_off(database, beyond, PROBE_AGAIN, given)
    return beyond


def _candidate(found: list[LeasedRow]) -> str:
    known = [row.id for row in found if row.probe_id == row.id]
    return known[0] if known else found[0].id


def _beyond_retries(database: Database, rows: list[LeasedRow], given: dict[str, Any]) -> set[str]:
    """Of what goes to destinations whose last call timed out, what is beyond their few calls: put off. The rest goes to `retry`."""
    timed_out: dict[str, list[str]] = {}
    for row in rows:
        if row.timed_out:
            timed_out.setdefault(row.destination_id, []).append(row.id)
    if not timed_out:
        return set()
    there: dict[str, int] = dict(database.fetch(IN_FLIGHT_THERE, now=given["now"], destinations=list(timed_out)))
    beyond = {each for place, ids in timed_out.items() for each in ids[max(0, RETRIES_OF_ONE - there.get(place, 0)) :]}
    _put_off(database, beyond, TIMED_OUT_AGAIN, given)
    going = [each for ids in timed_out.values() for each in ids if each not in beyond]
    if going:
        database.fetch(TO_RETRY, ids=going, token=given["token"])
    return beyond


def _put_off(database: Database, ids: set[str], again: tuple[float, float], given: dict[str, Any]) -> None:
    if ids:
        seconds, spread = again
        database.fetch(PUT_OFF_LEASED, **given, ids=sorted(ids), seconds=seconds, spread=spread)

"""Settled lines as facts: written once, changed when a later file says otherwise, grouped by the order they belong to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.settlement import SettlementLine
from reminders.ledger.caller import fetch
from reminders.ledger.statement import Statement

OF_ORDER, OF_LINE = "o:", "l:"
"""What a group's key begins with: an order's reference follows, or the id of a line that names no order."""

_COLUMNS = (
    "line_id, category, reported_as, currency, gross, fee, net, created_at, payout_id, payout_at, source_id, charge_id, "
    "payment_id, order_reference"
)
_GIVEN = """json_to_recordset(:rows) AS i (
        line_id text, category text, reported_as text, currency text, gross numeric, fee numeric, net numeric,
        created_at timestamptz, payout_id text, payout_at timestamptz, source_id text, charge_id text, payment_id text,
        order_reference text,
        place bigint)"""
_PAGE_BITS = 32
_FACTS = _COLUMNS.removeprefix("line_id, ").split(", ")

# Of one file the first line of an id counts, whatever page it is on and whichever page is read again; one that comes behind it
# is neither written nor summed. The group is not written over: `REGROUP` must see which one a line leaves.
UPSERT = Statement(
    "settlement_upsert",
    f"""
WITH given AS MATERIALIZED (SELECT {_COLUMNS}, place FROM {_GIVEN}),
met AS MATERIALIZED (
    SELECT g.*, f.read_from, l.line_id IS NULL AS is_new, l.charge_id AS charge_before, l.place AS place_before,
           ({", ".join(f"l.{name}" for name in _FACTS)}) IS DISTINCT FROM ({", ".join(f"g.{name}" for name in _FACTS)}) AS differs,
           l.read_from IS NOT DISTINCT FROM f.read_from AND l.place <= g.place AS is_read,
           l.read_from IS NOT DISTINCT FROM f.read_from AND l.place < g.place AS is_repeated
    FROM given g
    CROSS JOIN (SELECT left(subject, 32)::uuid AS read_from FROM {{s}}.reconciliation_runs WHERE id = :run) f
    LEFT JOIN {{s}}.settlement_lines l ON l.source = :source AND l.line_id = g.line_id
), written AS (
    INSERT INTO {{s}}.settlement_lines AS l (source, {_COLUMNS}, read_from, place, group_key)
    SELECT :source, {_COLUMNS}, read_from, place, COALESCE('{OF_ORDER}' || order_reference, '{OF_LINE}' || line_id)
    FROM met WHERE NOT is_repeated AND (differs OR NOT is_read) ORDER BY line_id
    ON CONFLICT (line_id, source) DO UPDATE
    SET {", ".join(f"{name} = EXCLUDED.{name}" for name in (*_FACTS, "read_from", "place"))}
), summed AS (
    INSERT INTO {{s}}.reconciliation_run_sums AS s (run_id, category, currency, lines, gross, fee, net)
    SELECT :run, category, currency, count(*), sum(gross), sum(fee), sum(net) FROM met WHERE NOT is_repeated
    GROUP BY category, currency
    ON CONFLICT (run_id, category, currency) DO UPDATE
    SET lines = s.lines + EXCLUDED.lines, gross = s.gross + EXCLUDED.gross, fee = s.fee + EXCLUDED.fee, net = s.net + EXCLUDED.net
), paid AS (
    INSERT INTO {{s}}.reconciliation_run_payouts (run_id, payout_id)
    SELECT DISTINCT :run, payout_id FROM met WHERE payout_id <> '' AND NOT is_repeated ON CONFLICT DO NOTHING
)
SELECT line_id, is_new, is_repeated, place_before, charge_id, charge_before FROM met WHERE differs
""",
    {"source": "text", "run": "uuid", "rows": "json"},
)

# `lines` are those of the page, changed or not, so that reading a line again mends a wrong group; `charges` those whose lines
# may belong elsewhere since: of several lines of one charge that name an order, the one with the lowest id counts. Touched is
# what lines are in, and what they have left.
REGROUP = Statement(
    "settlement_regroup",
    f"""
WITH affected AS (
    SELECT line_id FROM {{s}}.settlement_lines WHERE source = :source AND line_id = ANY (:lines)
    UNION
    SELECT line_id FROM {{s}}.settlement_lines WHERE source = :source AND charge_id = ANY (:charges) AND order_reference IS NULL
), keyed AS MATERIALIZED (
    SELECT l.line_id, l.group_key AS was, COALESCE('{OF_ORDER}' || l.order_reference, '{OF_ORDER}' || (
               SELECT (array_agg(c.order_reference ORDER BY c.line_id))[1] FROM {{s}}.settlement_lines c
               WHERE c.source = :source AND c.charge_id = l.charge_id AND c.category = 'charge' AND c.order_reference IS NOT NULL
           ), '{OF_LINE}' || l.line_id) AS key
    FROM affected a JOIN {{s}}.settlement_lines l ON l.source = :source AND l.line_id = a.line_id
), moved AS (
    UPDATE {{s}}.settlement_lines l SET group_key = k.key FROM keyed k
    WHERE l.source = :source AND l.line_id = k.line_id AND k.was <> k.key
)
INSERT INTO {{s}}.reconciliation_run_groups (run_id, group_key)
SELECT :run, t.key FROM (
    SELECT key FROM keyed UNION SELECT was FROM keyed
) t (key) ORDER BY t.key
ON CONFLICT DO NOTHING RETURNING 1
""",
    {"source": "text", "run": "uuid", "lines": "text[]", "charges": "text[]"},
)

REJECT = Statement(
    "settlement_reject",
    """
INSERT INTO {s}.reconciliation_rejects (run_id, line, field, reason)
SELECT :run, line, field, reason FROM json_to_recordset(:rows) AS i (line bigint, field text, reason text)
ON CONFLICT DO NOTHING RETURNING 1
""",
    {"run": "uuid", "rows": "json"},
)

OF_GROUPS = Statement(
    "settlement_of_groups",
    f"SELECT group_key, {_COLUMNS} FROM {{s}}.settlement_lines WHERE source = :source AND group_key = ANY (:groups)",
    {"source": "text", "groups": "text[]"},
)


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A page of a file: its number, and the physical line that it begins in."""

    number: int
    first_line: int


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a page's lines. `refused` has the ids of those that the same file has before with other content, each
    with the page that is on.
    """

    new: int
    changed: int
    unchanged: int
    refused: Mapping[str, int]


def take_in(
    connection: DriverConnection,
    schema: str,
    source: str,
    run: UUID,
    lines: Sequence[SettlementLine],
    *,
    page: FilePlace,
) -> Taken:
    """Write lines, whose ids must differ, and note for the run which groups they are in or have left."""
    differing = fetch(connection, schema, UPSERT, source=source, run=str(run), rows=_as_json(lines, page))
    refused = {line_id: place >> _PAGE_BITS for line_id, _, is_repeated, place, *_ in differing if is_repeated}
    rows = [row for row in differing if not row[2]]
    fetch(
        connection, schema, REGROUP, source=source, run=str(run), lines=sorted(line.line_id for line in lines),
        charges=sorted({charge for *_, now, before in rows for charge in (now, before) if charge is not None}),
    )  # fmt: skip
    new = sum(is_new for _, is_new, *_ in rows)
    return Taken(new, len(rows) - new, len(lines) - len(differing), refused)


def reject(
    connection: DriverConnection, schema: str, run: UUID, rejects: Sequence[tuple[int, str | None, str]]
) -> None:
    """Note records that were not taken: line, field and reason."""
    rows = [{"line": line, "field": field, "reason": reason} for line, field, reason in rejects]
    fetch(connection, schema, REJECT, run=str(run), rows=json.dumps(rows))


def of_groups(
    connection: DriverConnection, schema: str, source: str, groups: Sequence[str]
) -> dict[str, list[SettlementLine]]:
    """All lines of these groups, over all files; a group without lines is left out."""
    found: dict[str, list[SettlementLine]] = {}
    for group, *row in fetch(connection, schema, OF_GROUPS, source=source, groups=list(groups)):
        found.setdefault(group, []).append(_line(row))
    return found


def _line(row: list[object]) -> SettlementLine:
    values = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row]
    return SettlementLine(*values)  # type: ignore[arg-type] # in the order of its fields


def _as_json(lines: Sequence[SettlementLine], page: FilePlace) -> str:
    return json.dumps(
        [
            {
                "line_id": line.line_id,
                "category": line.category,
                "reported_as": line.reported_as,
                "currency": line.currency,
                "gross": str(line.gross),
                "fee": str(line.fee),
                "net": str(line.net),
                "created_at": line.created_at.isoformat(),
                "payout_id": line.payout_id,
                "payout_at": None if line.payout_at is None else line.payout_at.isoformat(),
                "source_id": line.source_id,
                "charge_id": line.charge_id,
                "payment_id": line.payment_id,
                "order_reference": line.order_reference,
                "place": (page.number << _PAGE_BITS) + line.at - page.first_line,
            }
            for line in lines
        ]
    )

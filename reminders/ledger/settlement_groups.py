"""What is to be decided over: the orders that a run has touched, or all of a source, a page after the other."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.ledger.caller import fetch
from reminders.ledger.settlement_lines import OF_ORDER
from reminders.ledger.statement import Statement

_ALIVE = "o.source = :source AND o.status = 'running' AND o.id <> :id AND o.lease_until > clock_timestamp()"

# Not those of which another run that is alive still reads lines, since that one decides over them when it has read all:
# nobody must be told what half of a file says.
NEXT = Statement(
    "reconciliation_next_groups",
    f"""
SELECT g.group_key FROM {{s}}.reconciliation_run_groups g
WHERE g.run_id = :id AND g.group_key > :after
  AND NOT EXISTS (
      SELECT 1 FROM {{s}}.reconciliation_runs o
      JOIN {{s}}.reconciliation_run_groups t ON t.run_id = o.id AND t.group_key = g.group_key
      WHERE {_ALIVE} AND o.step = 'lines')
ORDER BY g.group_key LIMIT :limit
""",
    {"id": "uuid", "source": "text", "after": "text", "limit": "integer"},
)

# Those of lines, and those that only decisions are about; not what a run that is alive has in work. All are beyond `after`,
# even if that is a key that somebody wrote by hand, so that a look from key to key ends.
ALL = Statement(
    "reconciliation_all_groups",
    f"""
SELECT t.key FROM (
    (SELECT DISTINCT group_key AS key FROM {{s}}.settlement_lines WHERE source = :source AND group_key > :after
     ORDER BY group_key LIMIT :limit)
    UNION
    (SELECT DISTINCT '{OF_ORDER}' || order_reference COLLATE "C" FROM {{s}}.reconciliation_decisions
     WHERE source = :source AND line_id IS NULL AND order_reference > :after_order ORDER BY 1 LIMIT :limit)
) t WHERE t.key > :after ORDER BY t.key LIMIT :limit
""",
    {"source": "text", "after": "text", "after_order": "text", "limit": "integer"},
)

IN_WORK = Statement(
    "reconciliation_in_work",
    f"""
SELECT t.group_key FROM {{s}}.reconciliation_runs o
JOIN {{s}}.reconciliation_run_groups t ON t.run_id = o.id AND t.group_key = ANY (:groups)
WHERE {_ALIVE}
""",
    {"id": "uuid", "source": "text", "groups": "text[]"},
)

TOUCH_MISSING = Statement(
    "reconciliation_touch_missing",
    f"""
INSERT INTO {{s}}.reconciliation_run_groups (run_id, group_key)
SELECT :id, '{OF_ORDER}' || d.order_reference FROM {{s}}.reconciliation_decisions d
WHERE d.source = :source AND d.name = 'missing' AND d.withdrawn_at IS NULL
ON CONFLICT DO NOTHING RETURNING 1
""",
    {"id": "uuid", "source": "text"},
)

OTHERS_READ = Statement(
    "reconciliation_others_read",
    f"""
SELECT 1 FROM {{s}}.reconciliation_runs o WHERE {_ALIVE} AND o.kind = 'file' AND o.step IN ('lines', 'decide') LIMIT 1
""",
    {"id": "uuid", "source": "text"},
)


@dataclass(frozen=True, slots=True)
class Place:
    """How far a look over groups has come: `after` is the last one, empty at first."""

    run: UUID
    source: str
    after: str


def touched(connection: DriverConnection, schema: str, place: Place, limit: int) -> list[str]:
    """The next groups that the run has touched."""
    rows = fetch(connection, schema, NEXT, id=str(place.run), source=place.source, after=place.after, limit=limit)
    return [key for (key,) in rows]


def of_source(connection: DriverConnection, schema: str, place: Place, limit: int) -> tuple[list[str], str]:
    """The next groups of all there are, without those that another run has in work; and how far that came, or ''."""
    after_order = place.after.removeprefix(OF_ORDER) if place.after.startswith(OF_ORDER) else ""
    given = {"source": place.source, "after": place.after, "after_order": after_order, "limit": limit}
    keys = [key for (key,) in fetch(connection, schema, ALL, **given)]
    found = fetch(connection, schema, IN_WORK, id=str(place.run), source=place.source, groups=keys)
    in_work = {key for (key,) in found}
    return [key for key in keys if key not in in_work], keys[-1] if keys else ""


def touch_missing(connection: DriverConnection, schema: str, run: UUID, source: str) -> None:
    """Have the run look again at every order that is said to be missing: more may be known of it by now."""
    fetch(connection, schema, TOUCH_MISSING, id=str(run), source=source)


def others_read(connection: DriverConnection, schema: str, run: UUID, source: str) -> bool:
    """Whether another run that is alive will look for missing orders when it has read its file."""
    return bool(fetch(connection, schema, OTHERS_READ, id=str(run), source=source))

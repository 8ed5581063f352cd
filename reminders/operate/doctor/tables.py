"""The ledger's tables: rights, vacuum, partitions."""

from __future__ import annotations

from collections.abc import Mapping

from reminders.ledger.table_facts import RowFacts, TableFacts
from reminders.operate.doctor.check import Check, listed

PIPELINE: Mapping[str, str] = {
    "reminders": "raw",
    "due": "rawd",
    "notification_deliveries": "raw",
    "delivery_attempts": "raw",
    "dead_letters": "raw",
    "destinations": "raw",
    "channel_holds": "raw",
    "tenant_policies": "raw",
    "tenant_changes": "a",
    "new_tenants": "ra",
    "kind_policies": "r",
    "dispatchers": "raw",
    "pauses": "raw",
    "rates": "rw",
    "suppressions": "r",
    "preferences": "r",
    "recipients": "rw",
    "erasure_key": "r",
    "active_templates": "r",
    "templates": "r",
    "secrets": "r",
    "shadow_deliveries": "raw",
    "series": "rw",
    "ticks": "raw",
    "notices": "raw",
    "shutdowns": "rawd",
}
"""What scanning and delivering need of each table: r read, a insert, w update, d delete."""
EVERYTHING = "rawd"
VACUUM_OF_DUE: Mapping[str, float] = {
    "autovacuum_vacuum_scale_factor": 0.02,
    "autovacuum_vacuum_threshold": 2000.0,
    "autovacuum_vacuum_cost_delay": 0.0,
    "autovacuum_analyze_scale_factor": 0.05,
}
"""How the migrations set the table that every move rewrites."""
HOT = ("due", "reminders", "notification_deliveries")
DEAD_ROWS = 500_000
NOT_VACUUMED = 600.0
"""Dead rows that may be there beside as many live ones, and for how long without a vacuum, in seconds."""
_ON = frozenset({"on", "1", "t", "tr", "tru", "true", "y", "ye", "yes"})
"""How a table's switch may be written; Postgres keeps it as it was."""


def _pipeline_rights(facts: TableFacts) -> str | None:
    if not facts.may_use:
        return "our role may not use the schema"
    lacking = {
        name: "".join(right for right in needed if right not in facts.tables[name].rights)
        for name, needed in PIPELINE.items()
        if name in facts.tables
    }
    words = [f"{name} ({', '.join(_words(rights))})" for name, rights in lacking.items() if rights]
    return f"our role lacks rights on {listed(words)}" if words else None


def _words(rights: str) -> list[str]:
    names = {"r": "SELECT", "a": "INSERT", "w": "UPDATE", "d": "DELETE"}
    return [names[right] for right in rights]


def _other_rights(facts: TableFacts) -> str | None:
    if not facts.may_use:
        return None
    lacking = [name for name, table in facts.tables.items() if set(_needed_otherwise(name)) - set(table.rights)]
    told = [f"rights on {listed(lacking)}"] if lacking else []
    if facts.closed_functions:
        told.append(f"EXECUTE on {listed([f'{name}()' for name in facts.closed_functions])}")
    return f"our role lacks {' and '.join(told)}" if told else None


def _needed_otherwise(name: str) -> str:
    """What all the rest needs, as far as the pipeline does not."""
    return "".join(right for right in EVERYTHING if right not in PIPELINE.get(name, ""))


def _partition_rights(facts: TableFacts) -> str | None:
    if not facts.may_use:
        return None
    parent = facts.tables.get("delivery_attempts")
    if parent is not None and not parent.ours:
        return "our role does not own delivery_attempts"
    return None if facts.may_create else "our role may not create tables in the schema"


def _unlogged(facts: TableFacts) -> str | None:
    unlogged = [name for name, table in facts.tables.items() if not table.logged]
    return f"unlogged: {listed(unlogged)}" if unlogged else None


def _vacuum_of_table(facts: TableFacts) -> str | None:
    off = [
        name for name, table in facts.tables.items() if table.options.get("autovacuum_enabled", "on").lower() not in _ON
    ]
    return f"autovacuum_enabled is false for {listed(off)}" if off else None


def _vacuum_changed(facts: TableFacts) -> str | None:
    due = facts.tables.get("due")
    if due is None:
        return None
    changed = [
        f"{name} is {due.options.get(name, 'not set')}"
        for name, wanted in VACUUM_OF_DUE.items()
        if name not in due.options or float(due.options[name]) > wanted
    ]
    return f"of table due, {listed(changed)}" if changed else None


def _vacuum_behind(facts: TableFacts) -> str | None:
    behind = [
        f"{name} has {table.dead:,} dead rows beside {table.live:,} live ones"
        for name in HOT
        if (table := facts.tables.get(name)) is not None
        and table.dead > DEAD_ROWS + table.live
        and (table.vacuumed_ago is None or table.vacuumed_ago > NOT_VACUUMED)
    ]
    return "; ".join(behind) or None


def _partitions(facts: RowFacts) -> str | None:
    return f"missing: {listed(facts.missing_months)}" if facts.missing_months else None


def _in_default(facts: RowFacts) -> str | None:
    return "delivery_attempts_default holds rows" if facts.in_default else None


TABLES: tuple[Check[TableFacts], ...] = (
    Check(
        "rights_pipeline",
        "fatal",
        "The role of `DATABASE_URL` may do what scanning and delivering do.",
        "Let the role that migrates run the workers, or grant it: `GRANT USAGE ON SCHEMA ...`, `GRANT SELECT, INSERT, UPDATE, DELETE "
        "ON ALL TABLES IN SCHEMA ...`.",
        _pipeline_rights,
        at_start=True,
    ),
    Check(
        "rights_other",
        "warning",
        "It may do what everything else does: purging, series, reconciliation, commands.",
        "`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ...`, `GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ...`.",
        _other_rights,
    ),
    Check(
        "rights_partitions",
        "warning",
        "It may make the months of `delivery_attempts`, or somebody else does.",
        "Let it be a member of the role that owns the tables, with CREATE on the schema; or run `reminders migrate` as that role once a month.",
        _partition_rights,
    ),
    Check(
        "tables_unlogged",
        "fatal",
        "Every table is logged: a crash of Postgres empties one that is not, and no standby has it (G2, G3).",
        "`ALTER TABLE ... SET LOGGED`.",
        _unlogged,
        at_start=True,
    ),
    Check(
        "autovacuum_off_for_table",
        "warning",
        "Autovacuum is off for no table of the ledger.",
        "`ALTER TABLE ... RESET (autovacuum_enabled)`.",
        _vacuum_of_table,
    ),
    Check(
        "autovacuum_changed",
        "warning",
        "Table `due` is vacuumed as eagerly as the migrations have it.",
        "`ALTER TABLE ... SET (" + ", ".join(f"{name} = {value:g}" for name, value in VACUUM_OF_DUE.items()) + ")`.",
        _vacuum_changed,
    ),
    Check(
        "autovacuum_behind",
        "warning",
        f"No hot table has {DEAD_ROWS:,} more dead rows than live ones, unless a vacuum ended within {NOT_VACUUMED / 60:g} minutes.",
        "Look for what holds it back (`old_transaction`), run `VACUUM`, and give autovacuum more workers.",
        _vacuum_behind,
    ),
)
"""Checks of the tables."""

PARTITIONS: tuple[Check[RowFacts], ...] = (
    Check(
        "partitions_missing",
        "warning",
        "This month and the next have partitions of `delivery_attempts`.",
        "Run `reminders migrate`, and a `maintenance` worker with beat, which make them three months ahead.",
        _partitions,
    ),
    Check(
        "attempts_in_default",
        "note",
        "No attempt lies in `delivery_attempts_default`: whole months can be dropped.",
        "Leave them, they are purged row by row; see that `partitions_missing` stays silent.",
        _in_default,
    ),
)
"""Checks of the partitions."""

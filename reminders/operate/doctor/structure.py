"""Whether the ledger has what the migrations made: its tables and their indexes. Asked of a ledger at this release's version."""

from __future__ import annotations

from collections.abc import Mapping

from reminders.ledger.expected_structure import FUNCTIONS, ORDINARY, UNIQUE, VIEWS
from reminders.ledger.retention_rules import GOES, STAYS, WITH_OTHERS
from reminders.ledger.schema_version import VERSION_TABLE
from reminders.ledger.table_facts import TableFacts
from reminders.operate.doctor.check import Check, listed

DEFAULT = "delivery_attempts_default"
EXPECTED = {*GOES, *WITH_OTHERS, *STAYS, DEFAULT} - {VERSION_TABLE}
"""The tables of this release: each has a rule that says when its rows go, and the attempts have a partition for what has no month."""
_AGAIN = (
    "Make it again as the migrations do (`reminders migrate --sql` prints them, if nothing is to be run), or restore the schema "
    "from a backup: `pg_dump --schema-only`."
)


def _tables(facts: TableFacts) -> str | None:
    missing = sorted((EXPECTED - set(facts.tables)) | (VIEWS - facts.views))
    if missing:
        return f"missing: {listed(missing)}"
    return None if DEFAULT in facts.partitions else f"{DEFAULT} is no partition of delivery_attempts any more"


def _functions(facts: TableFacts) -> str | None:
    missing = sorted(FUNCTIONS - facts.functions)
    return f"missing: {listed([f'{name}()' for name in missing])}" if missing else None


def _missing(expected: Mapping[str, tuple[str, ...]], facts: TableFacts) -> str | None:
    missing = [
        f"{index} (of {table})"
        for table, indexes in expected.items()
        for index in indexes
        if table in facts.tables and index not in facts.indexes
    ]
    return f"missing: {listed(missing)}" if missing else None


def _unique(facts: TableFacts) -> str | None:
    return _missing(UNIQUE, facts)


def _ordinary(facts: TableFacts) -> str | None:
    return _missing(ORDINARY, facts)


def _invalid(facts: TableFacts) -> str | None:
    invalid = [name for name, index in facts.indexes.items() if not index.valid]
    return f"invalid: {listed(invalid)}" if invalid else None


STRUCTURE: tuple[Check[TableFacts], ...] = (
    Check(
        "table_missing",
        "fatal",
        "Every table and view that the migrations made is there, and the attempts have their DEFAULT partition.",
        f"Somebody has dropped, renamed or detached it. {_AGAIN}",
        _tables,
    ),
    Check(
        "function_missing",
        "fatal",
        "Every function of the schema is there: applications schedule and cancel by them.",
        f"Somebody has dropped or renamed it. {_AGAIN}",
        _functions,
    ),
    Check(
        "unique_index_missing",
        "fatal",
        "Every unique index is there: without it a reminder may be there twice, or have two open letters.",
        f"Look for rows that are there twice and end one of each. {_AGAIN}",
        _unique,
    ),
    Check(
        "index_missing",
        "warning",
        "Every other index is there: without it a look reads the whole table.",
        _AGAIN,
        _ordinary,
    ),
    Check(
        "index_invalid",
        "warning",
        "Every index is valid: Postgres looks into no other.",
        "`REINDEX INDEX CONCURRENTLY ...`; a unique one fails while rows are there twice.",
        _invalid,
    ),
)
"""Checks of the ledger's structure."""

"""Files of suppressions, CSV: read, checked and added, a thousand records in a transaction. Memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from reminders.domain.errors import InvalidInput
from reminders.domain.suppressions import read_scope
from reminders.intake.columns import check_header
from reminders.intake.csv_records import read_csv
from reminders.intake.lines import Lines
from reminders.intake.records import Reject, Values
from reminders.intake.rejects_file import RejectsFile
from reminders.ledger.suppressing import NewSuppression, new_suppression
from reminders.pipeline.consent import check_named
from reminders.pipeline.provider import Provider

COLUMNS = ("tenant_id", "user_id", "destination", "destination_id", "channel", "kind", "reason", "source")
BATCH = 1000
"""Records in one transaction."""
_EXACT = ("tenant_id", "user_id", "destination", "channel", "kind")
"""Compared exactly with what reminders say."""
Add = Callable[[Sequence[NewSuppression]], int]
"""Adds suppressions in a transaction of its own; says how many did not stand before."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What records say that leave it out. Without a `reason` each record needs its own."""

    tenant_id: str | None
    reason: str | None
    source: str
    actor: str


@dataclass(slots=True)
class SuppressionTotals:
    """What became of the records read; `read` is the sum of the others."""

    read: int = 0
    added: int = 0
    existing: int = 0
    rejected: int = 0


def import_suppressions(
    lines: Lines, defaults: Defaults, add: Add, rejects: RejectsFile, providers: Callable[[str], Provider]
) -> tuple[SuppressionTotals, Path | None]:
    """Add what the file holds; returns the totals and the rejects file, if there is one.

    What is committed stays, however the import ends; running it again adds nothing twice. Raises `RemindersError` for a
    file that cannot be read or has the wrong columns. `providers` is as for `schedule`.
    """
    totals = SuppressionTotals()
    providers = cache(providers)
    batch: list[NewSuppression] = []
    try:
        for record in read_csv(lines, partial(_check_header, defaults)):
            totals.read += 1
            wanted = record if isinstance(record, Reject) else _read(*record, defaults, providers)
            if isinstance(wanted, Reject):
                totals.rejected += 1
                rejects.add([wanted])
                continue
            batch.append(wanted)
            if len(batch) == BATCH:
                _flush(batch, add, totals)
        # Crash here, or anywhere: a batch is in the ledger as a whole or not at all, and the next run finds what is there.
        _flush(batch, add, totals)
        return totals, rejects.keep()
    finally:
        rejects.discard()


def _flush(batch: list[NewSuppression], add: Add, totals: SuppressionTotals) -> None:
    added = add(batch) if batch else 0
    totals.added += added
    totals.existing += len(batch) - added
    batch.clear()


def _check_header(defaults: Defaults, names: Collection[str]) -> None:
    required = [name for name in ("tenant_id", "reason") if getattr(defaults, name) is None]
    check_header(names, COLUMNS, required, "a suppression")


def _read(
    line: int, values: Values, defaults: Defaults, providers: Callable[[str], Provider]
) -> NewSuppression | Reject:
    said = {name: values.pop(name, None) or getattr(defaults, name) for name in ("reason", "source")}
    try:
        _check_ends(values)
        named = {"tenant_id": defaults.tenant_id, **values}
        scope = read_scope(**named)
        check_named(
            providers, tenant_id=scope.tenant_id, channel=named.get("channel"), destination=named.get("destination")
        )
        return new_suppression(scope, **said, actor=defaults.actor)
    except InvalidInput as error:
        return Reject(line, error.field, error.reason)


def _check_ends(values: Values) -> None:
    for name in _EXACT:
        text = values.get(name, "")
        if text != text.strip():
            hint = "take them away, or use `reminders suppress add` if reminders have them too"
            raise InvalidInput(name, f"{text[:64]!r} has blanks at its ends, and is compared exactly: {hint}")

"""What a run of reconciliation came to, from the tables it wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal
from uuid import UUID

from reminders.domain.errors import NotFound
from reminders.ledger import settlement_report as ledger
from reminders.ledger.database import Database, Row
from reminders.ledger.settlement_decisions import Outcome

State = Literal["running", "interrupted", "finished", "given_up"]
"""`interrupted`: nothing was heard of it for longer than its lease; running the same file again goes on with it."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One row of the list of runs. Instants are UTC."""

    run_id: UUID
    source: str
    kind: Literal["file", "page", "missing", "audit"]
    file: str | None
    sha256: str | None
    actor: str
    state: State
    step: str
    page: int
    """Pages of the file that are in, of `pages`."""
    pages: int
    only_page: int | None
    reminders: bool
    started_at: datetime
    heard_at: datetime
    finished_at: datetime | None
    error: str | None
    read: int
    new: int
    changed: int
    unchanged: int
    rejected: int


@dataclass(frozen=True, slots=True)
class CategorySum:
    category: str
    currency: str
    count: int
    gross: Decimal
    fee: Decimal
    net: Decimal


@dataclass(frozen=True, slots=True)
class DecisionSum:
    """Of the decisions that the run made or met and that stand."""

    decision: str
    currency: str
    count: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class PayoutSum:
    """A payout that the run met, over all files: `lines` is the sum of net of its lines without the payout's own line, in
    `currency`, that line's. `paid` is what that line says (negative), None while it is in no file. `difference` must be 0.
    """

    payout_id: str
    currency: str
    lines: Decimal
    paid: Decimal | None
    difference: Decimal | None


@dataclass(frozen=True, slots=True)
class Unmatched:
    """A line that names no known order."""

    line_id: str
    currency: str
    amount: Decimal
    reason: str


@dataclass(frozen=True, slots=True)
class RejectedLine:
    """A record of the file that was not taken; `line` counts physical lines from 1."""

    line: int
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that the run corrected, withdrew or repaired, and what became of its reminder, in `note`."""

    outcome: Outcome
    decision: str
    order: str | None
    line_id: str | None
    payout_id: str
    currency: str
    amount: Decimal
    note: str


@dataclass(frozen=True, slots=True)
class Report:
    """All of it. Lists hold at most `limit` entries; `totals` says how many there are."""

    run: RunSummary
    categories: tuple[CategorySum, ...]
    decisions: tuple[DecisionSum, ...]
    outcomes: Mapping[str, int]
    """Decisions by what the run did to them."""
    payouts: tuple[PayoutSum, ...]
    """Those that do not add up."""
    unmatched: tuple[Unmatched, ...]
    rejects: tuple[RejectedLine, ...]
    changes: tuple[Change, ...]
    not_told: Mapping[str, int]
    """Decisions without a reminder, by why: `no rule`, `too old`, `reminders off`, or the refusal's text."""
    reminders: Mapping[str, int]
    """Reminders of the run's decisions by their present status."""
    totals: Mapping[str, int]
    """`payouts`, `unmatched`, `rejects`, `changes`."""

    @property
    def has_rejects(self) -> bool:
        return bool(self.totals["rejects"])


def report(database: Database, run_id: UUID, *, limit: int = 1000) -> Report:
    """What a run came to by now. Raises `NotFound`."""
    with database.transaction() as connection:
        schema = database.schema
        row = ledger.run(connection, schema, run_id)
        if row is None:
            raise NotFound(f"there is no run {run_id}; `reminders reconcile --runs` lists them")
        run = _summary(row)
        key = str(run_id)
        payouts, payouts_off = ledger.listed(connection, schema, ledger.PAYOUTS, id=key, source=run.source, limit=limit)
        unmatched, all_unmatched = ledger.listed(connection, schema, ledger.UNMATCHED, id=key, limit=limit)
        rejects, all_rejects = ledger.listed(connection, schema, ledger.REJECTS, id=key, limit=limit)
        changes, all_changes = ledger.listed(connection, schema, ledger.CHANGES, id=key, limit=limit)
        return Report(
            run=run,
            categories=tuple(CategorySum(*each) for each in ledger.sums(connection, schema, ledger.CATEGORIES, id=key)),
            decisions=tuple(DecisionSum(*each) for each in ledger.sums(connection, schema, ledger.DECISIONS, id=key)),
            outcomes=dict(ledger.sums(connection, schema, ledger.OUTCOMES, id=key)),
            payouts=tuple(PayoutSum(*each) for each in payouts),
            unmatched=tuple(Unmatched(*each) for each in unmatched),
            rejects=tuple(RejectedLine(*each) for each in rejects),
            changes=tuple(Change(*each) for each in changes),
            not_told=dict(ledger.sums(connection, schema, ledger.NOT_TOLD, id=key, limit=limit)),
            reminders=dict(ledger.sums(connection, schema, ledger.REMINDERS, id=key)),
            totals={"payouts": payouts_off, "unmatched": all_unmatched, "rejects": all_rejects, "changes": all_changes},
        )


def runs(database: Database, source: str | None = None, *, limit: int = 50) -> list[RunSummary]:
    """The newest first; of one source, or of all."""
    with database.transaction() as connection:
        return [_summary(row) for row in ledger.runs(connection, database.schema, source, limit)]


def _summary(row: Row) -> RunSummary:
    values: list[Any] = [value.astimezone(UTC) if isinstance(value, datetime) else value for value in row[1:]]
    return RunSummary(UUID(row[0]), *values)

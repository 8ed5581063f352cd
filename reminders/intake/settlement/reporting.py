"""What a run of reconciliation came to, from the tables it wrote.

INTERFACE ONLY for now (the bodies follow).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Literal
from uuid import UUID

from reminders.ledger.database import Database

Outcome = Literal["created", "unchanged", "corrected", "withdrawn", "repaired"]
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
    `currency`, that line's. `paid` is what that line says (negative), None while it is in no file. `difference` must be 0."""

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
    """Raises `NotFound`."""
    raise NotImplementedError


def runs(database: Database, source: str | None = None, *, limit: int = 50) -> list[RunSummary]:
    """The newest first."""
    raise NotImplementedError

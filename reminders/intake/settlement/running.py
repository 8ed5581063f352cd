"""A run of reconciliation: three steps in pages, each page one transaction that also moves the run's cursor.

INTERFACE ONLY for now (the bodies follow); what calls it may rely on names, types and meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from reminders.domain.errors import Refused
from reminders.intake.settlement.matching import Matcher
from reminders.intake.settlement.reporting import Report
from reminders.ledger.database import Database
from reminders.settings import Settings

if TYPE_CHECKING:
    from reminders.intake.settlement.config import Reconciliation
    from reminders.intake.settlement.cutting import FilePage
    from reminders.intake.settlement.formats import Header

LEASE = timedelta(seconds=60)
"""How long a run belongs to who holds it after each page."""
Step = Literal["lines", "decide", "missing", "done"]


class LostRun(Refused):
    """Another process has taken the run over, or ended it: whoever held it has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every run needs. `tell` gets one line whenever Postgres has failed and is tried again for `patience` seconds.

    `clock` is for tests only; without it Postgres's own decides.
    """

    database: Database
    settings: Settings
    config: Reconciliation
    matcher: Matcher
    tell: Callable[[str], None]
    patience: float = 60.0
    clock: Callable[[], datetime] | None = None


@dataclass(frozen=True, slots=True)
class RunFile:
    """What a first pass over the whole file found; `pages` and `records` as the cutter counts them, `sha256` in hex."""

    name: str
    sha256: str
    pages: int
    records: int


@dataclass(frozen=True, slots=True)
class AlreadyRunning:
    """Somebody else has this file in work, and was heard of less than `LEASE` ago. Nothing was done."""

    run_id: UUID
    since: datetime
    step: Step
    page: int
    """Pages of the file that are in."""
    pages: int
    free_at: datetime
    """When it may be taken over, if nothing more is heard of it."""


@dataclass(frozen=True, slots=True)
class LinesDone:
    """What became of one page of the file. `read` is the sum of the others."""

    page: int
    read: int
    new: int
    changed: int
    unchanged: int
    rejected: int


class Run:
    """A run that this process holds. Every method is one transaction; a kill anywhere repeats nothing and loses nothing.

    All raise `LostRun` once another process has taken the run over, `ServiceUnavailable` if Postgres stays away, and
    `MatcherFault` if the application's matcher or hook raises (its page is rolled back).
    """

    id: UUID
    fence: int
    """Together with `id` what a later task gives to `go_on`."""
    step: Step
    next_page: int
    """The number of the first page of the file that is not in yet; pages before it are passed over."""
    only_page: int | None

    def page_of_lines(self, header: Header, page: FilePage) -> LinesDone | None:
        """Take in one page of the file. None if it was in already. Must come in order, unless the run is of one page."""
        raise NotImplementedError

    def decide_next(self) -> bool:
        """Decide over the next orders that the run has touched. False when there are none left (then `step` has moved on)."""
        raise NotImplementedError

    def missing_next(self) -> bool:
        """Decide over the next orders whose payout is overdue. False when there are none left."""
        raise NotImplementedError

    def finish(self) -> Report:
        """End the run once no step is left, and tell what came of it."""
        raise NotImplementedError

    def let_go(self, why: str | None = None) -> None:
        """Leave the run to whoever asks for it next, who goes on where it stands (Ctrl-C, a fault). Raises nothing."""
        raise NotImplementedError


def begin(
    workshop: Workshop,
    subject: RunFile | Literal["missing"],
    *,
    actor: str,
    only_page: int | None = None,
    reminders: bool = True,
    lease: timedelta = LEASE,
) -> Run | AlreadyRunning:
    """A new run, or one that was broken off, where it stands. `subject` is a file, or step 3 alone."""
    raise NotImplementedError


def go_on(workshop: Workshop, run_id: UUID, fence: int) -> Run:
    """The run as an earlier task of the same holder left it. Raises `LostRun`, `NotFound`."""
    raise NotImplementedError

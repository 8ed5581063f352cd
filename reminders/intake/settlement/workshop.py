"""What a run of reconciliation needs, and what is said of one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from reminders.domain.errors import Refused
from reminders.intake.patience import PATIENCE
from reminders.intake.settlement.config import Reconciliation
from reminders.intake.settlement.matching import Matcher
from reminders.ledger.database import Database
from reminders.settings import Settings


class LostRun(Refused):
    """Another process has taken the run over, or it has ended: whoever held it has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Workshop:
    """What every run needs. `tell` gets one line whenever Postgres has failed and is tried again for `patience` seconds.

    `config_hash` stands for the configuration's text: a run that was broken off under another one is not gone on with.
    `clock` is for tests; without it Postgres's own decides.
    """

    database: Database
    settings: Settings
    config: Reconciliation
    matcher: Matcher
    tell: Callable[[str], None]
    config_hash: str = ""
    patience: float = PATIENCE
    clock: Callable[[], datetime] | None = None


@dataclass(frozen=True, slots=True)
class RunFile:
    """What a first pass over the whole file found: `pages` and `records` as the cutter counts, `sha256` in hexadecimal."""

    name: str
    sha256: str
    pages: int
    records: int


@dataclass(frozen=True, slots=True)
class AlreadyRunning:
    """Somebody else has this file in work, and was heard of less than its lease ago. Nothing was done. UTC."""

    run_id: UUID
    since: datetime
    step: str
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

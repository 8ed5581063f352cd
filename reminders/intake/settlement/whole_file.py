"""One process runs a whole settlement file, or a step over everything; tasks do the same a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from reminders.domain.errors import InvalidInput, ServiceUnavailable
from reminders.intake.settlement.config import load_config
from reminders.intake.settlement.first_pass import FirstPass, first_pass, second_pass
from reminders.intake.settlement.matching import load_matcher
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import AlreadyRunning, LinesDone, Run, RunFile, Workshop, begin
from reminders.ledger.database import Database
from reminders.settings import Settings


class Watcher(Protocol):
    """Is shown how it goes."""

    def checked(self, records: int, pages: int) -> None:
        """The first pass is over, and the file is one."""

    def page(self, done: LinesDone | None, number: int, bytes_read: int) -> None:
        """A page is in, now or before; `bytes_read` of the file are behind it."""

    def decided(self, pages: int) -> None:
        """So many pages of orders are decided over."""


class Unwatched:
    """For who does not look."""

    def checked(self, records: int, pages: int) -> None:
        """As `Watcher` says."""

    def page(self, done: LinesDone | None, number: int, bytes_read: int) -> None:
        """As `Watcher` says."""

    def decided(self, pages: int) -> None:
        """As `Watcher` says."""


def open_workshop(database: Database, settings: Settings, config: Path, tell: Callable[[str], None]) -> Workshop:
    """What runs by this configuration need. Raises `SettingsError` with its faults, or if its matcher cannot be loaded."""
    found = load_config(config)
    matcher = load_matcher(found.matcher)
    return Workshop(database, settings, found, matcher, tell, sha256(config.read_bytes()).hexdigest())


def run_file(
    workshop: Workshop,
    stream: BinaryIO,
    name: str,
    *,
    actor: str,
    only_page: int | None = None,
    reminders: bool = True,
    watcher: Watcher | None = None,
) -> Report | AlreadyRunning:
    """Read the file to its end, then take it in and decide. `stream` must be seekable: it is read twice.

    Raises `MalformedFile`, with nothing written; `InvalidInput` for a page that the file does not have; else as `Run` does.
    """
    watcher = watcher or Unwatched()
    form = workshop.config.format
    first = first_pass(stream, form)
    check_page(only_page, len(first.digests))
    watcher.checked(first.records, len(first.digests))
    stream.seek(0)
    file = RunFile(name, first.sha256, len(first.digests), first.records)
    run = begin(workshop, file, actor=actor, only_page=only_page, reminders=reminders)
    if isinstance(run, AlreadyRunning):
        return run
    with let_go_if_cut_off(run, file.pages):
        _take_lines(run, workshop, stream, first, watcher)
        decide(run, watcher)
        return run.finish()


def run_missing(workshop: Workshop, *, actor: str, reminders: bool = True) -> Report | AlreadyRunning:
    """Look for orders whose payout is overdue, without any file. Raises as `Run` does."""
    run = begin(workshop, "missing", actor=actor, reminders=reminders)
    if isinstance(run, AlreadyRunning):
        return run
    with let_go_if_cut_off(run, 0):
        decide(run, Unwatched())
        return run.finish()


def check_page(only_page: int | None, pages: int) -> None:
    """Raise `InvalidInput` for a page that the file does not have."""
    if only_page is not None and not 1 <= only_page <= pages:
        has = "no page: no record is below its header" if not pages else "1 page" if pages == 1 else f"{pages:,} pages"
        raise InvalidInput("page", f"the file has {has}")


def decide(run: Run, watcher: Watcher) -> None:
    """Steps 2 and 3, as far as they are still to be done."""
    pages = 0
    while run.step == "decide" and run.decide_next():
        pages += 1
        watcher.decided(pages)
    while run.step == "missing" and run.missing_next():
        pages += 1
        watcher.decided(pages)


@contextmanager
def let_go_if_cut_off(run: Run, pages: int) -> Iterator[None]:
    """Leave the run to whoever comes next, if the block is broken off; an interruption and an outage say how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        run.let_go("interrupted")
        raise KeyboardInterrupt(f"Broken off {_where(run, pages)}; {_AGAIN}") from None
    except ServiceUnavailable as error:
        run.let_go("the database was away")
        raise ServiceUnavailable(f"{error}\nThe run stands {_where(run, pages)}; {_AGAIN}") from error
    except Exception as error:
        run.let_go(type(error).__name__)
        raise


_AGAIN = "run the same command again to go on: nothing is done twice"


def _where(run: Run, pages: int) -> str:
    return f"behind page {run.next_page - 1} of {pages}" if run.step == "lines" else "while deciding"


def _take_lines(run: Run, workshop: Workshop, stream: BinaryIO, first: FirstPass, watcher: Watcher) -> None:
    if run.step != "lines":
        return
    form = workshop.config.format
    header = form.read_header(first.header)
    for page, bytes_read in second_pass(stream, form, first):
        if run.only_page in {None, page.number} and page.number >= run.next_page:
            watcher.page(run.page_of_lines(header, page), page.number, bytes_read)
        else:
            watcher.page(None, page.number, bytes_read)
        if page.number == run.only_page:
            return

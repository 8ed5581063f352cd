"""A settlement file, twice from its beginning: once to see whether it is one, once to take it in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Protocol

from reminders.domain.errors import RemindersError
from reminders.intake.importing import rare_collections
from reminders.intake.settlement.config import load_config
from reminders.intake.settlement.content import check_start, content_digest, page_digest
from reminders.intake.settlement.cutting import FilePage, MalformedFile
from reminders.intake.settlement.formats import Format, Header
from reminders.intake.settlement.matching import load_matcher
from reminders.intake.settlement.reach import check_reach
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import Run, RunFile, Workshop
from reminders.ledger.database import Database
from reminders.settings import Settings

CHUNK = 1 << 20
"""Bytes read at once."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that can be read from end to end, with its columns and the digest of each page."""

    file: RunFile
    header: Header
    digests: tuple[bytes, ...]


class Observer(Protocol):
    """Is shown how a run goes."""

    def advance(self, run: Run) -> None:
        """A page is committed: `run.step` and `run.next_page` say where it stands."""


class _Silent:
    def advance(self, run: Run) -> None:
        pass


def open_workshop(database: Database, settings: Settings, config: Path, tell: Callable[[str], None]) -> Workshop:
    """What runs by this configuration need. Raises `SettingsError` with its faults, or if its matcher cannot be had."""
    found = load_config(config)
    check_reach(config, found, settings)
    return Workshop(
        database, settings, found, load_matcher(found.matcher), tell, sha256(config.read_bytes()).hexdigest()
    )


def check(stream: BinaryIO, name: str, form: Format) -> Checked:
    """Read the whole file and write nothing. Raises `MalformedFile`, `RemindersError` if it cannot be read."""
    cutter = form.cutter()
    digests: list[bytes] = []
    header: Header | None = None
    for number, chunk in enumerate(_chunks(stream)):
        if number == 0:
            check_start(chunk)
        digests += [page_digest(page.content) for page in cutter.feed(chunk)]
        if header is None and cutter.header is not None:
            header = form.read_header(cutter.header)
    digests += [page_digest(page.content) for page in cutter.finish()]
    assert cutter.header is not None
    header = header or form.read_header(cutter.header)
    digest = content_digest(cutter.header, digests)
    return Checked(RunFile(name, digest.hex(), cutter.pages, cutter.records), header, tuple(digests))


def pages(stream: BinaryIO, form: Format, checked: Checked | None = None) -> Iterator[FilePage]:
    """The pages of a file. Raises `MalformedFile` at the first that is not what `check` has read there."""
    cutter = form.cutter()
    for chunk in _chunks(stream):
        yield from _as_checked(cutter.feed(chunk), checked)
    yield from _as_checked(cutter.finish(), checked)


def _as_checked(found: Iterable[FilePage], checked: Checked | None) -> Iterator[FilePage]:
    for page in found:
        if checked is None:
            yield page
            continue
        if page.number > len(checked.digests) or page_digest(page.content) != checked.digests[page.number - 1]:
            raise MalformedFile(
                "is not what it was when the file was checked; it was changed meanwhile", page.first_line
            )
        yield page


def _chunks(stream: BinaryIO) -> Iterator[bytes]:
    while True:
        try:
            chunk = stream.read(CHUNK)
        except OSError as error:
            raise RemindersError(f"the file cannot be read: {error.strerror}") from error
        if not chunk:
            return
        yield chunk


def carry_out(
    run: Run, header: Header | None = None, found: Iterable[FilePage] = (), observer: Observer | None = None
) -> Report:
    """Take a run through all steps that are left. Whatever ends it early leaves it to whoever runs the file again."""
    watching = observer or _Silent()
    try:
        with rare_collections():
            if run.step == "lines":
                assert header is not None
                _take_in(run, header, found, watching)
            while run.decide_next():
                watching.advance(run)
            while run.missing_next():
                watching.advance(run)
        return run.finish()
    except BaseException as error:
        run.let_go(str(error) if isinstance(error, RemindersError) else type(error).__name__)
        raise


def _take_in(run: Run, header: Header, found: Iterable[FilePage], watching: Observer) -> None:
    for page in found:
        if run.page_of_lines(header, page) is not None:
            watching.advance(run)
        if run.step != "lines":
            return
    raise MalformedFile("the file has fewer pages than when it was checked; it was changed meanwhile")

"""A settlement file, twice from its beginning: once to see whether it is one, once to take it in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO, Protocol

from reminders.domain.errors import RemindersError
from reminders.intake.settlement.cutting import FilePage, MalformedFile
from reminders.intake.settlement.formats import Format, Header
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import Run, RunFile

CHUNK = 1 << 20
"""Bytes read at once."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A file that can be read from end to end, with its columns."""

    file: RunFile
    header: Header


class Observer(Protocol):
    """Is shown how a run goes."""

    def advance(self, run: Run) -> None:
        """A page is committed: `run.step` and `run.next_page` say where it stands."""


class _Silent:
    def advance(self, run: Run) -> None:
        pass


def check(stream: BinaryIO, name: str, form: Format) -> Checked:
    """Read the whole file and write nothing. Raises `MalformedFile`."""
    hashed = sha256()
    cutter = form.cutter()
    while chunk := stream.read(CHUNK):
        hashed.update(chunk)
        cutter.feed(chunk)
    cutter.finish()
    assert cutter.header is not None
    file = RunFile(name, hashed.hexdigest(), cutter.pages, cutter.records)
    return Checked(file, form.read_header(cutter.header))


def pages(stream: BinaryIO, form: Format) -> Iterator[FilePage]:
    """The pages of a file that `check` has read. Raises `MalformedFile` if it is another one by now."""
    cutter = form.cutter()
    while chunk := stream.read(CHUNK):
        yield from cutter.feed(chunk)
    yield from cutter.finish()


def carry_out(
    run: Run, header: Header | None = None, found: Iterable[FilePage] = (), observer: Observer | None = None
) -> Report:
    """Take a run through all steps that are left. Whatever ends it early leaves it to whoever runs the file again."""
    watching = observer or _Silent()
    try:
        if run.step == "lines":
            assert header is not None
            for page in found:
                if run.page_of_lines(header, page) is not None:
                    watching.advance(run)
                if run.step != "lines":
                    break
            else:
                raise MalformedFile("has fewer pages than when it was checked; it was changed meanwhile")
        while run.decide_next():
            watching.advance(run)
        while run.missing_next():
            watching.advance(run)
        return run.finish()
    except BaseException as error:
        run.let_go(str(error) if isinstance(error, RemindersError) else type(error).__name__)
        raise

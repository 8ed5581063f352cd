"""What every format of settlement files can do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from reminders.domain.settlement import SettlementLine
from reminders.intake.records import Reject
from reminders.intake.settlement.cutting import CutterState, FilePage, RecordCutter


@dataclass(frozen=True, slots=True)
class Header:
    """The columns of one file: how many there are, and where in a row each field is that the format reads."""

    width: int
    positions: tuple[int, ...]


class Format(Protocol):
    """How one provider's files are read."""

    @property
    def name(self) -> str: ...

    def cutter(self, state: CutterState = ...) -> RecordCutter:
        """A cutter for a file of this format, or one that goes on where another stood."""
        ...

    def read_header(self, header: bytes) -> Header:
        """What a cutter found as header. Raises `MalformedFile` if columns are missing or there twice."""
        ...

    def read_page(self, header: Header, page: FilePage) -> Iterator[SettlementLine | Reject]:
        """The lines of a page, in their order, and what is wrong with those that are none. Raises nothing."""
        ...

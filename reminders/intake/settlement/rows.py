"""The rows of one page, each with the physical line it begins in."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from typing import TypeAlias

from reminders.intake.csv_records import fault_of
from reminders.intake.settlement.cutting import FilePage, MalformedFile

Row: TypeAlias = tuple[int, list[str] | str]
"""A line's number with its values, or with what is wrong with it."""


class _Lines:
    """A page's lines for `csv.reader`, which may be set back."""

    def __init__(self, lines: list[str]) -> None:
        self.at = 0
        """Of the line that comes next."""
        self._lines = lines

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if self.at == len(self._lines):
            raise StopIteration
        self.at += 1
        return self._lines[self.at - 1]


def rows_of(page: FilePage, delimiter: str) -> Iterator[Row]:
    """The rows of a page; blank ones are left out.

    A quoting mistake shows only where its quote ends, lines later perhaps. Then the line it began in is at fault, those
    between are read as rows of a line each, and the one where it showed begins afresh. So there may be more rows than
    the page has records, and no line is read more than three times.
    """
    texts = list(StringIO(page.content.decode(), newline="\n"))
    lines = _Lines(texts)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        start = lines.at
        try:
            row: list[str] | str = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            row, shown = fault_of(error), lines.at - 1
            lines.at = max(shown, start + 1)
        if "".join(row).strip():
            yield page.first_line + start, row
        if isinstance(row, str):
            for alone in range(start + 1, lines.at):
                yield from _row_of_one_line(texts[alone], page.first_line + alone, delimiter)


def _row_of_one_line(text: str, number: int, delimiter: str) -> Iterator[Row]:
    try:
        (row,) = csv.reader([text], delimiter=delimiter, strict=True)
    except csv.Error as error:
        yield number, fault_of(error)
    else:
        if "".join(row).strip():
            yield number, row


def names_of(header: bytes, delimiter: str) -> list[str]:
    """The names of the columns, without blanks around them. Raises `MalformedFile`."""
    try:
        (names,) = csv.reader(StringIO(header.decode(), newline="\n"), delimiter=delimiter, strict=True)
    except (csv.Error, ValueError) as error:
        why = fault_of(error) if isinstance(error, csv.Error) else "is no single line of CSV"
        raise MalformedFile(f"the line that must name the columns {why}") from None
    return [name.strip() for name in names]

"""The rows of one page, each with the physical line it begins in."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from io import StringIO
from itertools import islice
from typing import TypeAlias

from reminders.intake.csv_records import fault_of
from reminders.intake.settlement.cutting import FilePage, MalformedFile

Row: TypeAlias = tuple[int, list[str] | str]
"""A line's number with its values, or with what is wrong with it."""


def rows_of(page: FilePage, delimiter: str) -> Iterator[Row]:
    """The rows of a page; blank ones are left out.

    After a quoting mistake the next row begins in the next physical line, since `csv.reader` may have swallowed lines
    that are rows of their own. So there may be more rows than the page has records.
    """
    lines = list(StringIO(page.content.decode(), newline="\n"))
    start = 0
    while start < len(lines):
        reader = csv.reader(islice(lines, start, None), delimiter=delimiter, strict=True)
        before = 0
        try:
            for row in reader:
                if "".join(row).strip():
                    yield page.first_line + start + before, row
                before = reader.line_num
            return
        except csv.Error as error:
            yield page.first_line + start + before, fault_of(error)
            start += before + 1


def names_of(header: bytes, delimiter: str) -> list[str]:
    """The names of the columns, without blanks around them. Raises `MalformedFile`."""
    try:
        (names,) = csv.reader(StringIO(header.decode(), newline="\n"), delimiter=delimiter, strict=True)
    except (csv.Error, ValueError) as error:
        why = fault_of(error) if isinstance(error, csv.Error) else "is no single line of CSV"
        raise MalformedFile(f"the line that must name the columns {why}") from None
    return [name.strip() for name in names]

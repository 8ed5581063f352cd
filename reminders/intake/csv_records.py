"""CSV (RFC 4180, UTF-8) with a header line."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator

from reminders.domain.errors import RemindersError
from reminders.intake.columns import check_header
from reminders.intake.lines import LONGEST_RECORD, Lines, RecordTooLong
from reminders.intake.records import Records, Reject, Values
from reminders.intake.strict_json import read_object

_QUOTES = "a quote inside a quoted value is written twice"
_REASONS = {
    "',' expected after '\"'": f"has text after a closing quote; {_QUOTES}",
    "unexpected end of data": "opens a quote that is never closed; the file may be cut off",
    "new-line": "holds a carriage return that ends no line; quote the value, or save with ordinary line ends",
    "field larger": f"is longer than {LONGEST_RECORD:,} characters; a closing quote may be missing",
}


def read_csv(lines: Lines, check: Callable[[Collection[str]], None] = check_header) -> Records:
    """The records after the header line, which is read and checked at once, by default for columns of reminders.

    Blanks around a column's name are left out; those of a value are its own.
    Raises `RemindersError` if there is no header line, `InvalidInput` if it names a wrong column or lacks one.
    """
    reader = csv.reader(lines, strict=True)
    names = _header(lines, reader, check)
    return _records(lines, reader, names)


def _header(lines: Lines, reader: Iterator[list[str]], check: Callable[[Collection[str]], None]) -> list[str]:
    while True:
        lines.start_record()
        try:
            names = next(reader)
        except StopIteration:
            raise RemindersError("The file is empty; its first line must name the columns") from None
        except (csv.Error, RecordTooLong) as error:
            raise RemindersError(f"Line {lines.first}, which must name the columns, {fault_of(error)}") from None
        if lines.fault is not None:
            raise RemindersError(f"Line {lines.first}, which must name the columns, {lines.fault}")
        names = [name.strip() for name in names]
        if any(names):
            check(names)
            return names


def _records(lines: Lines, reader: Iterator[list[str]], names: list[str]) -> Records:
    has_data = "data" in names
    while True:
        lines.start_record()
        try:
            row = next(reader)
        except StopIteration:
            return
        except (csv.Error, RecordTooLong) as error:
            yield Reject(lines.first, None, fault_of(error))
            lines.give_back()
            continue
        if lines.fault is not None:
            yield Reject(lines.first, None, lines.fault)
            continue
        if not any(row) or (len(row) == 1 and row[0].isspace()):
            continue
        if len(row) != len(names):
            yield Reject(lines.first, None, f"has {len(row)} values, but the header names {len(names)} columns")
            continue
        values: Values = {name: value for name, value in zip(names, row, strict=True) if value}
        if has_data and "data" in values:
            try:
                values["data"] = read_object(values["data"])
            except ValueError as error:
                yield Reject(lines.first, "data", str(error))
                continue
        yield lines.first, values


def fault_of(error: csv.Error | RecordTooLong) -> str:
    """What is wrong with a record that `csv.reader` refused with strict rules, as a predicate of it."""
    text = "field larger" if isinstance(error, RecordTooLong) else str(error)
    return next((reason for start, reason in _REASONS.items() if text.startswith(start)), f"is no CSV: {text}")

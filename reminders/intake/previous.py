"""What a previous system has sent, or would, from its own export: CSV or JSON Lines, to be compared with ours."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from reminders.calendar.instants import parse_instant
from reminders.calendar.zones import to_instant
from reminders.domain.comparison import PARTS, Key
from reminders.domain.errors import InvalidInput
from reminders.intake.csv_records import read_csv
from reminders.intake.lines import Lines
from reminders.intake.records import Records, Reject, Values
from reminders.intake.strict_json import read_object

_NAMING = ("reference", "user_id")
INSTANTS = ("sent_at", "due_at")
"""What may say when; the first that a file has is compared."""


@dataclass(slots=True)
class Previous:
    """The entries of a file. `parts` are the columns by which they are matched, `instant` the one that says when."""

    parts: tuple[str, ...] = ()
    instant: Literal["sent_at", "due_at"] = "sent_at"
    entries: list[tuple[Key, datetime]] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    read: int = 0


def read_previous(lines: Lines) -> Previous:
    """Read a file whole; columns that it has besides are passed over. A file that begins with `{` is JSON Lines.

    Matched by those of reference, user_id, kind and channel that it has. Times are instants with `Z` or an offset, or wall times
    with a `zone`. Raises `InvalidInput` where there is neither reference nor user_id, or no time.
    """
    found = Previous()
    records = _read_jsonl(lines) if lines.peek().lstrip("\ufeff \t").startswith("{") else read_csv(lines, check_columns)
    taken: list[tuple[int, Values]] = []
    for record in records:
        found.read += 1
        if isinstance(record, Reject):
            found.rejects.append(record)
        else:
            taken.append(record)
    there = {name for _, values in taken for name in values}
    if not taken:
        return found
    check_columns(there)
    found.parts = tuple(part for part in PARTS if part in there)
    found.instant = "sent_at" if "sent_at" in there else "due_at"
    for line, values in taken:
        try:
            key = tuple(str(values.get(part, "")) for part in found.parts)
            found.entries.append((key, _instant(values, found.instant)))
        except InvalidInput as error:
            found.rejects.append(Reject(line, error.field, error.reason))
    return found


def check_columns(names: Collection[str]) -> None:
    """Raise `InvalidInput` unless the columns say who is told, and when."""
    for needed in (_NAMING, INSTANTS):
        if not any(name in names for name in needed):
            raise InvalidInput(needed[0], f"has no column, nor has {needed[1]}; one of the two is needed to compare")


def _instant(values: Values, column: str) -> datetime:
    if column not in values:
        raise InvalidInput(column, "is missing")
    instant = parse_instant(values[column], column)
    if instant.tzinfo is not None:
        return instant
    if "zone" not in values:
        raise InvalidInput(column, "needs Z, an offset, or a zone beside it")
    return to_instant(instant, values["zone"])


def _read_jsonl(lines: Lines) -> Records:
    while True:
        lines.start_record()
        text = next(lines, None)
        if text is None:
            return
        if lines.fault is not None:
            yield Reject(lines.first, None, lines.fault)
            continue
        if text.isspace():
            continue
        try:
            values = read_object(text)
        except ValueError as error:
            yield Reject(lines.first, None, str(error))
            continue
        yield lines.first, {name: value for name, value in values.items() if value is not None and value != ""}

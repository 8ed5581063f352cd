"""What a previous system has sent, or would, from its own export: CSV or JSON Lines, to be compared with ours."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from reminders.calendar.instants import parse_instant
from reminders.domain.comparison import PARTS, Key
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_instant
from reminders.intake.csv_records import read_csv
from reminders.intake.jsonl_records import begins_as_json, read_jsonl
from reminders.intake.lines import Lines
from reminders.intake.records import Reject, Values
from reminders.pipeline.schedule import resolve_instant

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
    with a `zone`. Raises `InvalidInput` where there is neither reference nor user_id, or no time, `RemindersError` for a JSON array.
    """
    found = Previous()
    records = read_jsonl(lines, columns=None) if begins_as_json(lines) else read_csv(lines, check_columns)
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
            key = tuple(_text(values, part) for part in found.parts)
            found.entries.append((key, _instant(values, found.instant)))
        except InvalidInput as error:
            found.rejects.append(Reject(line, error.field, error.reason))
    found.rejects.sort(key=lambda reject: reject.line)
    return found


def check_columns(names: Collection[str]) -> None:
    """Raise `InvalidInput` unless the columns say who is told, and when, each once."""
    for name in (*PARTS, *INSTANTS, "zone"):
        if list(names).count(name) > 1:
            raise InvalidInput(name, "is given twice in the header line")
    for needed in (_NAMING, INSTANTS):
        if not any(name in names for name in needed):
            raise InvalidInput(needed[0], f"has no column, nor has {needed[1]}; one of the two is needed to compare")


def _text(values: Values, part: str) -> str:
    """What a column says, as it would be compared; a number of JSON is the text that it is written as."""
    value = values.get(part, "")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InvalidInput(part, "must be text, or a whole number")
    return str(value)


def _instant(values: Values, column: str) -> datetime:
    if column not in values:
        raise InvalidInput(column, "is missing")
    return checked_instant(column, resolve_instant(column, parse_instant(values[column], column), values.get("zone")))

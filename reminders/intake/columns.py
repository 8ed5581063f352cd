"""The columns of a file: the keyword names of `schedule`."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Any

from reminders.calendar.instants import parse_instant
from reminders.domain.errors import InvalidInput
from reminders.intake.records import Values
from reminders.pipeline.schedule import to_request

_PARAMETERS = [p for p in inspect.signature(to_request).parameters.values() if p.kind is p.KEYWORD_ONLY]
COLUMNS = tuple(parameter.name for parameter in _PARAMETERS)
REQUIRED = tuple(parameter.name for parameter in _PARAMETERS if parameter.default is parameter.empty)
_REQUIRED = frozenset(REQUIRED)
_NAME_SHOWN = 64


def unknown_column(name: str, columns: Sequence[str] = COLUMNS, what: str = "a reminder") -> InvalidInput:
    """The error for a name that is no column, with the known name that is nearest to it."""
    shown = name[:_NAME_SHOWN] if name.isprintable() and name == name.strip() else ascii(name[:_NAME_SHOWN])
    nearest = get_close_matches(name[:_NAME_SHOWN].lower(), columns, n=1)
    meant = f"; did you mean {nearest[0]}?" if nearest else "."
    hint = "; separate columns by commas" if any(separator in name for separator in ";\t|") else ""
    return InvalidInput(shown or "''", f"is no column of {what}{meant} There are {', '.join(columns)}{hint}")


def check_header(
    names: Collection[str],
    columns: Sequence[str] = COLUMNS,
    required: Sequence[str] = REQUIRED,
    what: str = "a reminder",
) -> None:
    """Raise `InvalidInput` naming the first column that is unknown, given twice, or required and missing."""
    seen: set[str] = set()
    for name in names:
        if name not in columns:
            raise unknown_column(name, columns, what)
        if name in seen:
            raise InvalidInput(name, "is given twice in the header line")
        seen.add(name)
    for name in required:
        if name not in seen:
            raise InvalidInput(name, f"has no column; required are {', '.join(required)}")


def to_arguments(values: Values) -> dict[str, Any]:
    """The keyword arguments of `schedule`: `values` itself, with instants read. Raises `InvalidInput`."""
    if not values.keys() >= _REQUIRED:
        raise InvalidInput(next(name for name in REQUIRED if name not in values), "is missing")
    values["due_at"] = parse_instant(values["due_at"], "due_at")
    if "expires_at" in values:
        values["expires_at"] = parse_instant(values["expires_at"], "expires_at")
    return values

"""Values as people give them on the command line, read and checked. Everything else is `reminders.domain.request`'s."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import click

from reminders.calendar.instants import parse_instant
from reminders.cli.input_file import fault_of, open_file
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.domain.request import LAST_YEAR, MAX_DATA_BYTES, checked_text
from reminders.intake.strict_json import read_object

LONGEST_DATA = 4 * MAX_DATA_BYTES
"""Bytes of JSON text that are read at all; its canonical form must fit into `MAX_DATA_BYTES`."""
_PART = re.compile(r"[0-9.]+(?:ms|[smhd])")
_SPAN = re.compile(rf"(?:{_PART.pattern})+")
_SEVERAL_PARTS = re.compile(rf"(?:{_PART.pattern}){{2,}}")
Decorated = TypeVar("Decorated", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")

overdue_option = click.option(
    "--overdue",
    type=click.Choice(["send", "reject"]),
    default="reject",
    show_default=True,
    help="What to do if that was more than 24 hours ago.",
)


def limit_option(default: int, what: str) -> Callable[[Decorated], Decorated]:
    """`--limit`, with its default."""
    text = f"At most so many {what}."
    return click.option("--limit", type=click.IntRange(1, 1_000_000), default=default, show_default=True, help=text)


def read_id(text: str, field: str = "id") -> UUID:
    """A reminder's, letter's or destination's id. Raises `InvalidInput`."""
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(
            field, f"{text[:64]!r} is no id; ids look like 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"
        ) from None


def read_filters(filters: Mapping[str, str | None]) -> dict[str, str | None]:
    """Texts to look for, by field name, checked like texts to store. Raises `InvalidInput`."""
    return {name: None if text is None else checked_text(name, text) for name, text in filters.items()}


def read_due_at(text: str, field: str = "due_at") -> datetime:
    """An instant or wall time as `parse_instant` reads it, or `+10s`, `+5m`, `+1h30m` from now. Raises `InvalidInput`."""
    if not text.startswith("+"):
        try:
            return parse_instant(text, field)
        except InvalidInput as error:
            if _SPAN.fullmatch(text) is None:
                raise
            raise InvalidInput(
                field, error.reason.replace("; write ", f"; write +{text} for a time from now, ")
            ) from None
    try:
        seconds = sum(map(parse_duration, _parts(text[1:])))
        return datetime.now(UTC) + timedelta(seconds=seconds)
    except ValueError:
        raise InvalidInput(field, f"{text[:40]!r} is no time from now; write +10s, +5m, +2h or +1h30m") from None
    except OverflowError:
        raise InvalidInput(field, f"{text[:40]!r} is too far ahead; the last year is {LAST_YEAR}") from None


def _parts(text: str) -> list[str]:
    """`1h30m` as `1h` and `30m`; a single duration as it is."""
    return _PART.findall(text) if _SEVERAL_PARTS.fullmatch(text) else [text]


def read_data(text: str | None) -> dict[str, Any] | None:
    """The JSON object in `text`, or in the file named after an `@`; `@-` is standard input. Raises `InvalidInput`.

    Refused is also what JSON readers disagree about: keys given twice, NaN and Infinity.
    """
    if text is None:
        return None
    if text.startswith("@"):
        text = _read_file(text[1:])
    elif len(text) > LONGEST_DATA:
        _refuse_long()
    try:
        return read_object(text)
    except ValueError as error:
        raise InvalidInput("data", str(error)) from None


def _read_file(name: str) -> str:
    if name == "-" and sys.stdin is None:
        raise InvalidInput("data", "standard input is closed")
    try:
        raw = sys.stdin.buffer.read(LONGEST_DATA + 1) if name == "-" else _head(name)
        if len(raw) > LONGEST_DATA:
            _refuse_long()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidInput("data", f"{name!r} is not UTF-8 text") from None
    except (OSError, ValueError) as error:
        raise InvalidInput("data", f"{name!r} cannot be read: {fault_of(error)}") from None


def _head(name: str) -> bytes:
    with open_file(name) as file:
        return file.read(LONGEST_DATA + 1)


def _refuse_long() -> NoReturn:
    raise InvalidInput("data", f"is too long; at most {MAX_DATA_BYTES:,} bytes are allowed")

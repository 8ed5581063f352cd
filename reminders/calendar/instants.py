"""Instants as text: what people and files write, and how we write them back.

Accepted is the part of ISO 8601 that nobody misreads: a full date, a time of day to the minute or finer, and `Z`, an
offset, or neither (a wall time, which needs a zone beside it).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from reminders.domain.errors import InvalidInput

# `datetime.fromisoformat` alone would also take dates without a time, week dates, any letter between date and time,
# and, depending on Python's release, 24:00.
_SHAPE = re.compile(
    r"\d{4}-\d\d-\d\d[T ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?(?:Z|[+-](?:[01]\d|2[0-3]):?[0-5]\d)?",
    re.ASCII,
)
_matches = _SHAPE.fullmatch
_DATE_ONLY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_SHOWN = 40


def parse_instant(text: str, field: str = "due_at") -> datetime:
    """The datetime written as `YYYY-MM-DD[T ]HH:MM[:SS[.ffffff]]`, then `Z`, `±HH:MM`, `±HHMM` or nothing.

    Naive exactly when neither `Z` nor an offset is there. Raises `InvalidInput` naming `field` for everything else.
    """
    if not isinstance(text, str):
        raise InvalidInput(field, f"must be text, not {type(text).__name__}")
    if _matches(text) is not None:
        try:
            return datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidInput(field, f"{text!r} is no date: {error}") from None
    shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
    if not text.strip():
        problem = "is empty"
    elif _DATE_ONLY.fullmatch(text):
        problem = f"{shown} has no time of day"
    else:
        problem = f"{shown} is no instant"
    raise InvalidInput(
        field, f"{problem}; write 2026-05-01T09:30 with a zone, 2026-05-01T09:30Z or 2026-05-01T09:30+02:00"
    )


def instant_text(instant: datetime) -> str:
    """An aware datetime in UTC, as all our output has it: `2026-05-01T07:30:00Z`, with microseconds if there are any."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")

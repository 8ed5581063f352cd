"""What the readers of a file yield: a record with the line it begins in, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Reject:
    """A record that was not taken. `line` counts physical lines from 1; `field` is None when no single field is at fault.

    `reason` quotes at most what identifies the fault (a column's, zone's or channel's name, a time, a reference), never
    a destination, a user or anything of `data`.
    """

    line: int
    field: str | None
    reason: str


Values: TypeAlias = dict[str, Any]
"""By column name. What was null or empty text in the file is left out."""
Records: TypeAlias = Iterator[tuple[int, Values] | Reject]

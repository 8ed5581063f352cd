"""How much a template may do: work is counted, not timed, so that the same template ends the same way everywhere."""

from __future__ import annotations

from math import isfinite
from typing import Any

from jinja2 import Undefined
from jinja2.runtime import Context

LONGEST_SOURCE = 131_072
"""Characters of one part's source."""
LONGEST_OUTPUT = 262_144
"""Characters that one part may come to."""
LONGEST_VALUE = 65_536
"""Characters of any text in between."""
MOST_WORK = 4_000_000
"""Units that filling in one part may take: a unit for each character that is moved, `STEP` for each step."""
STEP = 20
LARGEST_NUMBER = 2**63
WORK = "_work"
"""The name under which a template's context has its `Work`; templates cannot name it."""


class Misuse(Exception):
    """What a template asks for cannot be done. The message holds no value of the data."""


class Work:
    """What is left to one filling in."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = MOST_WORK

    def spend(self, units: int) -> None:
        """Raises `Misuse` where it is used up."""
        self._left -= units
        if self._left < 0:
            raise Misuse("it takes too many steps; loop over less, or write less")


def work_of(context: Context) -> Work:
    """The work of the filling in that is under way."""
    work = context.parent[WORK]
    assert isinstance(work, Work)
    return work


def present(value: Any) -> Any:
    """The value. Raises `UndefinedError` for one that is missing, naming it."""
    if isinstance(value, Undefined):
        str(value)
    return value


def within(number: Any) -> Any:
    """The number that was just made. Raises `Misuse` if it is too large."""
    if not isfinite(number) or abs(number) >= LARGEST_NUMBER:
        raise Misuse("a number is too large")
    return number


def kept_short(text: Any, context: Context) -> Any:
    """The text that was just made, paid for. Raises `Misuse` if it is too long."""
    if len(text) > LONGEST_VALUE:
        raise Misuse(f"a text has {len(text):,} characters; at most {LONGEST_VALUE:,} are allowed")
    work_of(context).spend(len(text))
    return text

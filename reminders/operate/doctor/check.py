"""What a check of the doctor is, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

Severity = Literal["fatal", "warning", "note"]
"""`fatal`: reminders are not sent, or a guarantee does not hold, until it is mended. `warning`: something is late, unsafe or
near its limit. `note`: an operator should know it."""
Facts = TypeVar("Facts")


@dataclass(frozen=True, slots=True)
class Check(Generic[Facts]):
    """One thing that must be so, known to operators by its `name`.

    `look` says what is not so, in a line that never holds a secret; None where all is well. `meaning` says what must hold,
    `remedy` what to do. With `at_start`, no process of the installation starts before it is mended.
    """

    name: str
    severity: Severity
    meaning: str
    remedy: str
    look: Callable[[Facts], str | None] = field(repr=False)
    at_start: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. `accepted`: an operator knows of it, and it stops nothing (`REMINDERS_ACCEPT`)."""

    check: Check[Any]
    found: str
    accepted: bool = False


def look(checks: Sequence[Check[Facts]], facts: Facts, accepted: Collection[str] = ()) -> list[Finding]:
    """What `checks` find in `facts`, in their order."""
    looked = [(check, check.look(facts)) for check in checks]
    return [Finding(check, found, check.name in accepted) for check, found in looked if found is not None]


def listed(names: Collection[str], most: int = 5) -> str:
    """`a, b, c and 12 more`."""
    shown = list(names)[:most]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def first_line(error: BaseException) -> str:
    """What an error says first: drivers add hints that fill a screen."""
    return str(error).strip().partition("\n")[0] or type(error).__name__

"""Instants as the wall times that messages show. Independent of the machine's locale, zone files and C library."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

from reminders.calendar.instants import parse_instant
from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput
from reminders.providers.template_work import Misuse

LONGEST_LAYOUT = 200
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DIRECTIVE = re.compile(r"%(-?)(.?)", re.DOTALL)
_NUMBERS: dict[str, tuple[int, Callable[[datetime], int]]] = {
    "Y": (4, lambda at: at.year),
    "y": (2, lambda at: at.year % 100),
    "m": (2, lambda at: at.month),
    "d": (2, lambda at: at.day),
    "j": (3, lambda at: at.timetuple().tm_yday),
    "H": (2, lambda at: at.hour),
    "I": (2, lambda at: (at.hour - 1) % 12 + 1),
    "M": (2, lambda at: at.minute),
    "S": (2, lambda at: at.second),
    "u": (1, lambda at: at.isoweekday()),
    "G": (4, lambda at: at.isocalendar().year),
    "V": (2, lambda at: at.isocalendar().week),
}
_WORDS: dict[str, Callable[[datetime], str]] = {
    "A": lambda at: _DAYS[at.weekday()],
    "a": lambda at: _DAYS[at.weekday()][:3],
    "B": lambda at: _MONTHS[at.month - 1],
    "b": lambda at: _MONTHS[at.month - 1][:3],
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "Z": lambda at: at.tzname() or "",
    "z": lambda at: at.strftime("%z"),
    "%": lambda _at: "%",
}


def local_text(value: Any, layout: str, zone: str) -> str:
    """The instant, a datetime or a text with an offset, in the zone. `layout` has strftime's directives, as far as known.

    Names of days and months are English; `%-d` leaves the leading zero out. Raises `Misuse`, or `InvalidInput` for a text
    that is no instant, and for an unknown zone.
    """
    if len(layout) > LONGEST_LAYOUT:
        raise Misuse(f"the layout of an instant has more than {LONGEST_LAYOUT} characters")
    if isinstance(value, str):
        value = parse_instant(value, "instant")
    if not isinstance(value, datetime):
        raise Misuse("`local` takes due_at, or a text such as 2030-05-01T09:30Z")
    if value.tzinfo is None:
        raise InvalidInput("instant", "has no offset")
    at = value.astimezone(load_zone(zone))
    return _DIRECTIVE.sub(lambda found: _told(found[1], found[2], at), layout)


def _told(unpadded: str, directive: str, at: datetime) -> str:
    if directive in _NUMBERS:
        width, number = _NUMBERS[directive]
        return str(number(at)) if unpadded else f"{number(at):0{width}d}"
    if directive in _WORDS and not unpadded:
        return _WORDS[directive](at)
    raise Misuse(f"the layout of an instant has no %{unpadded}{directive}")

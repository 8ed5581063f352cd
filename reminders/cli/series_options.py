"""The options that say when a series fires and what it sends, for `series add`, `series edit` and `preview`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

import click

from reminders.calendar.instants import parse_instant
from reminders.cli.values import read_data
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.domain.series import CATCH_UPS
from reminders.pipeline.series_request import checked_lateness

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
NOTHING = "none"
"""Takes a part of a series away."""

_WHEN = (
    click.option("--start", metavar="WALL-TIME", help="The first turn at the earliest, such as 2026-05-01T09:00."),
    click.option("--zone", help="IANA zone of all these times, such as Europe/Berlin."),
    click.option(
        "--rule", help="RRULE of RFC 5545, such as FREQ=WEEKLY;BYDAY=MO,TH; without it --start is the only turn."
    ),
    click.option("--extra", metavar="WALL-TIME", multiple=True, help="A turn besides those of the rule (RDATE)."),
    click.option("--left-out", metavar="WALL-TIME", multiple=True, help="A turn of the rule that is none (EXDATE)."),
)
_WHAT = (
    click.option("--follow-user/--keep-zone", "follows_user", default=None, help="Fire in the recipient's zone as soon as it is known; --zone until then."),
    click.option("--data", help="A JSON object for the receiver, or @FILE (@- is standard input)."),
    click.option("--catch-up", type=click.Choice(CATCH_UPS), help="Of turns an outage let pass: send the newest, none, or all.  [default: latest]"),
    click.option("--max-lateness", metavar="DURATION|none", help="How late an occurrence may be sent at most, such as 2h."),
)  # fmt: skip


def when_options(command: Decorated) -> Decorated:
    """When it fires."""
    for option in reversed(_WHEN):
        command = option(command)
    return command


def definition_options(command: Decorated) -> Decorated:
    """When it fires, what it sends and how it catches up."""
    for option in reversed((*_WHEN, *_WHAT)):
        command = option(command)
    return command


def read_definition(given: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, by the names and types that `to_series_request` takes. Raises `InvalidInput`."""
    found: dict[str, Any] = {}
    readers: dict[str, Callable[[Any], Any]] = {
        "start": lambda text: read_wall("start", text),
        "zone": str,
        "rule": lambda text: None if text == NOTHING else text,
        "extra": lambda texts: read_walls("extra", texts),
        "left_out": lambda texts: read_walls("left_out", texts),
        "follows_user": bool,
        "data": read_data,
        "catch_up": str,
        "max_lateness": read_lateness,
    }
    for name, value in given.items():
        if value is not None and value != ():
            found[name] = readers[name](value)
    return found


def read_walls(field: str, texts: tuple[str, ...]) -> tuple[datetime, ...]:
    """Wall times; `none` alone stands for none of them."""
    return () if texts == (NOTHING,) else tuple(read_wall(field, text) for text in texts)


def read_wall(field: str, text: str) -> datetime:
    """A wall time. Raises `InvalidInput` for one with an offset."""
    found = parse_instant(text, field)
    if found.tzinfo is not None:
        raise InvalidInput(field, "is a wall time of the zone; leave Z or the offset out")
    return found


def read_lateness(text: str) -> float | None:
    """Seconds; None for `none`. Raises `InvalidInput`."""
    if text == NOTHING:
        return None
    try:
        return checked_lateness(parse_duration(text))
    except ValueError as error:
        raise InvalidInput("max_lateness", str(error)) from None

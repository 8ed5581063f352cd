"""Alarms (VALARM): when each rings, relative to its event or at an instant. RFC 5545 section 3.6.6, RFC 9074 section 6."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Literal

from reminders.intake.ical.components import Component, Property
from reminders.intake.ical.values import NO_TIME, Span, read_duration, read_time
from reminders.intake.records import Reject

MOST_REPEATS = 100
MOST_RINGINGS = 1_000
"""Of one event's turn."""
FURTHEST = timedelta(days=366)
"""From its event's start or end."""


class EventFault(Exception):
    """Why an event is not taken; the reject that tells of it."""

    def __init__(self, line: int, field: str | None, reason: str) -> None:
        super().__init__(reason)
        self.reject = Reject(line, field, reason)


@dataclass(frozen=True, slots=True)
class Alarm:
    """One ringing of an alarm, or of each turn of its event.

    `slot` tells it apart from the event's other ones by when it rings, so that neither the order of alarms nor the ones
    before it matter. `at` (UTC) is for alarms that ring at an instant. What would ring at or before `acknowledged` (UTC) has
    been seen.
    """

    line: int
    slot: str
    related: Literal["start", "end"] = "start"
    span: Span = NO_TIME
    at: datetime | None = None
    acknowledged: datetime | None = None


def read_alarms(event: Component) -> tuple[Alarm, ...]:
    """All ringings of an event's alarms, each slot once. Raises `EventFault`."""
    seen = event.first("X-MOZ-LASTACK")
    acknowledged = None if seen is None else _instant(seen)
    found: dict[str, Alarm] = {}
    for component in event.parts:
        if component.name == "VALARM" and (component.text("ACTION") or "").upper() != "NONE":
            for alarm in _ringings(component, acknowledged):
                found.setdefault(alarm.slot, alarm)
            if len(found) > MOST_RINGINGS:
                raise EventFault(component.line, None, f"VALARMs ring more than {MOST_RINGINGS:,} times for one event")
    return tuple(found.values())


def _ringings(component: Component, seen: datetime | None) -> Iterator[Alarm]:
    trigger = component.first("TRIGGER")
    if trigger is None:
        raise EventFault(component.line, "TRIGGER", "is missing in this VALARM")
    own = component.first("ACKNOWLEDGED")
    acknowledged = max(
        (each for each in (seen, None if own is None else _instant(own)) if each is not None), default=None
    )
    for span in _repeats(component):
        if "P" not in trigger.value.upper():
            first = _instant(trigger)
            # Days of repeats of an alarm at an instant pass as seconds: it is in no zone.
            at = first + span.length
            yield Alarm(trigger.line, f"at-{at:%Y%m%dT%H%M%SZ}", at=at, acknowledged=acknowledged)
            continue
        related = _related(trigger)
        whole = _duration(trigger) + span
        if abs(whole.length) > FURTHEST:
            raise EventFault(trigger.line, "TRIGGER", f"is further than {FURTHEST.days} days from the event")
        yield Alarm(trigger.line, f"{related}{_text(whole)}", related, whole, None, acknowledged)


def _repeats(component: Component) -> list[Span]:
    repeat, gap = component.first("REPEAT"), component.first("DURATION")
    if repeat is None or repeat.value == "0":
        return [NO_TIME]
    if (
        not repeat.value.isascii()
        or not repeat.value.isdigit()
        or len(repeat.value) > 4
        or int(repeat.value) > MOST_REPEATS
    ):
        raise EventFault(repeat.line, "REPEAT", f"is no number from 0 to {MOST_REPEATS}")
    if gap is None:
        raise EventFault(repeat.line, "REPEAT", "has no DURATION beside it")
    each = _duration(gap)
    if each.length <= timedelta():
        raise EventFault(gap.line, "DURATION", "of an alarm that repeats must be above zero")
    return [each * number for number in range(int(repeat.value) + 1)]


def _related(trigger: Property) -> Literal["start", "end"]:
    match trigger.parameters.get("RELATED", "START").upper():
        case "START":
            return "start"
        case "END":
            return "end"
        case _:
            raise EventFault(trigger.line, "TRIGGER", "has a RELATED that is neither START nor END")


def _duration(given: Property) -> Span:
    try:
        return read_duration(given.value.upper())
    except ValueError as error:
        raise EventFault(given.line, given.name, str(error)) from None


def _instant(given: Property) -> datetime:
    try:
        found: date | datetime = read_time(given.value)
    except ValueError as error:
        raise EventFault(given.line, given.name, str(error)) from None
    if not isinstance(found, datetime):
        raise EventFault(given.line, given.name, "is a date; an instant in UTC, with Z, is expected")
    # RFC 5545 allows nothing but UTC here; some programs leave out the Z.
    return found.replace(tzinfo=UTC)


def _text(span: Span) -> str:
    """`-15m`, `+1d2h`, `+0s`: the same for every way to write the same span."""
    sign = "-" if span.days < 0 or span.seconds < 0 else "+"
    minutes, seconds = divmod(abs(span.seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = zip((abs(span.days), hours, minutes, seconds), "dhms", strict=True)
    return sign + ("".join(f"{number}{unit}" for number, unit in parts if number) or "0s")

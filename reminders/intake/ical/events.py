"""Events (VEVENT), checked: what one is, when it begins and recurs, which alarms it has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta

from reminders.calendar.recurrence import Recurrence
from reminders.calendar.rules import Rule, parse_rule
from reminders.domain.errors import InvalidInput
from reminders.domain.identity import digest
from reminders.domain.request import checked_text
from reminders.intake.ical.alarms import Alarm, EventFault, read_alarms
from reminders.intake.ical.components import Component, Property
from reminders.intake.ical.values import Span, read_duration, read_time, shown
from reminders.intake.ical.zones import UTC_ZONE, Zone, Zones


@dataclass(frozen=True, slots=True)
class Moment:
    """A wall time in a zone; of a date its midnight."""

    wall: datetime
    zone: Zone
    is_date: bool = False

    def instant(self) -> datetime:
        """UTC. Raises `OverflowError` beyond the years that Python holds."""
        return self.zone.to_instant(self.wall)


@dataclass(frozen=True, slots=True)
class Length:
    """How long an event is: a span of its zone's days and of seconds."""

    span: Span

    def end(self, start: datetime, zone: Zone) -> datetime:
        """The instant at which what starts at an instant ends; `later` for any span."""
        return later(start, self.span, zone)


@dataclass(frozen=True, slots=True)
class Event:
    """One VEVENT. `which` is the RECURRENCE-ID of one that stands for a single turn, or with `and_future` for all from it on."""

    line: int
    uid: str
    sequence: int
    stamp: str
    start: Moment
    length: Length
    cancelled: bool
    which: Moment | None
    and_future: bool
    rule: Rule | None
    extra: tuple[datetime, ...]
    lengths: dict[datetime, Length]
    """Of extra turns that have their own."""
    left_out: tuple[datetime, ...]
    days_left_out: frozenset[date]
    alarms: tuple[Alarm, ...]
    texts: dict[str, str] = field(repr=False)

    @property
    def recurs(self) -> bool:
        return self.rule is not None or bool(self.extra)


def later(instant: datetime, span: Span, zone: Zone) -> datetime:
    """An instant moved by days of a zone's calendar, and then by seconds that pass (RFC 5545 section 3.3.6)."""
    if span.days:
        instant = zone.to_instant(zone.to_wall(instant) + timedelta(days=span.days))
    return instant + timedelta(seconds=span.seconds)


def read_event(component: Component, zones: Zones, texts: tuple[str, ...]) -> Event:
    """Check an event. `texts` are the properties to keep of what people wrote. Raises `EventFault`."""
    if component.faults:
        raise EventFault(component.faults[0].line, None, component.faults[0].reason)
    given = component.first("DTSTART")
    if given is None:
        raise EventFault(component.line, "DTSTART", "is missing in this VEVENT")
    start = _moment(given, zones)
    which = component.first("RECURRENCE-ID")
    reach = "" if which is None else which.parameters.get("RANGE", "").upper()
    if which is not None and reach not in {"", "THISANDFUTURE"}:
        raise EventFault(which.line, "RECURRENCE-ID", f"has RANGE={shown(reach)}; only THISANDFUTURE is known")
    rule = _rule(component, start)
    extra = dict(_extra(component, start, zones))
    if which is not None and (rule is not None or extra):
        raise EventFault(which.line, "RECURRENCE-ID", "stands beside RRULE or RDATE; a turn does not recur itself")
    if component.first("EXRULE") is not None:
        raise EventFault(component.all("EXRULE")[0].line, "EXRULE", "is not supported; RFC 5545 has EXDATE instead")
    left_out, days = _left_out(component, start, zones)
    event = Event(
        line=component.line,
        uid=_uid(component),
        sequence=_sequence(component),
        stamp=component.text("DTSTAMP") or "",
        start=start,
        length=_length(component, start, zones),
        cancelled=(component.text("STATUS") or "").upper() == "CANCELLED",
        which=None if which is None else _moment(which, zones, days_in=start.zone),
        and_future=reach == "THISANDFUTURE",
        rule=rule,
        extra=tuple(extra),
        lengths={wall: length for wall, length in extra.items() if length is not None},
        left_out=left_out,
        days_left_out=days,
        alarms=read_alarms(component),
        texts={name.lower(): text for name in texts if (text := component.text(name))},
    )
    _check_reach(event, given)
    return event


def _check_reach(event: Event, given: Property) -> None:
    try:
        event.length.end(event.start.instant(), event.start.zone)
    except OverflowError:
        raise EventFault(given.line, "DTSTART", "is further than the years 1 to 9999 reach") from None


def recurrence(event: Event) -> Recurrence:
    """When the event's turns begin. In a zone of the calendar's own, wall times stand as if they were UTC."""
    own = event.start.zone.name is None
    rule = event.rule
    return Recurrence(
        event.start.wall,
        "UTC" if own else str(event.start.zone.name),
        rule,
        # RFC 5545 section 3.8.5.3: DTSTART is always the first, also where the rule does not give it.
        (event.start.wall, *event.extra),
        event.left_out,
    )


def _uid(component: Component) -> str:
    given = component.first("UID")
    text = component.text("UID")
    if given is None or text is None:
        # RFC 5545 wants one, and some programs write none: what the event is takes its place.
        parts = [f"{each.name}={each.value}" for name in ("DTSTART", "SUMMARY") for each in component.all(name)]
        return f"no-uid-{digest('event', *parts).hex()[:32]}"
    try:
        return checked_text("reference", text)
    except InvalidInput as error:
        raise EventFault(given.line, "UID", error.reason) from None


def _sequence(component: Component) -> int:
    given = component.first("SEQUENCE")
    if given is None or not given.value:
        return 0
    if not given.value.isascii() or not given.value.isdigit() or len(given.value) > 9:
        raise EventFault(given.line, "SEQUENCE", f"{shown(given.value)} is no whole number")
    return int(given.value)


def _rule(component: Component, start: Moment) -> Rule | None:
    several = [each for each in component.all("RRULE") if each.value]
    if not several:
        return None
    if len(several) > 1:
        raise EventFault(several[1].line, "RRULE", "stands twice; RFC 5545 allows one")
    given = several[0]
    try:
        rule = parse_rule(given.value)
        if rule.until is not None and rule.until.tzinfo is not None and start.zone.name is None:
            rule = _until_on_the_wall(rule, start.zone)
        if rule.elapsed and start.zone.name is None:
            raise EventFault(given.line, "RRULE", "counts hours in a zone of the calendar's own; that is not supported")
        if rule.elapsed or rule.hours or rule.minutes:
            Recurrence(start.wall, start.zone.name or "UTC", rule).check("RRULE")
    except InvalidInput as error:
        raise EventFault(given.line, "RRULE", error.reason) from None
    return rule


def _until_on_the_wall(rule: Rule, zone: Zone) -> Rule:
    assert rule.until is not None
    return replace(rule, until=zone.to_wall(rule.until))


def _extra(component: Component, start: Moment, zones: Zones) -> Iterator[tuple[datetime, Length | None]]:
    for given, text in _listed(component, "RDATE"):
        begins, slash, ends = text.partition("/")
        moment = _moment(given, zones, begins, days_in=start.zone)
        length = None
        if slash:
            length = _period(given, moment, ends, zones)
        yield in_zone(moment, start), length


def _period(given: Property, begins: Moment, ends: str, zones: Zones) -> Length:
    if "P" in ends:
        try:
            span = read_duration(ends)
        except ValueError as error:
            raise EventFault(given.line, given.name, str(error)) from None
    else:
        span = Span(0, _seconds(begins, _moment(given, zones, ends)))
    if span.length < timedelta():
        raise EventFault(given.line, given.name, "has a period that ends before it begins")
    return Length(span)


def _left_out(component: Component, start: Moment, zones: Zones) -> tuple[tuple[datetime, ...], frozenset[date]]:
    walls: list[datetime] = []
    days: set[date] = set()
    for given, text in _listed(component, "EXDATE"):
        moment = _moment(given, zones, text, days_in=start.zone)
        if moment.is_date and not start.is_date:
            # Not what RFC 5545 has, but what several programs write for the turn of that day.
            days.add(moment.wall.date())
        else:
            walls.append(in_zone(moment, start))
    return tuple(walls), frozenset(days)


def in_zone(moment: Moment, start: Moment) -> datetime:
    """A moment as wall time of the zone of an event that starts at `start`; of a date its midnight."""
    if start.is_date:
        return moment.wall.replace(hour=0, minute=0, second=0)
    if moment.is_date or moment.zone == start.zone:
        return moment.wall
    return start.zone.to_wall(moment.instant())


def _listed(component: Component, name: str) -> Iterator[tuple[Property, str]]:
    for given in component.all(name):
        for text in given.value.split(","):
            if text.strip():
                yield given, text.strip()


def _length(component: Component, start: Moment, zones: Zones) -> Length:
    end, duration = component.first("DTEND"), component.first("DURATION")
    if end is not None and end.value:
        until = _moment(end, zones, days_in=start.zone)
        if until.is_date != start.is_date:
            raise EventFault(end.line, "DTEND", "is a date where DTSTART is a time, or the other way round")
        if start.is_date:
            days = (until.wall - start.wall).days
            if days < 0:
                raise EventFault(end.line, "DTEND", "is before DTSTART")
            # RFC 5545 wants a later day; many programs write the same one.
            return Length(Span(days or 1))
        seconds = _seconds(start, until)
        if seconds < 0:
            raise EventFault(end.line, "DTEND", "is before DTSTART")
        return Length(Span(0, seconds))
    if duration is None:
        return Length(Span(1 if start.is_date else 0))
    try:
        span = read_duration(duration.value.upper())
    except ValueError as error:
        raise EventFault(duration.line, "DURATION", str(error)) from None
    if span.length < timedelta():
        raise EventFault(duration.line, "DURATION", "is below zero")
    return Length(span)


def _seconds(start: Moment, end: Moment) -> int:
    try:
        return int((end.instant() - start.instant()).total_seconds())
    except OverflowError:
        return 0


def _moment(given: Property, zones: Zones, text: str | None = None, *, days_in: Zone | None = None) -> Moment:
    """`days_in` is the zone of dates, where it is known."""
    try:
        found = read_time(given.value if text is None else text)
        if not isinstance(found, datetime):
            return Moment(datetime(found.year, found.month, found.day), days_in or zones.floating(), is_date=True)  # noqa: DTZ001
        if found.tzinfo is UTC:
            return Moment(found.replace(tzinfo=None), UTC_ZONE)
        if given.parameters.get("VALUE", "").upper() == "DATE":
            raise EventFault(given.line, given.name, "is said to be a date, but has a time")
        tzid = given.parameters.get("TZID")
        return Moment(found, zones.floating() if tzid is None else zones.named(tzid))
    except ValueError as error:
        raise EventFault(given.line, given.name, str(error)) from None

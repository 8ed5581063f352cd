"""Which reminders a calendar asks for: every ringing of every turn's alarms, within a window, each with its line."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from datetime import time as time_of_day

from reminders.calendar.instants import instant_text
from reminders.domain.errors import RemindersError
from reminders.intake.checking import OVERDUE_AFTER, Overdue
from reminders.intake.ical.alarms import EventFault
from reminders.intake.ical.components import Component, Tree
from reminders.intake.ical.events import Event, later, read_event
from reminders.intake.ical.turns import Revised, Turn
from reminders.intake.ical.zones import Zones
from reminders.intake.records import Reject

MOST_REMINDERS = 100_000
"""That one import of a calendar may ask for."""
MOST_SECONDS = 30.0
"""Of processor time, for working out all rules of a calendar."""
AT_START = "at-start"
"""The slot of a reminder for an event that has no alarm."""
LONGEST_TEXT = 1000
"""Characters that are kept of what people wrote, for each property."""
_METHODS = {"PUBLISH": False, "REQUEST": True, "CANCEL": True}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an import was told. `now` and `until`, where what recurs is cut, are UTC; `zone` is an IANA name."""

    now: datetime
    until: datetime
    overdue: Overdue
    zone: str | None = None
    all_day_at: time_of_day = time_of_day(9)
    at_start: bool = True
    texts: tuple[str, ...] = ()

    @property
    def oldest(self) -> datetime:
        return self.now - OVERDUE_AFTER


@dataclass(frozen=True, slots=True)
class Ringing:
    """One reminder that is asked for. `turn` gives the event; `zone` is its IANA name, if it has one."""

    turn: Turn
    slot: str
    due_at: datetime
    recurrence_id: str

    @property
    def zone(self) -> str | None:
        return self.turn.event.start.zone.name

    def data(self) -> dict[str, str]:
        """Identifiers of the turn, and of what people wrote that which was asked for."""
        event = self.turn.event
        start = (
            event.start.zone.to_wall(self.turn.start).date().isoformat()
            if event.start.is_date
            else instant_text(self.turn.start)
        )
        told = {
            "uid": event.uid,
            "start": start,
            **({"recurrence_id": self.turn.recurrence_id} if self.turn.recurrence_id else {}),
        }
        return told | {name: text.replace("\0", "")[:LONGEST_TEXT] for name, text in event.texts.items()}


@dataclass(slots=True)
class Asked:
    """What a calendar comes to. `partial`: it tells of single events (METHOD), not of all that the calendar has; `cancels`: that they
    are cancelled.

    `whole`: nothing of the file is missing that we would know of. What is neither in it nor among the `broken` UIDs is gone.
    """

    partial: bool
    whole: bool
    cancels: bool = False
    events: int = 0
    skipped: int = 0
    without_uid: list[int] = field(default_factory=list)
    """Lines of events that have none, and take part under what they are."""
    ringings: list[Ringing] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    broken: set[str] = field(default_factory=set)
    series: dict[str, Revised] = field(default_factory=dict)


def asked_for(tree: Tree, wishes: Wishes) -> Asked:
    """Raises `RemindersError` for what no part of can be taken: another kind of file, or far too much of it."""
    partial = _is_partial(tree)
    cancels = _method(tree.calendars[0]) == "CANCEL"
    asked = Asked(partial, tree.whole, cancels, rejects=list(tree.strays))
    found: dict[str, list[Event]] = {}
    broken: dict[str, int] = {}
    give_up_at = time.process_time() + MOST_SECONDS
    for calendar in tree.calendars:
        zones = Zones(calendar, wishes.zone, wishes.now)
        for component in calendar.parts:
            if component.name != "VEVENT":
                continue
            asked.events += 1
            _check_bounds(asked, component.line, give_up_at)
            try:
                event = read_event(component, zones, wishes.texts)
            except EventFault as error:
                asked.rejects.append(error.reject)
                uid = component.text("UID")
                if uid is None:
                    asked.whole = False
                else:
                    broken.setdefault(uid, component.line)
                continue
            found.setdefault(event.uid, []).append(event)
            if component.first("UID") is None:
                asked.without_uid.append(component.line)
    asked.broken = set(broken)
    for uid, events in found.items():
        if uid in broken:
            why = f"belongs to the event of line {broken[uid]}, which is rejected"
            asked.rejects += [Reject(event.line, "UID", why) for event in events]
            continue
        latest = _latest(events, asked)
        revised = asked.series[uid] = Revised(latest)
        if not cancels:
            _ask(asked, revised, latest, wishes, give_up_at)
        else:
            asked.skipped += len(latest)
    asked.rejects.sort(key=lambda reject: reject.line)
    return asked


def _ask(asked: Asked, revised: Revised, events: Sequence[Event], wishes: Wishes, give_up_at: float) -> None:
    before = len(asked.ringings)
    heard: set[int] = set()
    late: dict[int, int] = {}
    since = wishes.oldest if wishes.overdue == "skip" else None
    try:
        for turn in revised.turns(since, wishes.until):
            for ringing in _ringings(turn, wishes):
                if turn.recurrence_id and ringing.due_at >= wishes.until:
                    continue
                if ringing.due_at < wishes.oldest and wishes.overdue != "send":
                    late[turn.event.line] = late.get(turn.event.line, 0) + 1
                    continue
                asked.ringings.append(ringing)
                heard.add(turn.event.line)
            _check_bounds(asked, turn.event.line, give_up_at)
        for event in events:
            _check_bounds(asked, event.line, give_up_at)
            for ringing in _at_instants(event, revised, wishes):
                if ringing.due_at < wishes.oldest and wishes.overdue != "send":
                    late[event.line] = late.get(event.line, 0) + 1
                    continue
                asked.ringings.append(ringing)
                heard.add(event.line)
    except OverflowError:
        del asked.ringings[before:]
        asked.broken.add(events[0].uid)
        asked.rejects.append(Reject(events[0].line, "DTSTART", "leads beyond the years 1 to 9999"))
        return
    if wishes.overdue == "reject":
        hint = "--overdue send or skip takes such events"
        for line, number in late.items():
            asked.rejects.append(
                Reject(line, "DTSTART", f"asks for {number:,} reminders that were due over 24 hours ago; {hint}")
            )
            heard.add(line)
    asked.skipped += sum(event.line not in heard for event in events)


def _ringings(turn: Turn, wishes: Wishes) -> Iterator[Ringing]:
    event = turn.event
    if event.cancelled:
        return
    if not event.alarms:
        if wishes.at_start:
            at = turn.start
            if event.start.is_date:
                day = event.start.zone.to_wall(turn.start).date()
                at = event.start.zone.to_instant(datetime.combine(day, wishes.all_day_at))
            yield Ringing(turn, AT_START, at, turn.recurrence_id)
        return
    for alarm in event.alarms:
        if alarm.at is None:
            at = later(turn.start if alarm.related == "start" else turn.end, alarm.span, event.start.zone)
            if alarm.acknowledged is None or at > alarm.acknowledged:
                yield Ringing(turn, alarm.slot, at, turn.recurrence_id)


def _at_instants(event: Event, revised: Revised, wishes: Wishes) -> Iterator[Ringing]:
    """Alarms at an instant ring once, however often the event recurs."""
    if event.cancelled:
        return
    name = next((name for name, single in revised.single.items() if single is event), "")
    start = event.start.instant()
    turn = Turn(event, name, start, event.length.end(start, event.start.zone))
    for alarm in event.alarms:
        if alarm.at is None or (alarm.acknowledged is not None and alarm.at <= alarm.acknowledged):
            continue
        if not name or alarm.at < wishes.until:
            yield Ringing(turn, alarm.slot, alarm.at, name)


def _check_bounds(asked: Asked, line: int, give_up_at: float) -> None:
    if len(asked.ringings) > MOST_REMINDERS:
        raise RemindersError(
            f"The calendar asks for more than {MOST_REMINDERS:,} reminders, as far as line {line}; nothing was written\n"
            "Give a shorter --horizon, or import it in parts with --calendar NAME each"
        )
    if time.process_time() > give_up_at:
        raise RemindersError(
            f"The calendar's rules take more than {MOST_SECONDS:g} s to work out, as far as line {line}; nothing was written\n"
            "Look at the rules there: one that hardly ever fires, or fires very often, is seldom meant"
        )


def _latest(events: Sequence[Event], asked: Asked) -> list[Event]:
    """Of components for the same turn the newest revision; of equal ones the first, and the others are rejected."""
    newest: dict[object, Event] = {}
    for event in events:
        key = None if event.which is None else (event.which.wall, event.which.zone.name, event.and_future)
        known = newest.get(key)
        if known is None:
            newest[key] = event
            continue
        if (event.sequence, event.stamp) == (known.sequence, known.stamp):
            asked.rejects.append(Reject(event.line, "UID", f"is that of the event in line {known.line}, which counts"))
            continue
        asked.skipped += 1
        if (event.sequence, event.stamp) > (known.sequence, known.stamp):
            newest[key] = event
    return list(newest.values())


def _method(calendar: Component) -> str:
    return (calendar.text("METHOD") or "PUBLISH").upper()


def _is_partial(tree: Tree) -> bool:
    first = tree.calendars[0]
    if (first.text("VERSION") or "2.0") == "1.0":
        raise RemindersError("This is vCalendar 1.0, an older format; export the calendar as iCalendar (VERSION:2.0)")
    methods = {_method(calendar) for calendar in tree.calendars}
    if len(methods) > 1:
        raise RemindersError(
            f"The file mixes METHOD {' and '.join(sorted(each[:20] for each in methods))}; import them one by one"
        )
    method = methods.pop()
    if method not in _METHODS:
        raise RemindersError(
            f"METHOD:{method[:20]} is a message between calendars, not a calendar; PUBLISH, REQUEST and CANCEL are taken"
        )
    return _METHODS[method]

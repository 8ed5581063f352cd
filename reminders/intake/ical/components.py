"""The tree of components that content lines make. What is broken is a fault of the component it stands in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from icalendar.parser import Contentline

from reminders.domain.errors import RemindersError
from reminders.intake.ical.content_lines import ContentLine
from reminders.intake.records import Reject

MOST_EVENTS = 100_000
DEEPEST = 8
"""Components inside each other. A calendar, its event and that one's alarm are three."""
MOST_PROPERTIES = 20_000
"""Of one component, those that we read."""
TOP = frozenset({"VEVENT", "VTODO", "VJOURNAL", "VFREEBUSY", "VTIMEZONE", "VAVAILABILITY"})
"""Stand directly in a VCALENDAR; one that begins inside another shows that the other's END is missing."""
_READ = frozenset({"VCALENDAR", "VEVENT", "VALARM", "VTIMEZONE", "STANDARD", "DAYLIGHT"})
_KEPT = frozenset({
    "ACKNOWLEDGED", "ACTION", "DESCRIPTION", "DTEND", "DTSTAMP", "DTSTART", "DURATION", "EXDATE", "EXRULE", "LOCATION",
    "METHOD", "NAME", "RDATE", "RECURRENCE-ID", "REPEAT", "RRULE", "SEQUENCE", "STATUS", "SUMMARY", "TRIGGER", "TZID",
    "TZOFFSETFROM", "TZOFFSETTO", "UID", "URL", "VERSION", "X-LIC-LOCATION", "X-MOZ-LASTACK", "X-WR-CALNAME",
    "X-WR-RELCALID", "X-WR-TIMEZONE",
})  # fmt: skip
_TEXTS = frozenset({"DESCRIPTION", "LOCATION", "SUMMARY", "URL", "NAME", "X-WR-CALNAME"})
"""A wrong encoding in these does no harm."""
_NAME = re.compile(r"\s*([A-Za-z0-9-]+)\s*[;:]", re.ASCII)
_UNFOLDED = "is no content line: NAME:VALUE is expected, and a line that continues another begins with a blank"


@dataclass(frozen=True, slots=True)
class Property:
    """`value` is as written, with its escapes; parameters by upper-case name."""

    line: int
    name: str
    parameters: dict[str, str]
    value: str


@dataclass(slots=True)
class Component:
    """One component: of its properties those that are read here, by name, and the components in it."""

    name: str
    line: int
    properties: dict[str, list[Property]] = field(default_factory=dict)
    parts: list[Component] = field(default_factory=list)
    faults: list[Reject] = field(default_factory=list)
    size: int = 0

    def first(self, name: str) -> Property | None:
        found = self.properties.get(name)
        return found[0] if found else None

    def all(self, name: str) -> list[Property]:
        return self.properties.get(name, [])

    def text(self, name: str) -> str | None:
        """The first such value, unescaped; None if there is none or it is empty."""
        found = self.first(name)
        return unescaped(found.value).strip() or None if found else None


@dataclass(slots=True)
class Tree:
    """The calendars of a file. `strays` are faults outside of every event; `whole` is false if the file may lack its end."""

    calendars: list[Component] = field(default_factory=list)
    strays: list[Reject] = field(default_factory=list)
    whole: bool = True

    @property
    def name(self) -> str:
        """What the calendar calls itself; empty if it does not."""
        names = (self.calendars[0].text(each) for each in ("X-WR-RELCALID", "UID", "X-WR-CALNAME", "NAME"))
        return next((name for name in names if name), "")


def unescaped(text: str) -> str:
    """A TEXT value without its backslashes (RFC 5545 section 3.3.11)."""
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nN" else match[1], text)


def read_tree(lines: Iterable[ContentLine]) -> Tree:
    """Raises `RemindersError` if there is no calendar at all, or one of more than `MOST_EVENTS` events."""
    builder = _Builder()
    for line in lines:
        builder.add(line)
    return builder.ended()


class _Builder:
    def __init__(self) -> None:
        self._tree = Tree()
        self._open: list[Component] = []
        self._too_deep = 0
        self._events = 0

    def add(self, line: ContentLine) -> None:
        match = _NAME.match(line.text)
        name = match[1].upper() if match else ""
        if name == "BEGIN":
            self._begin(line.text.partition(":")[2].strip().upper(), line.number)
        elif name == "END":
            self._end(line.text.partition(":")[2].strip().upper(), line.number)
        elif not name:
            self._fault(line.number, line.fault or _UNFOLDED)
        elif self._open and not self._too_deep and name in _KEPT and self._open[-1].name in _READ:
            self._property(line, name)

    def ended(self) -> Tree:
        if not self._tree.calendars:
            raise RemindersError("This is no iCalendar file: it has no BEGIN:VCALENDAR")
        if self._open:
            self._tree.whole = False
            self._close_to(0, "has no END; the file may be cut off")
        return self._tree

    def _begin(self, name: str, line: int) -> None:
        if name == "VCALENDAR":
            self._close_to(0, "has no END")
            self._push(Component(name, line))
            self._tree.calendars.append(self._open[0])
            return
        if not self._open:
            self._tree.strays.append(Reject(line, None, f"{name[:20]} stands outside of a VCALENDAR"))
            self._tree.whole = False
            return
        if name in TOP:
            self._close_to(1, "has no END")
        if self._too_deep or len(self._open) >= DEEPEST:
            if not self._too_deep:
                self._fault(line, f"components are nested deeper than {DEEPEST}")
            self._too_deep += 1
            return
        component = Component(name, line)
        if name == "VEVENT":
            self._events += 1
            if self._events > MOST_EVENTS:
                raise RemindersError(
                    f"Line {line}: the calendar has more than {MOST_EVENTS:,} events; import it in parts"
                )
        if name in _READ:
            self._open[-1].parts.append(component)
        self._push(component)

    def _end(self, name: str, line: int) -> None:
        if self._too_deep:
            self._too_deep -= 1
            return
        depth = next((place for place in range(len(self._open) - 1, -1, -1) if self._open[place].name == name), None)
        if depth is None:
            self._fault(line, f"END:{name[:20]} ends nothing that has begun")
            return
        self._close_to(depth + 1, "has no END")
        self._open.pop()

    def _property(self, line: ContentLine, name: str) -> None:
        component = self._open[-1]
        if line.fault is not None and name not in _TEXTS:
            self._fault(line.number, f"{name} {line.fault}")
            return
        component.size += 1
        if component.size > MOST_PROPERTIES:
            if component.size == MOST_PROPERTIES + 1:
                self._fault(line.number, f"{component.name} has more than {MOST_PROPERTIES:,} properties")
            return
        plain, colon, value = line.text.partition(":")
        parameters: dict[str, str] = {}
        if ";" in plain or not colon:
            try:
                _, given, value = Contentline(line.text).raw_parts()  # type: ignore[no-untyped-call]
            except ValueError:
                # Its text quotes the line, which may hold anything.
                self._fault(line.number, f"{name} is no content line that can be read")
                return
            parameters = {str(key).upper(): _one(each) for key, each in given.items()}
        component.properties.setdefault(name, []).append(Property(line.number, name, parameters, value.strip()))

    def _push(self, component: Component) -> None:
        self._too_deep = 0
        self._open.append(component)

    def _close_to(self, depth: int, why: str) -> None:
        while len(self._open) > depth:
            component = self._open[-1]
            self._fault(component.line, f"{component.name[:20]} {why}")
            self._open.pop()
        self._too_deep = 0

    def _fault(self, line: int, reason: str) -> None:
        """Of the event or zone it stands in; of the file, if it stands in none."""
        if len(self._open) > 1:
            owner = self._open[1]
            if owner.name in {"VEVENT", "VTIMEZONE"} and not owner.faults:
                owner.faults.append(Reject(line, None, reason))
        else:
            self._tree.strays.append(Reject(line, None, reason))
            self._tree.whole = False


def _one(value: object) -> str:
    return str(value[0]) if isinstance(value, list) else str(value)

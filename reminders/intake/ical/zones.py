"""Where the times of a calendar are: zones by name, by the calendar's own definition, or as the import was told.

- A name of the IANA database means that zone, as this release has it: calendars carry copies that are old or cut short.
- Any other name (Windows', Outlook's, a path that ends in an IANA name) means what the calendar's VTIMEZONE defines. Where
  that agrees with the IANA zone the name stands for, it is that zone. Without a definition it is that zone anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

from reminders.calendar.zones import known_zones, load_zone, to_instant
from reminders.intake.ical.components import Component, unescaped
from reminders.intake.ical.vtimezone import OwnZone, ZoneFault, read_zone

_COMPARED = timedelta(hours=12)
_YEAR = timedelta(days=366)
_WINDOWS = {windows.lower(): iana for windows, iana in WINDOWS_TO_OLSON.items()}


@dataclass(frozen=True, slots=True)
class Zone:
    """A place's clocks. `name` is its IANA name; with `own` the offsets are those, and there is no name."""

    name: str | None
    own: OwnZone | None = None

    def to_instant(self, wall: datetime) -> datetime:
        """The UTC instant of a naive wall time. Raises `OverflowError` beyond the years that Python holds."""
        if self.own is not None:
            return self.own.to_instant(wall)
        assert self.name is not None
        return to_instant(wall, self.name)

    def to_wall(self, instant: datetime) -> datetime:
        """What clocks there show, naive."""
        if self.own is not None:
            return self.own.to_wall(instant)
        assert self.name is not None
        return instant.astimezone(load_zone(self.name)).replace(tzinfo=None, fold=0)


UTC_ZONE = Zone("UTC")


class Zones:
    """The zones of one VCALENDAR."""

    def __init__(self, calendar: Component, floating: str | None, now: datetime) -> None:
        """`floating` is the IANA name of the zone of times that have none; without it the calendar's X-WR-TIMEZONE."""
        self._now = now
        self._defined: dict[str, Component] = {}
        self._found: dict[str, Zone | str] = {}
        """By name; of those that stand for none, why."""
        for part in calendar.parts:
            tzid = part.text("TZID") if part.name == "VTIMEZONE" else None
            if tzid is not None:
                self._defined.setdefault(tzid, part)
        self._floating = Zone(floating) if floating is not None else self._of_calendar(calendar)

    def floating(self) -> Zone:
        """Raises `ValueError` if nobody has said where floating times are."""
        if self._floating is None:
            raise ValueError("is a time without a zone, and the calendar has no X-WR-TIMEZONE; give --zone")
        return self._floating

    def named(self, tzid: str) -> Zone:
        """Raises `ValueError` for a name that is neither known nor defined."""
        found = self._found.get(tzid)
        if found is None:
            try:
                found = self._resolve(tzid)
            except ValueError as error:
                found = str(error)
            self._found[tzid] = found
        if isinstance(found, str):
            raise ValueError(found)  # noqa: TRY004 - one kind of error for bad text
        return found

    def _of_calendar(self, calendar: Component) -> Zone | None:
        name = calendar.text("X-WR-TIMEZONE")
        if name is None:
            return None
        try:
            return self.named(name)
        except ValueError:
            return None

    def _resolve(self, tzid: str) -> Zone:
        if tzid in known_zones():
            return Zone(tzid)
        defined = self._defined.get(tzid)
        meant = _meant(tzid, defined)
        if defined is None:
            if meant is None:
                raise ValueError(f"has the unknown zone {_shown(tzid)}, which no VTIMEZONE defines")
            return Zone(meant)
        try:
            own = read_zone(defined)
        except ZoneFault as error:
            if meant is not None:
                return Zone(meant)
            raise ValueError(
                f"has the zone {_shown(tzid)}, whose VTIMEZONE is broken: line {error.line}: {error.reason}"
            ) from None
        if meant is not None and self._agree(own, meant):
            return Zone(meant)
        return Zone(None, own)

    def _agree(self, own: OwnZone, name: str) -> bool:
        place = load_zone(name)
        at = self._now - _YEAR
        while at < self._now + 2 * _YEAR:
            if own.offset_at(at.astimezone(UTC).replace(tzinfo=None)) != at.astimezone(place).utcoffset():
                return False
            at += _COMPARED
        return True


def _meant(tzid: str, defined: Component | None) -> str | None:
    """The IANA zone that a name from elsewhere stands for."""
    hint = None if defined is None else defined.first("X-LIC-LOCATION")
    if hint is not None and unescaped(hint.value) in known_zones():
        return unescaped(hint.value)
    windows = _WINDOWS.get(tzid.lower())
    if windows in known_zones():
        return windows
    parts = tzid.strip("/").split("/")
    for length in (3, 2):
        path = "/".join(parts[-length:])
        if len(parts) > length and path in known_zones():
            return path
    # Its letters' case, or blanks for underscores, are no other zone.
    return _by_lower_case().get(tzid.strip().replace(" ", "_").lower())


@cache
def _by_lower_case() -> dict[str, str]:
    return {name.lower(): name for name in known_zones()}


def _shown(tzid: str) -> str:
    return ascii(tzid[:64])

"""Calendars for tests: events as content lines, put into a VCALENDAR."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data" / "calendars"
BERLIN = "TZID=Europe/Berlin"


def event(*lines: str, uid: str | None = "one@example.org", alarm: str | None = None) -> str:
    """A VEVENT of these lines, with its UID; `alarm` is a trigger's duration."""
    head = ["BEGIN:VEVENT", *([f"UID:{uid}"] if uid else [])]
    alarms = ["BEGIN:VALARM", "ACTION:DISPLAY", f"TRIGGER:{alarm}", "END:VALARM"] if alarm else []
    return "\n".join([*head, *lines, *alarms, "END:VEVENT"])


def calendar(*parts: str, head: tuple[str, ...] = ()) -> str:
    """A VCALENDAR of events and zones."""
    return "\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", *head, *parts, "END:VCALENDAR", ""])

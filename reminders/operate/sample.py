"""The demo's reminders, as a file that `reminders import` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import StringIO
from zoneinfo import ZoneInfo

from reminders.calendar.zones import load_zone

OVERDUE = 60
SOON = 30
FIRST_SOON, LAST_SOON = 4.0, 20.0
"""Seconds ahead between which the punctual ones are due."""
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Melbourne")
TO_CANCEL = "demo/cancelled"
COLUMNS = ("tenant_id", "user_id", "kind", "channel", "destination", "due_at", "zone", "reference", "data")


@dataclass(frozen=True, slots=True)
class Expected:
    """What the ledger and the receiver must show at the end."""

    delivered: int = OVERDUE + SOON + 1
    retried: int = 1
    dead: int = 1
    cancelled: int = 1

    @property
    def total(self) -> int:
        return self.delivered + self.dead + self.cancelled


def sample_csv(url: str, now: datetime) -> str:
    """Reminders around `now` (aware), as wall times in four zones, for the receiver at `url` (`http://host:port/hook`)."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for number, (due, destination, reference) in enumerate(_reminders(url, now)):
        zone = ZONES[number % len(ZONES)]
        data = json.dumps({"order": 1000 + number})
        row = [
            "demo-shop",
            f"user-{number % 7}",
            "payment_due",
            "webhook",
            destination,
            _wall(due, load_zone(zone)),
            zone,
            reference,
            data,
        ]
        writer.writerow(row)
    return text.getvalue()


def _reminders(url: str, now: datetime) -> Iterator[tuple[datetime, str, str]]:
    for number in range(OVERDUE):
        yield now - timedelta(minutes=1 + 3 * number), url, f"demo/overdue-{number}"
    for number in range(SOON):
        ahead = FIRST_SOON + (LAST_SOON - FIRST_SOON) * number / (SOON - 1)
        yield now + timedelta(seconds=ahead), url, f"demo/soon-{number}"
    yield now + timedelta(seconds=5), f"{url}/fail-twice", "demo/fails-twice"
    yield now + timedelta(seconds=5), f"{url}/refuse", "demo/refused"
    yield now + timedelta(seconds=LAST_SOON), url, TO_CANCEL


def _wall(instant: datetime, zone: ZoneInfo) -> str:
    return instant.astimezone(zone).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")

"""The demo's reminders, as a file that `reminders import` reads."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from zoneinfo import ZoneInfo

from reminders.calendar.zones import load_zone

OVERDUE = 60
SOON = 30
FIRST_SOON, LAST_SOON = 4.0, 20.0
"""Seconds ahead between which the punctual ones are due."""
ZONES = ("Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Melbourne")
TO_CANCEL = "demo/cancelled"
TENANT = "demo-shop"
KIND = "payment_due"
MAIL_ADDRESS = "kim@example.com"
NUMBER = "+12025550123"
"""From the range that North America keeps for stories."""
TEMPLATES = {
    "email": {
        "subject": "Order {{ data.order }}: your payment is due",
        "text": "Hello,\n\nthe payment for order {{ data.order }} is due at {{ due_at | local('%H:%M') }}.\n",
    },
    "sms": {"text": "Order {{ data.order }}: your payment is due at {{ due_at | local('%H:%M') }}."},
}
COLUMNS = ("tenant_id", "user_id", "kind", "channel", "destination", "due_at", "zone", "reference", "data")


@dataclass(frozen=True, slots=True)
class Expected:
    """What the ledger, the receiver and the catchers must show at the end."""

    posted: int = OVERDUE + SOON + 1
    mailed: int = 1
    texted: int = 1
    retried: int = 1
    dead: int = 1
    cancelled: int = 1

    @property
    def delivered(self) -> int:
        """By all channels together."""
        return self.posted + self.mailed + self.texted

    @property
    def total(self) -> int:
        return self.delivered + self.dead + self.cancelled


def sample_csv(url: str, now: datetime) -> str:
    """Reminders around `now` (aware), as wall times in four zones, for the receiver at `url` (`http://host:port/hook`)."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for number, (due, channel, destination, reference) in enumerate(_reminders(url, now)):
        zone = ZONES[number % len(ZONES)]
        data = json.dumps({"order": 1000 + number})
        row = [
            TENANT,
            f"user-{number % 7}",
            KIND,
            channel,
            destination,
            _wall(due, load_zone(zone)),
            zone,
            reference,
            data,
        ]
        writer.writerow(row)
    return text.getvalue()


def _reminders(url: str, now: datetime) -> Iterator[tuple[datetime, str, str, str]]:
    for number in range(OVERDUE):
        yield now - timedelta(minutes=1 + 3 * number), "webhook", url, f"demo/overdue-{number}"
    for number in range(SOON):
        ahead = FIRST_SOON + (LAST_SOON - FIRST_SOON) * number / (SOON - 1)
        yield now + timedelta(seconds=ahead), "webhook", url, f"demo/soon-{number}"
    yield now + timedelta(seconds=5), "webhook", f"{url}/fail-twice", "demo/fails-twice"
    yield now + timedelta(seconds=5), "webhook", f"{url}/refuse", "demo/refused"
    # On a busy machine two commands may take longer than the rest is ahead.
    yield now + timedelta(hours=1), "webhook", url, TO_CANCEL
    yield now + timedelta(seconds=6), "email", MAIL_ADDRESS, "demo/mailed"
    yield now + timedelta(seconds=7), "sms", NUMBER, "demo/texted"


def write_templates(folder: Path) -> Mapping[str, Mapping[str, Path]]:
    """Files of the demo's templates in `folder`: by channel, those of each part."""
    files: dict[str, dict[str, Path]] = {}
    for channel, parts in TEMPLATES.items():
        for part, text in parts.items():
            file = folder / f"{channel}-{part}"
            file.write_text(text)
            files.setdefault(channel, {})[part] = file
    return files


def _wall(instant: datetime, zone: ZoneInfo) -> str:
    return instant.astimezone(zone).replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds")

"""The monitoring page lists every metric and every alert, as they are."""

import re
from pathlib import Path

from alert_rules import rules
from reminders.operate.metric_names import DEFINITIONS

PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()


def test_the_page_lists_every_metric():
    shown = re.findall(r"^\| `(reminders_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
    expected = [
        (each.name, each.kind, ", ".join(f"`{label}`" for label in each.labels) or "-", each.meaning)
        for each in DEFINITIONS
    ]
    assert shown == expected


def test_the_page_lists_every_alert():
    assert re.findall(r"`(Reminders[A-Z]\w+)`", PAGE) == list(rules())

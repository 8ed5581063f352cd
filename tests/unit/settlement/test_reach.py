"""What of a configuration is wrong only where it is used, told before a run begins."""

from dataclasses import replace
from datetime import time, timedelta
from pathlib import Path

import pytest

from reminders.domain.errors import SettingsError
from reminders.intake.settlement.config import Nightly, Reconciliation, Rule
from reminders.intake.settlement.reach import check_reach
from reminders.intake.settlement.stripe import stripe_format
from reminders.settings import Settings

PATH = Path("r.toml")
UNKNOWN = Rule("k", "webhook", tenant_id="ops", user_id="desk", destination="https://shop.example/hook")


def config(nightly="https://files.example/{date}.csv", **rules):
    return Reconciliation(
        "stripe", stripe_format(), "shop:matcher", timedelta(0), timedelta(0), rules, Nightly(nightly, time(1), "UTC")
    )


def test_what_can_be_used_is_not_refused():
    check_reach(PATH, config(settled=Rule("k", "webhook"), unknown_order=UNKNOWN), Settings())
    # Whether a private place is allowed is its tenant's, and asked when it is told.
    check_reach(PATH, config(unknown_order=replace(UNKNOWN, destination="https://10.0.0.7/hook")), Settings())


def test_all_that_is_wrong_is_told_at_once_and_no_address_shown():
    wrong = config(
        "https://files.example:99999/{date}.csv?signature=abc",
        settled=Rule("k", "fax"),
        unknown_order=replace(UNKNOWN, destination="nowhere at all"),
    )
    with pytest.raises(SettingsError) as raised:
        check_reach(PATH, wrong, Settings())
    channel, destination, url = str(raised.value).splitlines()
    assert channel.startswith("r.toml: decisions.settled.channel: 'fax' is not installed; known channels: ")
    assert destination.startswith("r.toml: decisions.unknown_order.destination: ")
    assert url.startswith("r.toml: nightly.url: ")
    assert "signature" not in str(raised.value)


@pytest.mark.parametrize(
    "url", ["https://10.0.0.7/a.csv", "https://localhost/a.csv", "https://ada:pass@files.example/a"]
)
def test_the_address_of_every_night_is_checked_as_that_of_a_task(url):
    with pytest.raises(SettingsError, match=r"nightly.url: "):
        check_reach(PATH, config(url), Settings())

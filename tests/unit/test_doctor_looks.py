"""Single looks of the doctor, at what a real server or a real platform makes hard to plant."""

from __future__ import annotations

import pytest

from reminders.ledger.table_facts import Table, TableFacts
from reminders.operate.doctor.check import look
from reminders.operate.doctor.settings import SETTINGS, Configured
from reminders.operate.doctor.tables import TABLES
from reminders.settings import Secret, Settings


def found_in_settings(settings: Settings) -> set[str]:
    configured = Configured(settings, {}, at_home=True, home_secrets={}, faults={}, ready=["webhook"])
    return {each.check.name for each in look(SETTINGS, configured)}


@pytest.mark.parametrize(
    ("url", "authority", "unchecked"),
    [
        ("rediss://host:6380/0", "unverified", True),
        ("rediss://host:6380/0?ssl_cert_reqs=none", None, True),
        ("rediss://host:6380/0?ssl_cert_reqs=required", "unverified", False),
        ("rediss://host:6380/0", "/path/ca.pem", False),
        ("redis://host:6379/0", "unverified", False),
    ],
)
def test_a_certificate_that_nobody_checks(url, authority, unchecked):
    found = found_in_settings(Settings(redis_url=Secret(url), redis_ca=authority))
    assert ("redis_certificate_unchecked" in found) is unchecked


@pytest.mark.parametrize(("written", "off"), [("0", True), ("no", True), ("f", True), ("OFF", True), ("yes", False)])
def test_autovacuum_of_a_table_may_be_switched_off_in_many_words(written, off):
    table = Table(False, {"autovacuum_enabled": written}, "rawd", True, True, 0, 0, None)
    found = {each.check.name for each in look(TABLES, TableFacts({"series": table}, {}, True, True, ()))}
    assert ("autovacuum_off_for_table" in found) is off

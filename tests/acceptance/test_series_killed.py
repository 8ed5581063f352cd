"""*Processes.* A planner that is killed with -9 again and again, while another one runs, loses and doubles no occurrence."""

from __future__ import annotations

import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from reminders.ledger import series_changing
from reminders.ledger.database import Database
from reminders.pipeline.series_request import to_series_request
from reminders.providers import registry
from reminders.settings import Settings

BEGIN = datetime(2030, 5, 1, 12, tzinfo=UTC)
SERIES, DAYS, KILLS = 60, 40, 8
PLANNER = """
import sys
from datetime import datetime, timedelta
from reminders.ledger.database import Database
from reminders.ledger.planning import plan_due
url, begin, days, batches = sys.argv[1], datetime.fromisoformat(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
database = Database(url, schema="reminders", pool_size=1)
for day in range(1, days + 1):
    now = begin + timedelta(days=day)
    while plan_due(database, 7, now):
        print(day, flush=True)
        batches -= 1
        if batches == 0:
            sys.stdin.read()  # until it is killed
"""
MORE = 3
"""Batches that a doomed planner may make beyond those that are waited for: however late it is killed, something is left to the next."""


def planner(url: str, batches: int = 0) -> subprocess.Popen[str]:
    """One that stands still after so many batches; of 0 it makes all there are."""
    command = [sys.executable, "-c", PLANNER, url, BEGIN.isoformat(), str(DAYS), str(batches)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.timeout(240)
def test_killed_again_and_again_the_planner_loses_and_doubles_no_occurrence(database: Database, migrated: str) -> None:
    for number in range(SERIES):
        request = to_series_request(
            lambda name: registry.load(name, Settings()),
            tenant_id="shop", user_id=f"user-{number}", kind="pills", channel="log", destination="anywhere",
            start=datetime(2030, 1, 1, 9), zone="Europe/Berlin", rule="FREQ=DAILY", reference="pills", catch_up="all",
        )  # fmt: skip
        with database.transaction() as connection:
            series_changing.schedule(connection, "reminders", request, BEGIN)
    chance = random.Random(6)
    for _ in range(KILLS):
        batches = chance.randrange(1, 12)
        with planner(migrated, batches + MORE) as doomed:
            assert doomed.stdout is not None
            for _ in range(batches):
                assert doomed.stdout.readline()
            # Somewhere in the batches that follow.
            doomed.kill()
    both = [planner(migrated) for _ in range(2)]
    for each in both:
        each.communicate(timeout=200)
        assert each.returncode == 0
    days = [(BEGIN + timedelta(days=day)).date() for day in range(1, DAYS + 2)]
    expected = [(f"{day:%Y%m%d}T090000", SERIES) for day in days]
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT recurrence_id, count(DISTINCT series_id) FROM reminders.reminders GROUP BY 1 ORDER BY 1")
        assert cursor.fetchall() == expected
        cursor.execute("SELECT count(*), count(DISTINCT identity_key) FROM reminders.reminders")
        assert cursor.fetchall() == [(SERIES * (DAYS + 1), SERIES * (DAYS + 1))]
        cursor.execute("SELECT count(*) FROM reminders.series_skips")
        assert cursor.fetchall() == [(0,)]

"""An import that is killed, that loses Postgres, whose replies are lost: nothing is lost, nothing is there twice."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
from datetime import UTC, datetime
from urllib.parse import urlsplit

import psycopg2
import pytest

from integration.import_files import HEADER, count, csv_file, csv_row, rejects
from reminders.domain.errors import ServiceUnavailable
from reminders.intake.checking import Checker
from reminders.intake.csv_records import read_csv
from reminders.intake.importing import run_import
from reminders.intake.lines import Lines
from reminders.intake.rejects_file import RejectsFile
from reminders.intake.writing import BatchWriter
from reminders.ledger.background import BackgroundConnection

COMMAND = [sys.executable, "-c", "from reminders.cli.app import main; main()", "import"]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
SHORT = 6
"""Seconds of patience that run out here; a batch that nothing is in the way of is written in less, on a busy machine too."""


class Watching:
    """An observer that does something after the first batch."""

    def __init__(self, once=lambda: None):
        self.once = once
        self.told = []

    def advance(self, totals, bytes_read):
        once, self.once = self.once, lambda: None
        once()

    def tell(self, line):
        self.told.append(line)


@pytest.fixture
def import_text(settings, database, tmp_path):
    def call(text, observer, tell=None, connect=BackgroundConnection, patience=60.0):
        lines = Lines(io.BytesIO(text.encode()), "f.csv")
        checker = Checker(settings, "reject", NOW)
        rejects_file = RejectsFile(tmp_path / "rejects.jsonl")
        with contextlib.closing(connect(database, patience=patience)) as background:
            writer = BatchWriter(background, checker.deduplicates, patience=patience, tell=tell or observer.tell)
            return run_import(checker.batches(read_csv(lines), lines), writer, rejects_file, observer)

    return call


@pytest.fixture
def outage(migrated, database):
    """Takes the database away from everybody, and brings it back."""
    database.close()
    admin = psycopg2.connect(migrated, dbname="postgres")
    admin.autocommit = True
    name = urlsplit(migrated).path[1:]

    class Outage:
        def begin(self):
            with admin.cursor() as cursor:
                cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
                cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))

        def end(self):
            with admin.cursor() as cursor:
                cursor.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")

    yield Outage()
    Outage().end()
    admin.close()


def some_rows(number):
    return HEADER + "".join(csv_row(each) for each in range(1, number + 1))


def test_killed_in_the_middle_and_run_again_it_is_complete(services, database, tmp_path):
    path = csv_file(tmp_path / "f.csv", 9_000)
    environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
    with subprocess.Popen([*COMMAND, "-"], env=environ, cwd=tmp_path, stdin=subprocess.PIPE) as process:
        # It waits for more of its input: that is the middle.
        process.stdin.write(b"".join(path.read_bytes().splitlines(keepends=True)[:4_500]))
        process.stdin.flush()
        wait_until(lambda: count(database) >= 3_000)
        process.send_signal(signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
    assert process.returncode == -signal.SIGKILL
    assert list(tmp_path.iterdir()) == [path]

    again = subprocess.run([*COMMAND, str(path), "--json"], env=environ, stdout=subprocess.PIPE, check=True)
    result = json.loads(again.stdout)
    # Whether the batch that was under way got through is open: whole, or not at all.
    assert result["existing"] in {3_000, 4_000}
    assert (result["read"], result["existing"] + result["scheduled"]) == (9_000, 9_000)
    assert count(database) == count(database, "due") == 9_000


def test_two_imports_of_one_file_at_once_schedule_each_row_once(services, database, tmp_path):
    path = csv_file(tmp_path / "f.csv", 6_000)
    environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
    both = [subprocess.Popen([*COMMAND, str(path), "--json"], env=environ, stdout=subprocess.PIPE) for _ in range(2)]
    results = [json.loads(process.communicate(timeout=60)[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [result["scheduled"] + result["existing"] for result in results] == [6_000, 6_000]
    assert sum(result["scheduled"] for result in results) == count(database) == 6_000


def wait_until(holds):
    tick = threading.Event()
    for _ in range(3_000):
        if holds():
            return
        tick.wait(0.02)
    pytest.fail("it did not come to that within a minute")


def test_postgres_that_goes_away_and_comes_back_is_waited_for(import_text, outage, database):
    observer = Watching(once=outage.begin)

    def tell(line):
        observer.tell(line)
        if len(observer.told) == 3:
            outage.end()

    totals, _ = import_text(some_rows(10_000), observer, tell)
    assert len(observer.told) >= 3
    assert all(line.startswith("Postgres fails, trying again for ") for line in observer.told)
    assert (totals.read, totals.scheduled, totals.existing) == (10_000, 10_000, 0)
    assert count(database) == count(database, "due") == 10_000


def test_postgres_that_is_away_at_first_is_waited_for(import_text, outage, database):
    observer = Watching()

    def tell(line):
        observer.tell(line)
        outage.end()

    outage.begin()
    totals, _ = import_text(some_rows(2_500), observer, tell)
    assert len(observer.told) == 1
    assert totals.scheduled == count(database) == 2_500


def test_postgres_that_stays_away_ends_it_with_how_far_it_got(import_text, outage, database, tmp_path):
    with pytest.raises(ServiceUnavailable) as raised:
        import_text(some_rows(10_000), Watching(once=outage.begin), patience=SHORT)
    found = re.fullmatch(
        rf"Postgres has failed for {SHORT} s: .*\n"
        r"The ledger has all of the file up to line (\d+) \(([\d,]+) newly scheduled\)\. Run the same command again.*",
        str(raised.value),
    )
    assert found, str(raised.value)
    line, scheduled = int(found[1]), int(found[2].replace(",", ""))
    assert line == scheduled + 1
    assert scheduled in range(1_000, 10_000, 1_000)
    outage.end()
    there = count(database)
    assert there >= scheduled
    totals, _ = import_text(some_rows(10_000), Watching())
    assert (totals.scheduled, totals.existing) == (10_000 - there, there)


def test_a_batch_whose_reply_was_lost_counts_as_scheduled(import_text, database):
    class LosesAReply(BackgroundConnection):
        lost = False

        def result(self):
            rows = super().result()
            if not self.lost:
                self.lost = True
                raise psycopg2.OperationalError("server closed the connection unexpectedly")
            return rows

    totals, _ = import_text(some_rows(1_500), Watching(), connect=LosesAReply)
    assert (totals.scheduled, totals.existing) == (1_500, 0)
    assert count(database) == 1_500


def test_a_row_that_an_open_transaction_holds_is_waited_for_and_then_told(import_text, database):
    """Not for ever, and without a hung statement left behind in Postgres."""
    text = some_rows(1_500)
    import_text(HEADER + csv_row(1_200), Watching())
    with database.transaction() as connection, connection.cursor() as cursor:
        # What a purge would do, not committed yet: whether the reminder exists is open.
        cursor.execute("DELETE FROM reminders.due")
        cursor.execute("DELETE FROM reminders.reminders")
        with pytest.raises(
            ServiceUnavailable, match=rf"failed for {SHORT} s: canceling statement due to lock timeout\n.*line 1001 "
        ):
            import_text(text, Watching(), patience=SHORT)
    totals, _ = import_text(text, Watching())
    assert (totals.scheduled, totals.existing) == (500, 1_000)


def test_rows_that_only_postgres_refuses_stop_no_others(import_text, database, tmp_path):
    def sql(text):
        with database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(text)

    bad = {3, 700, 1_999}
    text = HEADER + "".join(csv_row(n, kind="odd" if n in bad else "even") for n in range(1, 2_001))
    sql("ALTER TABLE reminders.reminders ADD CONSTRAINT no_odd_ones CHECK (kind <> 'odd')")
    try:
        totals, kept = import_text(text, Watching())
    finally:
        sql("ALTER TABLE reminders.reminders DROP CONSTRAINT no_odd_ones")
    assert (totals.scheduled, totals.rejected) == (1_997, 3)
    told = rejects(kept)
    assert [(line, field) for line, field, _ in told] == [(n + 1, None) for n in sorted(bad)]
    assert all(reason.startswith("is refused by Postgres: ") and "no_odd_ones" in reason for *_, reason in told)
    assert count(database) == count(database, "due") == 1_997


def test_a_mistake_of_ours_ends_it_at_once_and_leaves_no_rejects(import_text, tmp_path):
    class Broken(BackgroundConnection):
        results = 0

        def result(self):
            self.results += 1
            if self.results == 2:
                raise psycopg2.ProgrammingError("no such thing")
            return super().result()

    text = HEADER + csv_row(1, zone="Mars") + "".join(csv_row(each) for each in range(2, 5_000))
    with pytest.raises(psycopg2.ProgrammingError):
        import_text(text, Watching(), connect=Broken)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_says_how_far_it_came_and_that_it_may_be_run_again(import_text, database):
    def interrupt():
        raise KeyboardInterrupt

    text = HEADER + "".join(csv_row(number) for number in range(2500))
    with pytest.raises(KeyboardInterrupt, match=r"^Broken off after 1,000 records; run .* nothing is scheduled twice$"):
        import_text(text, Watching(interrupt))
    assert count(database) >= 1000
    assert import_text(text, Watching())[0].read == 2500
    assert count(database) == 2500

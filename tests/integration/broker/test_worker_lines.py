"""Worker lines as they are started for real: what they wait for, what they refuse, and what they do about bad calls."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import count
from uuid import uuid4

import psycopg2
import pytest

import reminders
from integration.ledger.world import World
from reminders import bootstrap, readiness
from reminders.bootstrap import Channels
from reminders.celery_options import SCAN_TASK, WOKEN_BY_WATCH
from reminders.domain.errors import SettingsError
from reminders.ledger.database import driver_url
from reminders.ledger.migrations import migrate
from reminders.ledger.scanning import PostgresScan
from reminders.settings import Settings

from .conftest import eventually

_numbers = count()
CELERY = ["-m", "celery", "-A", "reminders"]
REMINDERS = ["-c", "from reminders.cli.app import main; main()"]
NOBODY = "redis://:secret-of-redis@127.0.0.1:1/0"


@pytest.fixture
def line(probe, services, tmp_path):
    """Starts a command of ours against the run's Postgres and this test's Redis."""

    def start(*argv, **environ):
        environ = {"DATABASE_URL": services.database_url, "REMINDERS_HOME": str(tmp_path / "home"), **environ}
        return probe.run(argv, **environ)

    return start


@pytest.fixture
def unmigrated(services):
    """The URL of a database that no release has migrated yet."""
    connection = psycopg2.connect(services.database_url)
    connection.autocommit = True
    name = f"worker_lines_{next(_numbers)}"
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        yield driver_url(services.database_url).set(database=name).render_as_string(hide_password=False)
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.close()


def test_workers_are_started_once_the_ledger_is_migrated(line, probe, unmigrated):
    parent = line(*REMINDERS, "worker", "scan", DATABASE_URL=unmigrated)
    eventually(lambda: "Workers wait for the ledger. The ledger's schema" in probe.output(), 45)
    assert "scan 1 started" not in probe.output()

    migrate(unmigrated, "reminders")

    probe.await_ready()
    assert probe.output().count("Workers wait for the ledger") == 1
    with psycopg2.connect(unmigrated.replace("+psycopg2", "")) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT deduplicates FROM reminders.known_channels WHERE name = 'webhook'")
        assert cursor.fetchone() == (True,)
    connection.close()
    parent.terminate()
    assert parent.wait(25) == 0


def test_a_database_that_is_away_is_waited_for_until_told_to_stop(line, probe):
    parent = line(*REMINDERS, "worker", "deliver", DATABASE_URL="postgresql://x@127.0.0.1:1/x")
    eventually(lambda: "Workers wait for the ledger. Postgres does not answer" in probe.output(), 45)

    parent.terminate()

    assert parent.wait(15) == 0
    assert "deliver 1 started" not in probe.output()
    assert "Traceback" not in probe.output()


def test_a_worker_started_by_hand_refuses_a_ledger_that_is_behind(line, probe, unmigrated):
    worker = line(*CELERY, "worker", "-Q", "deliver", DATABASE_URL=unmigrated, REMINDERS_WEBHOOK_SECRET="s" * 24)

    assert worker.wait(60) == 1
    assert probe.output().splitlines()[-1] == "Run `reminders migrate` first."
    assert "Traceback" not in probe.output()


def test_a_channel_that_cannot_send_is_told_once_and_its_reminders_wait(line, probe, database, broker_settings):
    world = World(database)
    ids = {}
    with world.connect() as connection:
        for channel, destination in [("webhook", "https://example.com/hook"), ("log", "somewhere")] * 2:
            wanted = world.wanted(channel=channel, destination=destination)
            ids[reminders.schedule(connection, **wanted).id] = channel
    line(*CELERY, "worker", "-Q", "deliver", "--loglevel", "INFO")
    probe.await_ready()

    assert bootstrap.scan_of(broker_settings, PostgresScan(database)).once().published == 4

    def states():
        rows = query(database, "SELECT r.id, COALESCE(d.status, r.status), COALESCE(d.attempts, 0) FROM reminders.reminders r LEFT JOIN reminders.due d ON d.id = r.id")  # fmt: skip
        return sorted((ids[reminder_id], status, attempts) for reminder_id, status, attempts in rows)

    wanted = [("log", "delivered", 0)] * 2 + [("webhook", "pending", 0)] * 2
    eventually(lambda: states() == wanted, 45)
    assert query(database, "SELECT DISTINCT body_format FROM reminders.notification_deliveries") == [(1,)]
    output = probe.output()
    assert output.count("Channel webhook cannot send, its reminders wait until it can") == 1
    assert output.count("deliver.no_provider channel=webhook") == 1
    assert "Traceback" not in output
    world.close()


def test_a_worker_refuses_only_when_no_channel_can_send(monkeypatch):
    faults = {"webhook": "no secret", "log": "no log"}
    monkeypatch.setattr(bootstrap, "channels", lambda _: Channels({}, faults, {}, frozenset()))

    with pytest.raises(SettingsError, match="webhook: no secret; log: no log") as refused:
        readiness.check_channels(Settings(), ["retry"])

    assert len(str(refused.value).splitlines()) == 2
    readiness.check_channels(Settings(), ["scan", "maintenance"])


def test_a_tick_that_waited_too_long_is_counted_and_logged(line, probe, database, sender):
    sender.send_task(SCAN_TASK, expires=datetime.now(UTC) - timedelta(seconds=1))
    line(*CELERY, "worker", "-Q", "scan")

    eventually(lambda: query(database, "SELECT sum(dropped) FROM reminders.ticks") == [(1,)], 45)

    assert "scan.tick_dropped: it waited longer than a period" in probe.output()
    assert "Traceback" not in probe.output()


TICKS = "SELECT name, taken, dropped FROM reminders.ticks ORDER BY name"


def test_what_a_scanner_sends_itself_is_no_tick_of_beat(line, probe, database):
    line(*CELERY, "worker", "-Q", "scan")

    eventually(lambda: query(database, TICKS) == [("watch", 1, 0)], 45)


def test_what_a_scanner_sent_itself_and_came_too_late_is_no_dropped_tick_of_beat(line, probe, database, sender):
    late = datetime.now(UTC) - timedelta(seconds=1)
    sender.send_task(SCAN_TASK, expires=late, headers={WOKEN_BY_WATCH: True})
    sender.send_task(SCAN_TASK, expires=late)
    line(*CELERY, "worker", "-Q", "scan")

    eventually(lambda: len(query(database, TICKS)) == 2, 45)

    (_, _, of_beat), (_, _, of_watch) = query(database, TICKS)
    assert (of_beat, of_watch) == (1, 1)


def test_a_starting_beat_ticks_at_once(line, probe, database):
    line(*CELERY, "beat")
    line(*CELERY, "worker", "-Q", "scan")

    eventually(lambda: query(database, TICKS)[:1] == [("scan_due", 1, 0)], 45)


def test_a_delivery_called_with_too_little_is_one_line_in_the_log(line, probe, database, server):
    line(*CELERY, "worker", "-Q", "deliver", REMINDERS_WEBHOOK_SECRET="s" * 24)
    eventually(lambda: server.client.zcard("reminders:workers"), 45)
    for arguments in ("[]", '["one"]', f'["{uuid4()}", "a\\u0000b"]', "[5, {}]"):
        called = line(*CELERY, "call", "reminders.deliver", "-a", arguments)
        assert called.wait(20) == 0

    eventually(
        lambda: probe.output().count("Dropped a message for task reminders.deliver: it names no reminder") == 4, 45
    )
    assert "Traceback" not in probe.output()


@pytest.mark.parametrize("command", ["inspect ping", "call reminders.deliver", "worker", "beat", "purge -f", "status"])
def test_without_any_broker_a_celery_command_says_so_in_two_lines(command, tmp_path):
    ended = celery(command, tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-2].startswith("REDIS_URL is not set and no embedded Redis runs under")
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("command", ["inspect ping", "call reminders.deliver", "purge -f"])
def test_a_dead_broker_is_told_without_traceback_or_password(command, tmp_path):
    ended = celery(command, tmp_path, REDIS_URL=NOBODY)
    assert ended.returncode != 0
    assert "Connection refused" in ended.stderr
    assert len(ended.stderr.splitlines()) <= 2
    assert "secret-of-redis" not in ended.stderr


def test_a_worker_whose_broker_is_away_says_so_once_in_half_a_minute(line, probe, migrated):
    worker = line(*CELERY, "worker", "-Q", "scan", REDIS_URL=NOBODY)
    eventually(lambda: "Cannot connect to" in probe.output(), 45)

    with pytest.raises(subprocess.TimeoutExpired):
        worker.wait(8)  # two more attempts, at two and six seconds

    told = [line for line in probe.output().splitlines() if "onnect" in line]
    assert len(told) == 1, told
    assert "Trying again" in told[0]


def celery(command, folder, **environ):
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    argv = [sys.executable, *CELERY, *command.split()]
    environ = {**kept, "REMINDERS_HOME": str(folder / "home"), "PYTHONWARNINGS": "ignore", **environ}
    return subprocess.run(argv, env=environ, cwd=folder, capture_output=True, text=True, timeout=30, check=False)


def query(database, text):
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(text)
        return cursor.fetchall()


def test_claims_take_the_deduplication_window_from_the_settings(database):
    stage = bootstrap.deliver_of(Settings(dedup_window=400_000.0), database, worker="w")

    assert stage.claims._rules["window"] == 400_000.0

"""`reminders scan` and `reminders status`, with and without a broker."""

import json
import signal
import socket
from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import only
from reminders.celery_options import KEY_PREFIX, QUEUES
from reminders.domain.outcomes import Delivered, Rejected, Retry
from reminders.domain.retry_policy import Bury, Deliver, Park
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.status import COUNTED

STATUS_KEYS = {
    "v", "counts", "oldest_due_age_seconds", "in_flight", "queues", "unacknowledged", "workers", "silent_workers", "dropped_messages", "broker_error", "last_tick_at",
    "beat_ticks", "dropped_ticks", "dead_letters_open", "notices_open", "notices", "held", "quiet", "pauses", "reconciliation",
    "drains", "rates", "waiting_for_turns", "waiting_for_holds", "breakers_open", "tenants", "dispatchers", "dispatchers_away",
}  # fmt: skip


@pytest.fixture
def nobody_listens():
    """The address of a port that nothing answers on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"redis://:hidden-word@127.0.0.1:{taken.getsockname()[1]}/0"


def on_queue(broker):
    return [json.loads(message) for message in broker.lrange(f"{KEY_PREFIX}deliver", 0, -1)]


def test_scan_leases_and_publishes_what_is_due(run, stage, broker):
    due = [stage.schedule() for _ in range(2)]
    stage.schedule(due_at=datetime.now(UTC) + timedelta(hours=1))
    result = run("scan", "--json")
    assert (result.exit_code, only(result)) == (0, {"v": 1, "leased": 2, "published": 2, "full": False})
    assert len(on_queue(broker)) == 2
    assert sorted(stage.rows("SELECT id::text FROM due WHERE status = 'published'")) == sorted(
        (str(r.id),) for r in due
    )
    assert run("scan").stdout == "0 leased, 0 published\n"


def test_scan_under_another_clock(run, stage, broker):
    later = datetime(2031, 5, 1, tzinfo=UTC)
    stage.schedule(due_at=later)
    assert only(run("scan", "--now", "2031-04-30T23:59:59Z", "--json"))["leased"] == 0
    assert only(run("scan", "--now", "2031-05-01T00:00:00Z", "--json"))["leased"] == 1
    assert run("scan", "--now", "2031-05-01T00:00:00").stderr == "now: needs Z or an offset\n"


def test_scan_leases_nothing_while_redis_is_away(run, stage, monkeypatch, nobody_listens):
    monkeypatch.setenv("REDIS_URL", nobody_listens)
    stage.schedule()
    result = run("scan")
    assert result.exit_code == 1
    assert result.stderr.startswith("Redis does not answer: ")
    assert len(result.stderr.splitlines()) == 2
    assert "hidden-word" not in result.stderr
    assert stage.rows("SELECT status FROM due") == [("pending",)]


def test_scan_tells_of_messages_that_the_broker_did_not_take(run, stage, broker):
    stage.schedule()
    broker.config_set("maxmemory", "1")
    try:
        result = run("scan", "--json")
    finally:
        broker.config_set("maxmemory", "0")
    assert (result.exit_code, only(result)) == (3, {"v": 1, "leased": 1, "published": 0, "full": False})
    assert stage.rows("SELECT status FROM due") == [("leased",)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_scan_holds_until_it_is_told_to_stop(stage, broker, start, number):
    stage.schedule()
    with start("scan", "--hold", "--json", environ={"REMINDERS_SCAN_EVERY": "50s"}) as holding:
        while not broker.llen(f"{KEY_PREFIX}deliver"):
            assert holding.poll() is None
        holding.send_signal(number)
        out, err = holding.communicate(timeout=30)
    assert (json.loads(out), err) == ({"v": 1, "leased": None, "published": 1, "full": None}, "")
    assert holding.returncode == 0


def test_status_of_an_empty_ledger(run, stage, broker):
    result = run("status", "--json")
    assert result.exit_code == 0
    assert only(result) == {
        "v": 1, "counts": dict.fromkeys(COUNTED, 0), "oldest_due_age_seconds": 0.0, "in_flight": 0,
        "queues": dict.fromkeys(QUEUES, 0), "unacknowledged": 0, "workers": [], "silent_workers": [], "dropped_messages": {}, "broker_error": None, "last_tick_at": None, "beat_ticks": False, "dropped_ticks": 0,
        "dead_letters_open": 0, "notices_open": 0, "notices": {}, "held": 0, "quiet": 0, "pauses": [], "reconciliation": None,
        "tenants": {"off": 0, "shadow": 0, "live": 0}, "dispatchers": {}, "dispatchers_away": [],
        "drains": [], "rates": [], "waiting_for_turns": 0, "waiting_for_holds": {"destination": 0, "channel": 0}, "breakers_open": 0,
    }  # fmt: skip


def test_status_counts(run, stage, broker):
    delivered, dead, _sending = (stage.schedule() for _ in range(3))
    stage.deliver(delivered, Delivered(), Deliver())
    stage.deliver(dead, Rejected("http_410", "gone", 410), Bury("destination"))
    stage.claim(_sending)
    stage.schedule(due_at=datetime.now(UTC) - timedelta(minutes=10))
    PostgresScan(stage.database).record_tick(taken=1, dropped=2)
    broker.lpush(f"{KEY_PREFIX}retry", "message")
    found = only(run("status", "--json"))
    assert set(found) == STATUS_KEYS
    assert {name: count for name, count in found["counts"].items() if count} == {
        "pending": 1, "sending": 1, "delivered": 1, "dead": 1,
    }  # fmt: skip
    assert 600 <= found["oldest_due_age_seconds"] < 700
    assert (found["in_flight"], found["dead_letters_open"], found["dropped_ticks"]) == (1, 1, 2)
    assert found["queues"] == dict.fromkeys(QUEUES, 0) | {"retry": 1}
    tick = datetime.fromisoformat(found["last_tick_at"])
    assert timedelta() <= datetime.now(UTC) - tick < timedelta(minutes=1)
    assert found["beat_ticks"] is True


@pytest.mark.parametrize(("ago", "ticks"), [(100, True), (125, False)])
def test_status_says_that_beat_has_not_ticked_for_two_periods(run, stage, broker, ago, ticks):
    ledger = PostgresScan(stage.database)
    ledger.record_tick(taken=1)
    stage.rows(f"UPDATE ticks SET last_at = clock_timestamp() - interval '{ago} s' RETURNING 1")
    before = only(run("status", "--json"))["last_tick_at"]
    ledger.record_tick(taken=1, dropped=3, by_beat=False)  # the scanner has gone on by itself since

    found = only(run("status", "--json"))

    assert (found["last_tick_at"], found["beat_ticks"], found["dropped_ticks"]) == (before, ticks, 0)
    (line,) = [line for line in run("status").stdout.splitlines() if line.startswith("last tick")]
    assert line.split(None, 2)[2] == before + (
        "" if ticks else ", more than 2 periods ago: does beat run, and a scanner?"
    )


def test_a_scanner_that_only_wakes_itself_shows_no_tick_of_beat(run, stage, broker):
    PostgresScan(stage.database).record_tick(taken=1, by_beat=False)
    assert only(run("status", "--json"))["last_tick_at"] is None
    assert "none yet: does beat run?" in run("status").stdout


def test_status_for_people(run, stage, broker):
    stage.schedule(due_at=datetime.now(UTC) - timedelta(minutes=10))
    shown = run("status").stdout
    assert "1 pending" in shown
    assert "60" in shown
    assert "s late" in shown
    assert "none yet: does beat run?" in shown
    assert "none: does `reminders up`, or a line of the Procfile, run?" in shown


def test_status_while_redis_is_away(run, stage, monkeypatch, nobody_listens):
    monkeypatch.setenv("REDIS_URL", nobody_listens)
    stage.schedule()
    result = run("status", "--json")
    found = only(result)
    assert (result.exit_code, result.stderr) == (0, "")
    assert set(found) == STATUS_KEYS
    assert (found["queues"], found["workers"]) == (None, None)
    assert "refused" in found["broker_error"]
    assert found["counts"]["pending"] == 1
    shown = run("status").stdout
    assert "away: " in shown
    assert "hidden-word" not in shown + found["broker_error"]


@pytest.mark.parametrize("state", ["leased", "published"])
def test_lateness_does_not_hide_behind_the_next_look(run, stage, broker, state):
    reminder = stage.schedule(due_at=datetime.now(UTC) - timedelta(minutes=10))
    stage.lease() if state == "leased" else stage.publish()
    found = only(run("status", "--json"))
    assert found["counts"][state] == 1
    assert 600 <= found["oldest_due_age_seconds"] < 700
    if state == "published":
        stage.claim(reminder)
        assert only(run("status", "--json"))["oldest_due_age_seconds"] == 0


def test_a_retry_is_late_since_its_pause_ended(run, stage, broker):
    reminder = stage.schedule(due_at=datetime.now(UTC) - timedelta(minutes=10))
    stage.deliver(reminder, Retry("http_503", "busy", status_code=503), Park(0.0, "deliver"))
    assert only(run("status", "--json"))["oldest_due_age_seconds"] < 300
    stage.publish()
    assert 0 < only(run("status", "--json"))["oldest_due_age_seconds"] < 300


@pytest.mark.parametrize("url", ["amqp://guest@localhost", "nonsense", "redis://h:1/abc", "redis://h:99999/0"])
def test_status_with_an_address_that_is_no_redis(run, stage, monkeypatch, url):
    monkeypatch.setenv("REDIS_URL", url)
    for command in (["status", "--json"], ["list"], ["scan"], ["up"], ["migrate"]):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (1, "")
        first, second = result.stderr.splitlines()
        assert first.startswith("REDIS_URL: ")
        assert second.startswith("Write redis://")


@pytest.mark.parametrize("name", ["REDIS_URL", "DATABASE_URL"])
def test_up_starts_nothing_while_an_address_does_not_answer(run, monkeypatch, nobody_listens, tmp_path, name):
    monkeypatch.setenv("REMINDERS_HOME", str(tmp_path / "home"))
    address = nobody_listens if name == "REDIS_URL" else nobody_listens.replace("redis", "postgresql")
    monkeypatch.setenv(name, address)
    monkeypatch.delenv("DATABASE_URL" if name == "REDIS_URL" else "REDIS_URL")
    result = run("up")
    assert (result.exit_code, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert "does not answer" in first
    assert name in second
    assert "hidden-word" not in result.stderr
    assert not (tmp_path / "home").exists()

"""`reminders quarantine`: refuses while anybody is connected, plans series first, and may be said again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest

from integration.cli.stage import lines, only
from reminders.broker import presence
from reminders.broker.link import Link
from reminders.broker.presence import KEY, Presence, announce
from reminders.domain.outcomes import Rejected
from reminders.domain.retry_policy import Bury
from reminders.ledger import series_changing
from reminders.ledger.planning import plan_due
from reminders.ledger.statement import Statement
from reminders.operate import quarantine as operating
from reminders.pipeline.series_request import to_series_request
from reminders.providers import registry

SINCE = "2026-01-01T00:00Z"
UNFINISH = Statement("unfinish", "UPDATE {s}.quarantines SET ended_at = NULL RETURNING 1", {})
SAID = ("quarantine", "--since", SINCE, "--reason", "restored", "--actor", "ada", "--json")


@pytest.fixture
def alone(stage, monkeypatch) -> None:
    """Nobody else: the connections of this test are no worker's."""
    monkeypatch.setattr(operating, "WORKERS", "reminders-worker")


@pytest.fixture
def present(settings, broker, monkeypatch) -> Iterator[None]:
    # It speaks once, where a real one does every second: that holds for the whole test.
    monkeypatch.setattr(presence, "SILENT_AFTER", 60.0)
    link = Link(settings)
    announce(link, Presence("d@h", 11, ("deliver",), 32))
    yield
    link.close()


def series(stage, settings, now, **changed):
    given = {
        "tenant_id": "acme", "user_id": "u", "kind": "pills", "channel": "webhook", "destination": "https://hooks.example/p",
        "start": datetime(2026, 1, 1, 9), "zone": "UTC", "rule": "FREQ=DAILY", "reference": "pills", **changed,
    }  # fmt: skip
    request = to_series_request(lambda channel: registry.load(channel, settings), **given)
    with stage.database.transaction() as connection:
        return series_changing.schedule(connection, "reminders", request, now=now)[0]


def test_it_refuses_while_a_workers_connection_is_open(run, stage, broker):
    made = stage.schedule()
    result = run(*SAID)
    assert result.exit_code == 1
    assert "of workers or scanners to Postgres are open" in result.stderr
    assert stage.rows("SELECT count(*) FROM pauses UNION ALL SELECT count(*) FROM quarantines") == [(0,), (0,)]
    assert stage.rows(f"SELECT status, version FROM reminders_v1 WHERE id = '{made.id}'") == [("pending", 1)]


@pytest.mark.usefixtures("alone", "present")
def test_it_refuses_while_redis_knows_of_a_worker(run, stage, broker):
    result = run(*SAID)
    assert (result.exit_code, "workers live: d@h (11)" in result.stderr) == (1, True)
    broker.delete(KEY)
    assert run(*SAID).exit_code == 0


@pytest.mark.usefixtures("alone", "present")
def test_a_dry_run_counts_beside_workers_and_says_that_they_are_there(run, stage):
    stage.schedule()
    told = only(run("quarantine", "--since", SINCE, "--dry-run", "--json"))
    assert (told["repeat"], told["review"], told["series_due"], told["dry_run"]) == (1, 0, 0, True)
    assert told["connected"] == ["workers live: d@h (11)"]
    shown = run("quarantine", "--since", SINCE, "--dry-run").stdout
    assert "1          may have been sent, and is repeated under the same key" in shown
    assert "It would be refused now: workers live: d@h (11)" in shown
    assert stage.count("quarantines") == 0


@pytest.mark.usefixtures("alone", "broker")
def test_without_redis_only_postgres_is_asked(run, stage, monkeypatch):
    monkeypatch.setenv("REDIS_URL", "redis://127.0.0.1:1/0")
    result = run(*SAID)
    assert (result.exit_code, "Redis does not answer" in result.stderr) == (1, True)
    assert run(*SAID, "--without-redis").exit_code == 0


@pytest.mark.usefixtures("alone", "broker")
def test_it_is_on_record_and_said_again_it_does_nothing(run, stage):
    stage.schedule()
    dead = stage.schedule()
    stage.deliver(dead, Rejected("http_410", "gone", 410), Bury("destination"))
    first = only(run(*SAID))
    assert (first["repeat"], first["letter"], first["already"], first["actor"], first["reason"]) == (
        1,
        1,
        False,
        "ada",
        "restored",
    )
    assert stage.rows("SELECT ended_at IS NOT NULL FROM pauses") == [(True,)]
    again = only(run(*SAID))
    assert again == {**first, "already": True}
    (listed,) = lines(run("quarantine", "--list", "--json"))
    assert listed["id"] == first["id"]
    assert "Nothing to do: quarantined since 2026-01-01T00:00:00Z already, by ada" in run(*SAID[:-1]).stdout
    assert "restored" in run("quarantine", "--list").stdout
    assert run("audit").exit_code == 0
    assert f"; quarantined since, now version {first['epoch']}" in run("show", dead.id).stdout
    # An earlier time is another question.
    earlier = only(run("quarantine", "--since", "2025-12-01T00:00Z", "--reason", "older", "--json"))
    assert (earlier["already"], earlier["epoch"] > first["epoch"]) == (False, True)


@pytest.mark.usefixtures("alone", "broker")
def test_letters_stay_on_the_operators_word(run, stage):
    dead = stage.schedule()
    stage.deliver(dead, Rejected("http_410", "gone", 410), Bury("destination"))
    assert only(run(*SAID, "--no-redrives"))["letter"] == 0
    assert stage.rows("SELECT kind FROM dead_letters") == [("destination",)]


@pytest.mark.usefixtures("alone", "broker")
def test_turns_that_came_meanwhile_are_made_and_judged_before_a_planner_sends_them(run, stage, settings):
    now = datetime.now(UTC)
    # Half a day from its turns: none comes due while this runs.
    start = datetime(2026, 1, 1, (now.hour + 12) % 24)
    made = series(stage, settings, now - timedelta(days=3), catch_up="all", start=start)
    assert stage.rows("SELECT count(*), max(due_at) < now() FROM reminders") == [(1, True)]
    told = only(run("quarantine", "--since", (now - timedelta(days=3)).isoformat(), "--reason", "restored", "--json"))
    assert (told["series_planned"] >= 1, told["repeat"], told["ahead"], told["faulty_series"]) == (
        True,
        3,
        1,
        [],
    )
    count = stage.count("reminders")
    assert plan_due(stage.database, 100, None) == 0
    assert stage.count("reminders") == count
    repeated = stage.rows(
        f"SELECT count(*) FROM notification_deliveries n JOIN reminders r USING (delivery_key) WHERE r.series_id = '{made.id}'"
    )
    assert repeated == [(told["repeat"],)]
    assert run("audit", "--series").exit_code == 0


@pytest.mark.usefixtures("alone", "broker")
def test_a_series_that_somebody_holds_is_waited_for_and_everything_stays_paused(
    run, stage, settings, monkeypatch, migrated
):
    monkeypatch.setattr(operating, "PATIENCE", 0.2)
    series(stage, settings, datetime.now(UTC) - timedelta(days=3))
    holder = psycopg2.connect(migrated)
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.series FOR UPDATE")
        result = run(*SAID)
        assert (result.exit_code, "an application holds it" in result.stderr) == (1, True)
    # Its lock is gone at once, where the session of a connection that is closed may end later.
    holder.rollback()
    holder.close()
    assert stage.rows("SELECT count(*) FROM pauses WHERE ended_at IS NULL") == [(1,)]
    assert only(run(*SAID))["ahead"] == 1
    assert stage.rows("SELECT count(*) FROM pauses WHERE ended_at IS NULL") == [(0,)]


@pytest.mark.usefixtures("alone", "broker")
def test_an_unfinished_one_of_a_backup_gives_way_to_the_next(run, stage):
    made = stage.schedule()
    assert run(*SAID).exit_code == 0
    stage.database.fetch(UNFINISH)
    later = datetime.now(UTC).isoformat()
    told = only(run("quarantine", "--since", later, "--reason", "restored again", "--json"))
    assert (told["already"], told["repeat"]) == (False, 1)
    assert stage.rows("SELECT count(*), count(ended_at) FROM quarantines") == [(2, 2)]
    assert stage.rows(f"SELECT status FROM reminders_v1 WHERE id = '{made.id}'") == [("pending",)]


@pytest.mark.usefixtures("alone", "broker")
def test_an_unfinished_one_is_finished_before_an_earlier_one_begins(run, stage):
    assert run(*SAID).exit_code == 0
    stage.database.fetch(UNFINISH)
    result = run("quarantine", "--since", "2025-01-01T00:00Z", "--reason", "x")
    assert (result.exit_code, "is unfinished" in result.stderr) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--since", SINCE), "Missing option '--reason'"),
        (("--reason", "x"), "Missing option '--since'"),
        (("--since", "2h", "--reason", "x"), "since: "),
        (("--since", "2026-01-01T00:00", "--reason", "x"), "needs Z or an offset"),
        (("--since", "2090-01-01T00:00Z", "--dry-run"), "is in the future"),
        (("--since", "2090-01-01T00:00Z", "--reason", "x"), "is in the future"),
    ],
)
def test_what_makes_no_sense_is_refused(run, stage, broker, arguments, told):
    result = run("quarantine", *arguments)
    assert (result.exit_code in {1, 2}, told in result.stderr, result.stderr.count("\n") <= 4) == (True, True, True)


def test_json_is_one_object(run, stage, broker):
    result = run("quarantine", "--since", SINCE, "--dry-run", "--json")
    assert json.loads(result.stdout)["v"] == 1

"""`reminders capacity`: from given figures, from history, and both; what it refuses."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import only
from reminders.domain.outcomes import Delivered, Retry
from reminders.domain.retry_policy import Deliver, Park

FIGURES = ("--peak", "60000", "--within", "10m", "--p50", "40ms", "--p95", "0.2s", "--p99", "2s")


def test_given_figures_need_no_server(run, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    told = only(run("capacity", *FIGURES, "--calls-per-reminder", "1.2", "--json"))
    assert (told["rate"], told["from_history"], told["postgres_limit"], told["fits"]) == (120, None, None, True)
    assert [line["name"] for line in told["lines"]][:3] == ["calls", "rate", "latency"]
    shown = run("capacity", *FIGURES).stdout
    assert "N = 60,000 reminders within W = 600 s, A = 1 calls each, p50 40 ms, p95 200 ms, p99 2,000 ms\n" in shown
    assert "calls / W = 60,000 / 600 s" in shown


def test_what_does_not_fit_is_told(run):
    shown = run("capacity", *FIGURES, "--dyno-mb", "100").stdout
    assert "Short: a dyno of 100 MB does not hold 2 processes" in shown


def at_noon(stage, count):
    """So many delivered, all due in one minute; the first after a retry. Each call took 12 ms."""
    due_at = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(hours=1)
    for number in range(count):
        made = stage.schedule(due_at=due_at + timedelta(seconds=number))
        if number == 0:
            stage.deliver(made, Retry("http_503", ""), Park(0.0, "deliver"))
            with stage.database.transaction() as connection, connection.cursor() as cursor:
                cursor.execute("UPDATE reminders.due SET wake_at = now()")
        stage.deliver(made, Delivered("far"), Deliver())


def test_history_has_peak_amplification_and_latency(run, stage):
    at_noon(stage, 4)
    made = stage.schedule(due_at=datetime.now(UTC) - timedelta(hours=3))
    stage.deliver(made, Delivered("far"), Deliver())
    told = only(run("capacity", "--json"))
    assert (told["peak"], told["window_seconds"], told["calls_per_reminder"]) == (4, 60, 1.2)
    assert told["latency_seconds"] == {"p50": 0.012, "p95": 0.012, "p99": 0.012, "mean": 0.012}
    assert told["from_history"] == {"attempts": 6, "part": 1}
    assert told["latency"] == 12
    # The servers' own limit is held against it.
    assert told["postgres_limit"] == 200
    assert ", from 6 attempts, all of what is on record" in run("capacity").stdout


def test_what_is_given_goes_before_history(run, stage):
    at_noon(stage, 2)
    told = only(run("capacity", "--peak", "500", "--p99", "3s", "--within", "5m", "--postgres-limit", "20", "--json"))
    assert (told["peak"], told["latency_seconds"]["p99"], told["latency_seconds"]["mean"]) == (500, 3, None)
    assert (told["postgres_limit"], told["fits"]) == (20, False)
    assert "Postgres allows 20 connections" in told["short"][0]


def test_without_history_it_says_what_to_give(run, stage):
    stage.schedule()
    result = run("capacity")
    assert (result.exit_code, result.stdout) == (1, "")
    assert (
        result.stderr == "no call was made in the last 7 days\nGive --peak, --p50, --p95 and --p99, or more --days.\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((*FIGURES[:-1], "2 parsecs"), "--p99: '2 parsecs' is no duration"),
        ((*FIGURES[:-1], "20s"), "--p99: is beyond REMINDERS_HTTP_DEADLINE (10 s)"),
        ((*FIGURES, "--within", "0s"), "--within: must be between"),
        ((*FIGURES, "--peak", "-3"), "--peak: must be between 1 and"),
        ((*FIGURES, "--peak", "nan"), "--peak: must be between 1 and"),
        ((*FIGURES, "--p50", "1s"), "--p95: percentiles must not fall"),
        ((*FIGURES, "--calls-per-reminder", "0.5"), "--calls-per-reminder: must be between 1 and"),
        ((*FIGURES, "--postgres-limit", "0"), "Invalid value for '--postgres-limit'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(run, arguments, told):
    result = run("capacity", *arguments)
    assert (result.exit_code in {1, 2}, told in result.stderr) == (True, True), result.stderr


def test_json_is_versioned(run):
    assert json.loads(run("capacity", *FIGURES, "--json").stdout)["v"] == 1

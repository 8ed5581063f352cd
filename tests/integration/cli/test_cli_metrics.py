"""`reminders metrics`: what it prints is what Prometheus reads; the endpoint does not start open, and stops when told."""

from __future__ import annotations

import json
import re
import signal
import socket

import pytest
import requests
from prometheus_client.parser import text_string_to_metric_families

from reminders.domain.outcomes import Delivered
from reminders.domain.retry_policy import Deliver
from reminders.ledger.counting import count_attempts

TOKEN = "a-token-of-some-length-0123"


def test_once_to_stdout(run, stage, broker):
    stage.schedule()
    result = run("metrics")
    found = {each.name for each in text_string_to_metric_families(result.stdout)}
    assert result.exit_code == 0
    assert {"reminders_due", "reminders_processes", "reminders_publish_failures"} <= found
    assert 'reminders_due{status="pending"} 1.0\n' in result.stdout


def test_redis_away_is_told_in_the_metrics(run, stage, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("REDIS_URL", f"redis://127.0.0.1:{taken.getsockname()[1]}/0")
        result = run("metrics")
    assert result.exit_code == 0
    assert 'reminders_source_up{source="broker"} 0.0\n' in result.stdout
    assert 'reminders_source_up{source="ledger"} 1.0\n' in result.stdout


def test_without_a_token_it_does_not_listen(run, stage, broker):
    result = run("metrics", "--serve", "--port", 0)
    assert result.exit_code == 1
    assert "REMINDERS_METRICS_TOKEN" in result.stderr


def test_a_short_token_is_refused(run, stage, broker, monkeypatch):
    monkeypatch.setenv("REMINDERS_METRICS_TOKEN", "short")
    result = run("metrics", "--serve", "--port", 0)
    assert result.exit_code == 1
    assert result.stderr.startswith("REMINDERS_METRICS_TOKEN: must be at least 24")
    assert "'short'" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_answers_until_it_is_told_to_stop(stage, broker, start, number):
    stage.schedule()
    with start("metrics", "--serve", "--port", "0", environ={"REMINDERS_METRICS_TOKEN": TOKEN}) as process:
        said = process.stderr.readline()
        url = re.search(r"http://127\.0\.0\.1:\d+/metrics", said)[0]
        answer = requests.get(url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=20)
        assert requests.get(url, timeout=20).status_code == 401
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0
    assert re.fullmatch(r"reminders: 401 GET /metrics \(127\.0\.0\.1\) [\d.]+ms\n", err)
    assert 'reminders_due{status="pending"} 1.0\n' in answer.text
    assert TOKEN not in said


def test_a_port_that_is_taken_is_told(run, stage, broker, monkeypatch):
    monkeypatch.setenv("REMINDERS_METRICS_TOKEN", TOKEN)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run("metrics", "--serve", "--port", taken.getsockname()[1])
    assert result.exit_code == 1
    assert "Cannot listen on 127.0.0.1" in result.stderr


def test_the_objective_by_day_and_tenant(run, stage, broker):
    assert run("status", "--slo").stdout.startswith("Nothing is counted yet")
    for tenant in ("acme", "acme", "other"):
        stage.deliver(stage.schedule(tenant_id=tenant), Delivered(), Deliver())
    count_attempts(stage.database, lag=0.0)
    lines = run("status", "--slo").stdout.splitlines()
    assert [line.split()[1:4] for line in lines[1:]] == [["acme", "2", "100.00%"], ["other", "1", "100.00%"]]
    result = run("status", "--slo", "--tenant", "acme", "--json")
    assert '"called": 2, "called_in_time": 2, "called_late": 0, "delivered": 2' in result.stdout
    assert len(result.stdout.splitlines()) == 1


def test_the_endpoints_log_is_json_where_that_is_asked_for(stage, broker, start):
    environ = {"REMINDERS_METRICS_TOKEN": TOKEN, "REMINDERS_LOG": "json"}
    with start("metrics", "--serve", "--port", "0", environ=environ) as process:
        url = re.search(r"http://127\.0\.0\.1:\d+/metrics", process.stderr.readline())[0]
        assert requests.get(url, timeout=20).status_code == 401
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
    (line,) = [json.loads(each) for each in err.splitlines()]
    assert (line["line"], line["level"]) == ("metrics", "WARNING")

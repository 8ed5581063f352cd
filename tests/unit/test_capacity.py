"""The arithmetic of capacity, worked out by hand; what does not fit, and what makes no sense."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reminders.domain.errors import InvalidInput
from reminders.operate import capacity as figures
from reminders.operate.capacity import Installation, Load, capacity

LOAD = Load(60_000, 600.0, 0.04, 0.2, 2.0, calls_per_reminder=1.2)
THERE = Installation(2, 32, 256, 10.0, 12)


@pytest.fixture(autouse=True)
def round_figures(monkeypatch):
    """Measured figures change with each measurement; the arithmetic does not."""
    for name, value in {
        "WORKER_CPU_MS": 4.0, "SCANNER_CPU_MS": 0.5, "POSTGRES_CPU_MS": 2.0, "REDIS_CPU_MS": 0.2, "OWN_MS": 10.0,
        "WORKER_MB": 100.0, "PARENT_MB": 30.0, "REDIS_PER_PROCESS": 10, "SHARE_OF_SLOTS": 0.7, "SHARE_OF_CPU": 0.7,
    }.items():  # fmt: skip
        monkeypatch.setattr(figures, name, value)


def test_each_line_follows_from_those_before():
    found = capacity(LOAD, THERE)
    by_hand = {
        "calls": 72_000,
        "rate": 120,
        "latency": 290,
        "slot_time": 300,
        "concurrency": 36,
        "slots": 52,
        "processes_for_slots": 2,
        "worker_cores": 0.6857,
        "processes_for_cpu": 1,
        "processes": 2,
        "dynos": 1,
        "dyno_memory": 230,
        "memory": 230,
        "in_flight": 256,
        "postgres_connections": (2 + 4) * 12 + 10,
        "redis_connections": (2 + 4) * 10 + 4,
        "scanner_cores": 0.0857,
        "postgres_cores": 0.3429,
        "redis_cores": 0.0343,
    }
    assert {line.name: line.value for line in found.lines} == by_hand
    assert found.short == ()


def test_the_working_shows_the_figures():
    working = {line.name: (line.formula, line.working) for line in capacity(LOAD, THERE).lines}
    assert working["concurrency"] == ("Little's law: L = rate x time", "120.0 x 0.3000 s")
    assert working["latency"][1] == "0.50 x 40 + 0.45 x 200 + 0.04 x 2,000 + 0.01 x 10,000"


def test_a_measured_mean_goes_before_the_estimate():
    found = capacity(replace(LOAD, mean=0.09), THERE)
    assert (found.value("latency"), found.value("concurrency")) == (90, 12)


def test_fast_calls_need_cores_rather_than_threads():
    found = capacity(Load(600_000, 600.0, 0.001, 0.001, 0.001), replace(THERE, deadline=0.001))
    assert (found.value("processes_for_slots"), found.value("processes_for_cpu")) == (1, 6)
    # A dyno of one core runs no two processes at full speed.
    assert found.value("dynos") == 6


def test_the_estimate_is_never_below_the_mean():
    # Of a hundred calls: fifty of 40 ms, 45 of 200 ms, four of 2 s, one of 10 s.
    exact = (50 * 0.04 + 45 * 0.2 + 4 * 2.0 + 10.0) / 100
    assert capacity(LOAD, THERE).value("latency") >= exact * 1000


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (replace(THERE, dyno_mb=200.0), "set REMINDERS_PROCESSES=1"),
        (replace(THERE, dyno_mb=100.0), "take a larger one"),
        (replace(THERE, in_flight=64), "set REMINDERS_IN_FLIGHT=256"),
        (replace(THERE, postgres_limit=81), "Postgres allows 81 connections"),
        (replace(THERE, redis_limit=63), "Redis allows 63 connections"),
    ],
)
def test_what_does_not_fit_is_said(there, told):
    (sentence,) = capacity(LOAD, there).short
    assert told in sentence


def test_what_just_fits_is_not_said():
    assert capacity(LOAD, replace(THERE, postgres_limit=82, redis_limit=64, dyno_mb=230.0)).short == ()


def test_a_peak_that_one_scanner_cannot_publish():
    short = capacity(Load(3_000_000, 600.0, 0.04, 0.2, 2.0), replace(THERE, in_flight=10**9)).short
    assert [each.split(" needs")[0] for each in short] == ["the scanner", "Redis"]


@pytest.mark.parametrize(
    ("load", "there", "field"),
    [
        (replace(LOAD, peak=0), THERE, "--peak"),
        (replace(LOAD, peak=float("nan")), THERE, "--peak"),
        (replace(LOAD, window=0), THERE, "--within"),
        (replace(LOAD, calls_per_reminder=0.9), THERE, "--calls-per-reminder"),
        (replace(LOAD, p50=0.3), THERE, "--p95"),
        (replace(LOAD, p99=11.0), THERE, "--p99"),
        (LOAD, replace(THERE, dyno_mb=0.0), "--dyno-mb"),
        (LOAD, replace(THERE, dyno_cores=float("inf")), "--dyno-cores"),
    ],
)
def test_what_makes_no_sense_is_refused(load, there, field):
    with pytest.raises(InvalidInput) as refused:
        capacity(load, there)
    assert refused.value.field == field

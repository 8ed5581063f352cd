"""`reminders capacity`: what a load needs, from given figures or from what past calls took, with the arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import click

from reminders.bootstrap import MOST_CONNECTIONS
from reminders.cli.printing import print_json, print_table
from reminders.cli.session import command_settings, session
from reminders.cli.values import json_option
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput, Refused
from reminders.ledger.call_history import CallHistory, call_history
from reminders.ledger.connections import connections_allowed
from reminders.operate.capacity import Capacity, Installation, Load, capacity
from reminders.settings import Settings


@click.command("capacity", short_help="What a load needs, with the arithmetic shown.")
@click.option("--peak", type=float, metavar="N", help="Reminders due at once.  [from history: in the busiest window]")
@click.option("--within", default="1m", show_default=True, metavar="W", help="In which all of them are to be called.")
@click.option("--p50", metavar="TIME", help="Half of the calls take at most this long; `40ms`, `0.2s`.  [from history]")
@click.option("--p95", metavar="TIME", help="The same of 95 in a hundred.  [from history]")
@click.option("--p99", metavar="TIME", help="The same of 99 in a hundred.  [from history]")
@click.option("--calls-per-reminder", type=float, metavar="A", help="Retry amplification, 1 or more.  [from history]")
@click.option(
    "--days", type=click.FloatRange(0.01, 3660), default=7.0, show_default=True, help="How far back history goes."
)
@click.option("--dyno-mb", type=float, default=512.0, show_default=True, help="Memory of a worker dyno.")
@click.option("--dyno-cores", type=float, default=1.0, show_default=True, help="Cores of a worker dyno.")
@click.option(
    "--postgres-limit", type=click.IntRange(1), help="Connections that Postgres allows.  [from history: asked]"
)
@click.option("--redis-limit", type=click.IntRange(1), help="Connections that Redis allows.")
@json_option
def capacity_(
    *,
    peak: float | None,
    within: str,
    p50: str | None,
    p95: str | None,
    p99: str | None,
    calls_per_reminder: float | None,
    days: float,
    dyno_mb: float,
    dyno_cores: float,
    postgres_limit: int | None,
    redis_limit: int | None,
    as_json: bool,
) -> None:
    """How many calls a second, at once, dynos, connections and megabytes it takes to call N reminders within W.

    With --peak and the three percentiles nothing is read, and each reminder counts as one call unless --calls-per-reminder says
    otherwise. What is left out is taken from a sample of the calls of the last days. Processes and threads of a dyno are
    REMINDERS_PROCESSES and REMINDERS_CONCURRENCY.
    """
    window = _seconds("--within", within)
    assert window is not None
    given = {"p50": _seconds("--p50", p50), "p95": _seconds("--p95", p95), "p99": _seconds("--p99", p99)}
    if math.isnan(days):
        raise InvalidInput("--days", "is no number")
    settings = command_settings()
    there = _installation(settings, dyno_mb, dyno_cores, postgres_limit, redis_limit)
    history = None
    if peak is None or None in given.values():
        with session(settings) as ledger:
            history = call_history(ledger.database, age=days * 86400, within=window)
            if postgres_limit is None:
                there = replace(there, postgres_limit=connections_allowed(ledger.database))
        if history is None:
            raise Refused(
                f"no call was made in the last {days:g} days\nGive --peak, --p50, --p95 and --p99, or more --days."
            )
    load = _load(peak, window, given, calls_per_reminder, history, deadline=there.deadline)
    found = capacity(load, there)
    if as_json:
        print_json(_fields(load, there, history, found))
    else:
        _tell(load, history, found)


def _installation(
    settings: Settings, dyno_mb: float, dyno_cores: float, postgres_limit: int | None, redis_limit: int | None
) -> Installation:
    return Installation(
        settings.processes,
        settings.concurrency,
        settings.in_flight_limit,
        settings.http_deadline,
        min(settings.concurrency + 2, MOST_CONNECTIONS),
        dyno_mb,
        dyno_cores,
        postgres_limit,
        redis_limit,
    )


def _load(
    peak: float | None,
    window: float,
    given: dict[str, float | None],
    calls_per_reminder: float | None,
    history: CallHistory | None,
    *,
    deadline: float,
) -> Load:
    if history is None:
        times = {name: value for name, value in given.items() if value is not None}
        return Load(
            peak or 0.0, window, **times, calls_per_reminder=1.0 if calls_per_reminder is None else calls_per_reminder
        )
    # What was measured under another deadline ends at this one.
    known = {name: min(getattr(history, name), deadline) if value is None else value for name, value in given.items()}
    return Load(
        history.peak if peak is None else peak,
        window,
        **known,
        calls_per_reminder=history.calls_per_reminder if calls_per_reminder is None else calls_per_reminder,
        mean=history.mean if all(value is None for value in given.values()) else None,
    )


def _seconds(name: str, text: str | None) -> float | None:
    try:
        return None if text is None else parse_duration(text)
    except ValueError as error:
        raise InvalidInput(name, str(error).replace("90s,", "40ms, 90s,")) from None


def _fields(load: Load, there: Installation, history: CallHistory | None, found: Capacity) -> dict[str, Any]:
    return {
        "peak": load.peak,
        "window_seconds": load.window,
        "calls_per_reminder": load.calls_per_reminder,
        "latency_seconds": {"p50": load.p50, "p95": load.p95, "p99": load.p99, "mean": load.mean},
        "from_history": None if history is None else {"attempts": history.attempts, "part": history.part},
        "postgres_limit": there.postgres_limit,
        "redis_limit": there.redis_limit,
        **{line.name: line.value for line in found.lines},
        "lines": [line.fields() for line in found.lines],
        "fits": not found.short,
        "short": list(found.short),
    }


def _tell(load: Load, history: CallHistory | None, found: Capacity) -> None:
    source = ""
    if history is not None:
        whole = "all" if history.part >= 1 else f"a sample ({history.part:.2%})"
        source = f", from {history.attempts:,} attempts, {whole} of what is on record"
    times = ", ".join(f"{name} {getattr(load, name) * 1000:,.0f} ms" for name in ("p50", "p95", "p99"))
    print(
        f"N = {load.peak:,.0f} reminders within W = {load.window:g} s, A = {load.calls_per_reminder:.3g} calls each, {times}{source}"
    )
    rows = [
        [line.name.replace("_", " "), _figure(line.value), line.unit, f"{line.formula} = {line.working}"]
        for line in found.lines
    ]
    print_table(["", "comes to", "", "by"], rows)
    for sentence in found.short:
        print(f"Short: {sentence}.")


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"

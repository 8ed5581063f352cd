"""Isolation: how soon the fresh reminders of many tenants are called while others misbehave, and how well a cap is kept.

Starts embedded Postgres and Redis, the scanner, worker and retry lines with the shipped settings, and a receiver; each
scene has a stack of its own.

    python -m benchmarks.isolation [--scene burst|hanging|paused|capped] [--json FILE] [sizes]

burst     one tenant has BURST reminders due at once
hanging   a fifth of all destinations, each of a tenant of its own, hang until the deadline; they have done so for WARM seconds,
          and have begun within WAVE seconds
paused    a paused tenant has PAUSED reminders at the head of what is due
          In each, every one of TENANTS other tenants has one fresh reminder, due within SPREAD seconds: how late is its call?
capped    a tenant capped at RATE a second has more than that due for SECONDS, while others drain: how many are called, and
          what do the others lose against the same without a cap, in calls a second and in computing a call? Medians of ROUNDS rounds
          each, in turns: on a shared machine the cores' own speed differs by half between two rounds.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.drained import cpu_by_part
from benchmarks.stack import PATIENCE, Stack, ahead, installation, until
from reminders.domain.pauses import PauseScope
from reminders.ledger.pausing import pause
from reminders.ledger.rates import remove_rate, set_rate

WORD = {"actor": "benchmark", "reason": "benchmark"}
BOUND = 5.0
"""Seconds within which the call of a fresh reminder is to come, at the 99th percentile."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How large the scenes are."""

    tenants: int = 1000
    spread: float = 20.0
    burst: int = 50_000
    paused: int = 10_000
    warm: float = 60.0
    wave: float = 10.0
    rate: float = 50.0
    seconds: float = 60.0
    others: int = 12_000
    rounds: int = 6


def _fresh(stack: Stack, sizes: Sizes) -> dict[str, Any]:
    """One reminder for each tenant, due within the spread from five seconds ahead: how late each call is."""
    first = time.time() + 5.0
    dues = {f"/fresh/{n}": first + sizes.spread * n / sizes.tenants for n in range(sizes.tenants)}
    stack.schedule(
        [(f"tenant-{n}", path, datetime.fromtimestamp(due, UTC)) for n, (path, due) in enumerate(dues.items())]
    )
    until(
        lambda: len(stack.calls("/fresh")) == sizes.tenants, "every fresh reminder is called", sizes.spread + PATIENCE
    )
    late = sorted(min(times) - dues[path] for path, times in stack.calls("/fresh").items())
    late += [PATIENCE] * (sizes.tenants - len(late))
    found = {
        name: round(late[min(len(late) - 1, int(part * len(late)))], 3) for name, part in (("p50", 0.5), ("p99", 0.99))
    }
    return {"fresh": len(late), **found, "max": round(late[-1], 3), "within": found["p99"] <= BOUND}


def burst(stack: Stack, sizes: Sizes) -> dict[str, Any]:
    due = ahead(sizes.burst / 4000 + 5)
    stack.schedule([("loud", f"/loud/{number % 20}", due) for number in range(sizes.burst)])
    time.sleep(max(0.0, (due - datetime.now(UTC)).total_seconds()))
    found = _fresh(stack, sizes)
    return {**found, "burst": sizes.burst, "burst_left": stack.live("loud")}


def hanging(stack: Stack, sizes: Sizes) -> dict[str, Any]:
    places = sizes.tenants // 4
    every = 10.0
    stack.schedule(
        [
            (f"hangs-{n}", f"/hang/{n}", ahead(turn * every + sizes.wave * n / places))
            for turn in range(int((sizes.warm + sizes.spread + 10) / every))
            for n in range(places)
        ]
    )
    time.sleep(sizes.warm)
    before = sum(map(len, stack.calls("/hang").values()))
    found = _fresh(stack, sizes)
    return {**found, "hanging": places, "calls_to_hanging": sum(map(len, stack.calls("/hang").values())) - before}


def paused(stack: Stack, sizes: Sizes) -> dict[str, Any]:
    pause(stack.database, PauseScope(tenant_id="held"), **WORD)
    stack.schedule([("held", "/held", ahead(-600)) for _ in range(sizes.paused)])
    found = _fresh(stack, sizes)
    return {**found, "paused": sizes.paused, "called_of_the_paused": len(stack.calls("/held"))}


def capped(stack: Stack, sizes: Sizes) -> dict[str, Any]:
    """First how well the cap is kept by itself, then what it costs others: rounds in pairs, the order turned each time."""
    scope = PauseScope(tenant_id="capped")
    set_rate(stack.database, scope, per_second=sizes.rate, **WORD)
    count = int(sizes.rate * sizes.seconds * 1.5)
    stack.schedule([("capped", "/capped", ahead(-60)) for _ in range(count)])
    until(lambda: bool(stack.calls("/capped")), "the first is called")
    time.sleep(sizes.seconds + 2)
    times = sorted(stack.calls("/capped")["/capped"])
    within = [each for each in times if each - times[0] <= sizes.seconds]
    kept = len(within) / sizes.seconds
    _let_go(stack, scope)
    rounds: dict[bool, list[_Worked]] = {True: [], False: []}
    for number in range(sizes.rounds):
        for with_cap in (number % 2 == 0, number % 2 != 0):
            worked = _others(stack, sizes, f"{number}-{with_cap}", scope if with_cap else None)
            rounds[with_cap].append(worked)
    rate, free_rate = (statistics.median(each.per_second for each in rounds[capped]) for capped in (True, False))
    cpu, free_cpu = (statistics.median(each.cpu for each in rounds[capped]) for capped in (True, False))
    return {
        "rate": sizes.rate, "called_per_second": round(kept, 2), "off_by": round(abs(kept / sizes.rate - 1), 4),
        "cost_elsewhere": round(1 - rate / free_rate, 4), "cpu_cost_elsewhere": round(cpu / free_cpu - 1, 4),
        "beside_a_cap": [_told_worked(each) for each in rounds[True]],
        "without_one": [_told_worked(each) for each in rounds[False]],
        "within": abs(kept / sizes.rate - 1) <= 0.05 and 1 - rate / free_rate < 0.05 and cpu / free_cpu - 1 < 0.05,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Worked:
    """How an uncapped tenant's reminders were called."""

    per_second: float
    cpu: float
    """Seconds of everybody's computing, a call."""


def _told_worked(worked: _Worked) -> str:
    return f"{worked.per_second:.0f}/s, {worked.cpu * 1e3:.2f} ms"


def _others(stack: Stack, sizes: Sizes, name: str, scope: PauseScope | None) -> _Worked:
    """An uncapped tenant's reminders are called; with a scope, while its cap holds back more than enough."""
    if scope is not None:
        set_rate(stack.database, scope, per_second=0.1, **WORD)
        stack.schedule([("capped", f"/more-{name}", ahead(-60)) for _ in range(sizes.others // 4)])
        time.sleep(3.0)
    due = time.time() + 2 + sizes.others / 4000
    stack.schedule([("others", f"/others-{name}", datetime.fromtimestamp(due, UTC)) for _ in range(sizes.others)])
    before = cpu_by_part(stack.roots)
    until(lambda: stack.live("others") == 0, "the others are called")
    spent = sum(cpu_by_part(stack.roots).values()) - sum(before.values())
    times = stack.calls(f"/others-{name}")[f"/others-{name}"]
    if scope is not None:
        _let_go(stack, scope)
    return _Worked(len(times) / (max(times) - due), spent / len(times))


def _let_go(stack: Stack, scope: PauseScope) -> None:
    remove_rate(stack.database, scope, **WORD)
    until(lambda: stack.live("capped") == 0, "what was capped is sent")


SCENES: dict[str, Callable[[Stack, Sizes], dict[str, Any]]] = {
    "burst": burst,
    "hanging": hanging,
    "paused": paused,
    "capped": capped,
}


def run(scenes: list[str], sizes: Sizes) -> dict[str, Any]:
    """Each scene's figures, by its name."""
    found = {}
    for name in scenes:
        with installation() as stack:
            found[name] = SCENES[name](stack, sizes)
        print(f"{name:8} {'kept ' if found[name]['within'] else 'BROKEN'} " + _told(found[name]), flush=True)
    return found


def _told(figures: dict[str, Any]) -> str:
    return "  ".join(f"{name}={value}" for name, value in figures.items() if name != "within")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scene", action="append", choices=list(SCENES), help="all unless given")
    parser.add_argument("--json", type=Path, help="write the figures there")
    for each, size in asdict(Sizes()).items():
        parser.add_argument(f"--{each}", type=type(size), default=size)
    given = vars(parser.parse_args())
    chosen, file = given.pop("scene"), given.pop("json")
    figures = run(chosen or list(SCENES), Sizes(**given))
    if file is not None:
        file.write_text(json.dumps({"sizes": given, "scenes": figures}, indent=1) + "\n")
    sys.exit(0 if all(each["within"] for each in figures.values()) else 1)

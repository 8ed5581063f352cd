"""One run: an installation comes up, the storm passes over it, all becomes calm, and the evidence is read."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.chaos import calls as journal
from benchmarks.chaos import evidence, report
from benchmarks.chaos.calls import EACH
from benchmarks.chaos.findings import find
from benchmarks.chaos.lines import BIN, ROOT, STARTED, Line
from benchmarks.chaos.plan import faults, kill_share
from benchmarks.chaos.servers import Servers
from benchmarks.chaos.storm import seconds_with_calls, storm
from benchmarks.chaos.strikes import Strikes
from benchmarks.chaos.traffic import Traffic
from reminders.bootstrap import open_database
from reminders.embedded import running, throwaway_home
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.destinations import set_deduplicates
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from reminders.settings import Secret, Settings, load

SHORTENED = {"REMINDERS_RETRY_DELAYS": "1s,2s,4s,8s,15s,30s,60s"}
"""The one default that is not kept: a run cannot wait hours for a retry."""
FIRST_DELIVERY_WITHIN = 90.0
LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Given:
    """`pace` is the mean of seconds between faults; `calm` how many everything has to come to its end afterwards."""

    reminders: int
    kills: int
    pace: float
    seed: int
    trouble: float
    calm: float


def run(given: Given, out: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    """The report. Leaves the notes of the run in `out`."""
    began = time.monotonic()
    with throwaway_home("chaos") as home, running(home) as services, ExitStack() as stack:
        environ = _environment(services.database_url, services.redis_url)
        # `reminders.schedule_many` reads its settings from the environment, as in any application.
        os.environ.update(environ)
        settings = replace(load(environ), database_url=Secret(services.database_url))
        migrate(services.database_url, settings.schema)
        database = open_database(settings)
        stack.callback(database.close)
        make_partitions(database)
        calls_file = out / "calls.jsonl"
        url = stack.enter_context(_receiver(calls_file, given, settings))
        rate = given.reminders / (given.kills / kill_share() * given.pace)
        traffic = Traffic(services.database_url, url, given.seed, rate, given.reminders)
        for tenant, place, address in traffic.destinations():
            if place == EACH:
                set_deduplicates(database, tenant, "webhook", address, deduplicates=False)
        servers = Servers(home, services)
        stack.callback(servers.close)
        with _lines(environ, out, tell) as (lines, ended):
            strikes = Strikes(lines, servers, tell)
            traffic.start()
            _wait_for_first_delivery(database)
            tell(f"first delivery after {time.monotonic() - began:.0f} s; {rate:.1f} reminders a second")
            storm_began = time.monotonic()
            storm(faults(given.seed, given.pace, settings.claim), given.kills, strikes, calls_file, tell)
            stormed = time.monotonic() - storm_began
            strikes.undo_all()
            traffic.stop()
            calmed = _calm(database, given.calm, tell)
        audited = _audit(environ)
        ledger = evidence.read(database)
    calls = journal.read(calls_file)
    found = find(traffic.book, calls, ledger, strikes.freezes, settings.claim)
    _write_notes(out, traffic, strikes)
    return report.summary(
        {**asdict(given), "settings": SHORTENED},
        book=traffic.book,
        calls=calls,
        ledger=ledger,
        found=found,
        strikes=strikes,
        more={
            "audit": audited,
            "lines_ended": dict(ended),
            "seconds_with_calls": seconds_with_calls(calls, storm_began, stormed),
            "seconds": {"faults": stormed, "calm": calmed, "all": time.monotonic() - began},
        },
    )


def _environment(database_url: str, redis_url: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("REMINDERS_")}
    return {
        **kept,
        **SHORTENED,
        "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "REMINDERS_WEBHOOK_SECRET": "chaos-signing-secret-0123456789abcdef",
        "REMINDERS_ALLOW_PRIVATE": "1",
        "PYTHONUNBUFFERED": "1",
    }


@contextmanager
def _receiver(file: Path, given: Given, settings: Settings) -> Iterator[str]:
    arguments = ["0", str(file), str(given.seed), str(given.trouble), str(settings.http_deadline)]
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.chaos.receiver", *arguments], cwd=ROOT, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline().split()
        if said[:1] != [b"ready"]:
            raise RuntimeError("the receiver did not start")
        yield f"http://127.0.0.1:{int(said[1])}"
    finally:
        process.terminate()
        process.wait(30)


@contextmanager
def _lines(
    environ: Mapping[str, str], out: Path, tell: Callable[[str], None]
) -> Iterator[tuple[Mapping[str, Line], Counter[str]]]:
    """The process lines, and how often each ended although nobody ended it; it is started again then."""
    lines = {name: Line(name, environ, out / f"{name}.log") for name in STARTED}
    ended: Counter[str] = Counter()
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(LOOK_EVERY):
            for name, line in lines.items():
                code = line.restart_if_ended()
                if code is not None:
                    ended[f"{name} with code {code}"] += 1
                    tell(f"the line {name} ended by itself with code {code}")

    thread = threading.Thread(target=look, name="keeping lines up", daemon=True)
    thread.start()
    try:
        yield lines, ended
    finally:
        stop.set()
        thread.join()
        for line in lines.values():
            line.stop()


def _wait_for_first_delivery(database: Database) -> None:
    end = time.monotonic() + FIRST_DELIVERY_WITHIN
    while "delivered" not in evidence.read(database).statuses.values():
        if time.monotonic() > end:
            raise RuntimeError(f"nothing is delivered after {FIRST_DELIVERY_WITHIN:.0f} s, before any fault")
        time.sleep(LOOK_EVERY)


def _calm(database: Database, limit: float, tell: Callable[[str], None]) -> float:
    """Until nothing is live any more, at most `limit` seconds; gives the seconds it took."""
    began = time.monotonic()
    live = -1
    while live != 0 and time.monotonic() < began + limit:
        time.sleep(LOOK_EVERY)
        try:
            live = evidence.count_live(database)
        except DATABASE_AWAY:
            continue
    tell(f"{live} reminders are live {time.monotonic() - began:.0f} s after the last fault")
    return time.monotonic() - began


def _audit(environ: Mapping[str, str]) -> dict[str, Any]:
    done = subprocess.run(
        [BIN / "reminders", "audit", "--json"], env=environ, cwd=ROOT, capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    broken = [each for each in told["checks"] if each["violations"]]
    return {"violations": told["violations"], "checks": len(told["checks"]), "broken": broken}


def _write_notes(out: Path, traffic: Traffic, strikes: Strikes) -> None:
    notes = {
        "faults": [{**asdict(each.fault), "happened_at": each.at} for each in strikes.done],
        "freezes": [asdict(each) for each in strikes.freezes],
        "promises": [asdict(each) for each in traffic.book.promises],
    }
    for name, entries in notes.items():
        (out / f"{name}.jsonl").write_text("".join(f"{json.dumps(entry)}\n" for entry in entries))

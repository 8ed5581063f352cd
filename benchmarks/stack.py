"""One whole installation for a benchmark: embedded servers, process lines with the shipped settings, a receiver that takes notes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from benchmarks.drained import server_pids
from reminders.bootstrap import open_database
from reminders.embedded import running
from reminders.embedded.throwaway import throwaway_home
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.scheduling import insert
from reminders.ledger.status import make_partitions
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Secret, Settings, load

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 120.0
WORKER = "from reminders.cli.worker import worker; worker()"
LINES = {
    **{queue: ("-c", WORKER, queue, "--loglevel=WARNING") for queue in ("scan", "deliver", "retry")},
    "beat": ("-m", "reminders.supervise", "beat"),
}
"""Process lines, as the Procfile has them."""


class Stack:
    """One installation and its receiver."""

    def __init__(
        self, home: Path, database: Database, settings: Settings, *, port: int, notes: Path, roots: dict[str, int]
    ) -> None:
        self.home, self.database, self.settings, self.port, self.notes = home, database, settings, port, notes
        self.roots = roots
        """The process of each line and server below which its others are."""
        self._provider = registry.load("webhook", settings)

    def schedule(self, wanted: list[tuple[str, str, datetime]]) -> None:
        """Tenant, path and due time of each."""
        for start in range(0, len(wanted), 1000):
            requests = [
                to_request(
                    lambda _: self._provider, tenant_id=tenant, user_id="u", kind="bench", channel="webhook",
                    destination=f"http://127.0.0.1:{self.port}{path}", due_at=due, reference=f"{path}-{start + number}",
                    data={"order": number, "note": "a line of some forty characters, as in life"},
                )
                for number, (tenant, path, due) in enumerate(wanted[start : start + 1000])
            ]  # fmt: skip
            with self.database.transaction() as connection:
                insert(connection, "reminders", requests, {"webhook": True})

    def calls(self, prefix: str) -> dict[str, list[float]]:
        """The times at which each path that begins so was called."""
        found: dict[str, list[float]] = {}
        for line in self.notes.read_text().splitlines():
            at, _, path = line.partition(" ")
            if path.startswith(prefix):
                found.setdefault(path, []).append(float(at))
        return found

    def live(self, tenant: str) -> int:
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM reminders.due WHERE split_part(lane, chr(31), 1) = %s", (tenant,))
            return int(cursor.fetchone()[0])


@contextmanager
def installation(lines: Sequence[str] = ("scan", "deliver", "retry")) -> Iterator[Stack]:
    """Servers, lines and receiver, ready to work."""
    os.environ.update(REMINDERS_WEBHOOK_SECRET="benchmark-secret-0123456789abcdef", REMINDERS_ALLOW_PRIVATE="1")
    with throwaway_home("benchmark") as home, running(home) as services:
        environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}
        settings = replace(load(environ), database_url=Secret(services.database_url))
        migrate(services.database_url, "reminders")
        database = open_database(settings)
        make_partitions(database)
        notes = home / "notes"
        receiver = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.noting_receiver", "0", str(notes)],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        assert receiver.stdout is not None
        port = int(receiver.stdout.readline().split()[1])
        with (home / "lines.log").open("w") as log:
            running_lines = {
                name: subprocess.Popen([sys.executable, *LINES[name]], env=environ, stdout=log, stderr=log)
                for name in lines
            }
            roots = {name: process.pid for name, process in running_lines.items()}
            stack = Stack(
                home,
                database,
                settings,
                port=port,
                notes=notes,
                roots=roots | server_pids(database, services.redis_url),
            )
            try:
                _until_ready(stack)
                yield stack
            finally:
                for process in running_lines.values():
                    process.send_signal(signal.SIGTERM)
                for process in running_lines.values():
                    process.wait(40)
                receiver.terminate()
                receiver.wait()
                database.close()


def _until_ready(stack: Stack) -> None:
    stack.schedule([("ready", f"/ready/{number}", ahead(-1)) for number in range(200)])
    until(lambda: stack.live("ready") == 0, "the lines deliver")


def until(done: Callable[[], bool], what: str, patience: float = PATIENCE) -> bool:
    """Whether it is done within `patience` seconds; says so if it is not."""
    end = time.monotonic() + patience
    while not done():
        if time.monotonic() > end:
            print(f"not within {patience:g} s: {what}", file=sys.stderr)
            return False
        time.sleep(0.25)
    return True


def ahead(seconds: float) -> datetime:
    """The instant so many seconds from now."""
    return datetime.now(UTC) + timedelta(seconds=seconds)

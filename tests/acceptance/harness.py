"""A whole installation for a test: its own Postgres and Redis, and process lines started as the Procfile says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import redis

from acceptance.ready_ledger import give_ledger
from reminders.bootstrap import open_database
from reminders.embedded import running
from reminders.ledger.audit import AuditPolicy, audit
from reminders.ledger.database import Database
from reminders.ledger.keyring import Keyring
from reminders.ledger.scheduling import ScheduledReminder, insert
from reminders.operate.drills.stack import stands_still
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Secret, load

ROOT = Path(__file__).resolve().parents[2]
SECRET = "acceptance-signing-secret-0123456789"
_tick = threading.Event()
BIN = str(Path(sys.executable).parent)


def unset() -> dict[str, str]:
    """The environment of somebody who has made no setting."""
    ours = {"DATABASE_URL", "REDIS_URL", "PORT"}
    return {name: value for name, value in os.environ.items() if not name.startswith("REMINDERS_") and name not in ours}


def procfile() -> dict[str, str]:
    lines = (line.partition(":") for line in (ROOT / "Procfile").read_text().splitlines() if line.strip())
    return {name.strip(): command.strip() for name, _, command in lines}


PAST_A_LEASE = 120.0
"""Seconds within which what a killed scanner had leased goes on: its lease of 60 s, a tick, and a busy machine."""


def wait_until(
    condition: Callable[[], Any], timeout: float, what: str | Callable[[], str], *, every: float = 0.05
) -> Any:
    """Poll until `condition` gives something true, and return that; fail the test after `timeout` seconds, saying `what` was awaited."""
    end = time.monotonic() + timeout
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {timeout:g} s: {what if isinstance(what, str) else what()}")
        _tick.wait(every)


class Line:
    """One process line of the Procfile."""

    def __init__(self, name: str, environ: dict[str, str], log: Path) -> None:
        self.name = name
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", procfile()[name]],
            env=environ,
            cwd=ROOT,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def children(self) -> list[psutil.Process]:
        """The Celery processes of the line."""
        try:
            return psutil.Process(self._process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []

    def kill_children(self) -> None:
        """kill -9 every Celery process; the parent restarts them."""
        _send(signal.SIGKILL, self.children())

    def kill(self) -> None:
        """kill -9 parent and children, as a machine that vanishes does."""
        processes = [psutil.Process(self._process.pid), *self.children()]
        _send(signal.SIGKILL, processes)
        self._process.wait()
        psutil.wait_procs(processes[1:], 10)

    def terminate_all(self) -> None:
        """SIGTERM to parent and children at once."""
        _send(signal.SIGTERM, [psutil.Process(self._process.pid), *self.children()])

    def stop(self) -> int:
        """SIGTERM, as a platform stops a dyno; returns the exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(40)
        self._log.close()
        return code


class Stack:
    """The installation. `services` may be stopped and started through their pids by the tests."""

    def __init__(self, home: Path, environ: dict[str, str], database: Database, settings: Any, services: Any) -> None:
        self.home = home
        self.environ = environ
        self.database = database
        self.settings = settings
        self.services = services
        self.lines: dict[str, Line] = {}
        self.redis = redis.Redis.from_url(services.redis_url)
        self._restarted = ExitStack()

    def start(self, *names: str, side: str = "", **more_environ: str) -> None:
        """Start process lines; those of a second installation on the same ledger are known by `side` and their name."""
        for name in names:
            line = Line(name, {**self.environ, **more_environ}, self.home / f"{side}{name}.log")
            self.lines[f"{side}{name}"] = line

    def stop(self, *names: str) -> None:
        for name in names or list(self.lines):
            self.lines.pop(name).stop()

    def log(self, name: str) -> str:
        return (self.home / f"{name}.log").read_text(errors="replace")

    def cli(self, *arguments: str, check: bool = True, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run the `reminders` command."""
        return subprocess.run(
            [f"{BIN}/reminders", *arguments], env=self.environ, cwd=ROOT, capture_output=True, text=True, check=check,
            input=stdin, timeout=120,
        )  # fmt: skip

    def schedule(
        self, url: str, references: list[str], *, due_in: float = 0.0, tenant: str = "t", user: str = "u"
    ) -> list[ScheduledReminder]:
        """Schedule one webhook reminder per reference, `due_in` seconds from now."""
        provider = registry.load("webhook", self.settings)
        due = datetime.now(UTC) + timedelta(seconds=due_in)
        requests = [
            to_request(
                lambda _: provider, tenant_id=tenant, user_id=user, kind="k", channel="webhook", destination=url, due_at=due,
                reference=reference,
            )
            for reference in references
        ]  # fmt: skip
        with self.database.transaction() as connection:
            answers = insert(connection, self.settings.schema, requests, {"webhook": True})
        assert all(isinstance(answer, ScheduledReminder) for answer in answers)
        return answers

    def kill_redis(self) -> None:
        """kill -9 Redis."""
        _kill(self.redis.info("server")["process_id"])

    def kill_postgres(self) -> None:
        """kill -9 Postgres's parent process, and wait until its children are gone."""
        folder = self.query("SHOW data_directory")[0][0]
        _kill(int((Path(folder) / "postmaster.pid").read_text().split()[0]))

    def start_services(self) -> None:
        """Start what was killed, on the same data and the same port."""
        self._restarted.enter_context(running(self.home))
        wait_until(self._answers, 20, "Postgres answers")

    def _answers(self) -> bool:
        try:
            return self.query("SELECT 1") == [(1,)]
        except psycopg2.OperationalError:
            return False

    def close(self) -> None:
        for line in self.lines.values():
            line.stop()
        self.redis.close()
        self.database.close()
        self._restarted.close()

    def query(self, sql: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Read the ledger; the schema is on the search path."""
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path = reminders")
            cursor.execute(sql, parameters)
            return cursor.fetchall()

    def execute(self, sql: str) -> None:
        """Change the ledger behind everybody's back."""
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path = reminders")
            cursor.execute(sql)

    def call(self, task: str, *arguments: str) -> None:
        """Send a task as an operator does."""
        command = [f"{BIN}/celery", "-A", "reminders", "call", task, *arguments]
        subprocess.run(command, env=self.environ, cwd=ROOT, capture_output=True, check=True, timeout=60)

    def counts(self) -> dict[str, int]:
        return dict(self.query("SELECT status, count(*) FROM reminders_v1 GROUP BY status"))

    def wait_all(self, status: str, count: int, timeout: float) -> None:
        """Wait until `count` reminders, and no others, are in `status`."""
        wait_until(
            lambda: self.counts() == {status: count},
            timeout,
            lambda: f"{count} reminders {status}; have {self.counts()}",
        )


@contextmanager
def installation(home: Path, **settings_environ: str) -> Iterator[Stack]:
    """Services up, schema at head, no process line started. At the end the ledger is audited, and everything is ended."""
    give_ledger(home)
    with running(home) as services:
        environ = {
            **unset(),
            "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}",
            "DATABASE_URL": services.database_url,
            "REDIS_URL": services.redis_url,
            "REMINDERS_WEBHOOK_SECRET": SECRET,
            "REMINDERS_ALLOW_PRIVATE": "1",
            "REMINDERS_FLOWER_AUTH": "operator:long-enough",
            "PYTHONUNBUFFERED": "1",
            **settings_environ,
        }
        settings = replace(load(environ), database_url=Secret(services.database_url))
        database = open_database(settings)
        stack = Stack(home, environ, database, settings, services)
        try:
            yield stack
            keys = Keyring(settings.keys).fingerprints
            policy = AuditPolicy(
                settings.max_attempts, settings.max_wait, settings.dedup_window, settings.in_flight_limit, keys
            )
            found = [(each.check.name, each.shown) for each in audit(database, policy, since=None, limit=20).results]
            assert [(name, shown) for name, shown in found if shown] == [], "the ledger breaks what it promises"
        finally:
            stack.close()


def freeze(*processes: psutil.Process) -> None:
    """Hold processes still with all their threads, which on a busy machine go on until one of them has seen the signal."""
    for process in processes:
        process.suspend()
    wait_until(lambda: all(stands_still(each.pid) for each in processes), 30, "they stand still")


def _send(number: signal.Signals, processes: Sequence[psutil.Process]) -> None:
    """One may have ended since it was listed: what runs before the workers, or a child that has noticed its parent's death."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _kill(pid: int) -> None:
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    process.kill()
    psutil.wait_procs(family, 15)

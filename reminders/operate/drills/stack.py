"""A throw-away installation: servers of its own, process lines that may be killed, a fresh ledger for each drill."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import redis

from reminders.broker.gauge import UNACKED_KEY
from reminders.celery_options import KEY_PREFIX
from reminders.domain.errors import RemindersError
from reminders.embedded import Services, running, throwaway_home
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.migrations import migrate
from reminders.ledger.rehearsal import marked
from reminders.ledger.status import make_partitions
from reminders.operate.child_environment import child_environment
from reminders.operate.drills.audited import audited
from reminders.operate.drills.drill import Broken, Drill, Record
from reminders.operate.drills.lines import Lifeline, Line, StoppedLine, line_command, supervised_command
from reminders.operate.drills.scene import Scene
from reminders.operate.drills.scripted_receiver import ScriptedReceiver
from reminders.settings import Secret, Settings, load
from reminders.supervised import own_command

TENANT = "drill"
HINDRANCES: tuple[type[Exception], ...] = (RemindersError, *DATABASE_AWAY, redis.RedisError, OSError)
"""What may keep a drill from being carried through."""


@dataclass(frozen=True)
class Servers:
    """A Postgres and a Redis of our own, that several drills use one after the other."""

    home: Path
    services: Services
    numbers: Iterator[int] = field(default_factory=lambda: count(1))


@contextmanager
def throwaway_servers() -> Iterator[Servers]:
    """Servers for the block; they and their data are gone afterwards. Raises `ServiceUnavailable`."""
    with throwaway_home("drill") as home, running(home) as services:
        yield Servers(home, services)


def rehearse(drill: Drill, servers: Servers, record: Record) -> None:
    """Run one drill on a ledger and processes of its own, and the audit; what came of it is in `record`."""
    broken = None
    with stage(drill, servers, record) as stack:
        try:
            drill.rehearse(stack)
            audited(stack)
        except (Broken, TimeoutError) as fault:
            broken = str(fault)
        except HINDRANCES as fault:
            broken = f"could not be carried through: {fault}"
        if broken is not None:
            record.logs = stack.logs()
    record.end(broken)


@contextmanager
def stage(drill: Drill, servers: Servers, record: Record) -> Iterator[Stack]:
    """An empty ledger, an empty Redis, a receiver, and no process running yet. Everything is ended at the end."""
    number = next(servers.numbers)
    where = Settings(
        home=servers.home,
        database_url=Secret(servers.services.database_url),
        redis_url=Secret(servers.services.redis_url),
        webhook_secret=Secret(secrets.token_urlsafe(32)),
        schema=f"drill_{number}",
    )
    environ = child_environment(where, PYTHONUNBUFFERED="1", **drill.settings)
    settings = load(environ)
    migrate(servers.services.database_url, settings.schema)
    database = Database(servers.services.database_url, schema=settings.schema, application_name="reminders-drill")
    logs = servers.home / settings.schema
    logs.mkdir()
    receiver = ScriptedReceiver()
    stack = Stack(record, settings, database, receiver, environ=environ, logs=logs)
    try:
        stack.redis.flushall()
        make_partitions(database)
        yield stack
    finally:
        stack.close()
        receiver.close()
        database.close()


class Stack(Scene):
    """What a drill on a throw-away installation works with besides its scene: processes and servers."""

    def __init__(
        self,
        record: Record,
        settings: Settings,
        database: Database,
        receiver: ScriptedReceiver,
        *,
        environ: dict[str, str],
        logs: Path,
    ) -> None:
        super().__init__(record, settings, database, receiver, tenant=TENANT, to=receiver.url)
        assert settings.redis_url is not None
        self.redis = redis.Redis.from_url(settings.redis_url.reveal())
        self._environ = environ
        self.folder = logs
        self._lifeline = Lifeline()
        self._lines: list[Line] = []
        self._supervised: list[Line] = []
        self._numbers = count(1)

    def start(self, *names: str, concurrency: int | None = None) -> list[Line]:
        """Start one Celery process for each line named; one that ends stays ended."""
        lines = []
        for name in names:
            number = next(self._numbers)
            command = line_command(name, self.settings, number=number, concurrency=concurrency)
            lines.append(
                Line(command, self._environ, self.folder / f"{number}-{name}.log", self._lifeline, self.settings.grace)
            )
            self._lines.append(lines[-1])
        return lines

    def start_supervised(self, *names: str) -> None:
        """Start lines as the Procfile has them: what ends is started again."""
        for name in names:
            log = self.folder / f"{next(self._numbers)}-{name}.log"
            command = supervised_command(name)
            self._supervised.append(Line(command, self._environ, log, self._lifeline, self.settings.grace))

    def start_stopping(self, name: str, gap: str, *, threads: int = 1) -> StoppedLine:
        """Start a line that stays in a gap with `threads` of its threads, to be killed there."""
        number = next(self._numbers)
        command = line_command(name, self.settings, number=number, concurrency=threads)
        log = self.folder / f"{number}-{name}.log"
        line = StoppedLine(command, self._environ, log, self._lifeline, self.settings.grace, gap=gap, threads=threads)
        self._lines.append(line)
        return line

    def command(self, *arguments: str, exits: int = 0) -> str:
        """Run `reminders` with these arguments on this installation, and return what it printed. Raises `Broken`."""
        done = subprocess.run(  # noqa: S603 - our own command
            own_command(*arguments),
            env=self._environ,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != exits:
            said = (done.stderr.strip() or done.stdout.strip())[-300:]
            raise Broken(f"reminders {arguments[0]} exited with {done.returncode}, not {exits}: {said}")
        return done.stdout

    def start_command(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start `reminders` with these arguments; it is the drill's to kill."""
        with (self.folder / f"{next(self._numbers)}-{arguments[0]}.log").open("wb") as log:
            return subprocess.Popen(  # noqa: S603 - our own command
                own_command(*arguments),
                env=self._environ,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @contextmanager
    def claim_under_way(self) -> Iterator[None]:
        """What waits for claims that began before finds one for the length of the block."""
        with marked(self.database):
            yield

    def ready(self) -> None:
        self.start("scanner", "worker")
        self.tick()

    def scan(self) -> Line:
        """Start a scanner and wake it."""
        (line,) = self.start("scanner")
        self.tick()
        return line

    def queued(self, queue: str = "deliver") -> int:
        """Messages waiting on the broker."""
        return int(self.redis.llen(KEY_PREFIX + queue))

    def unacknowledged(self) -> int:
        """Messages that were taken and not acknowledged, of all queues together."""
        return int(self.redis.hlen(UNACKED_KEY))

    def watch(self, gauge: Callable[[], int], seconds: float) -> int:
        """The most that `gauge` shows within so many seconds."""
        end, most = time.monotonic() + seconds, 0
        while time.monotonic() < end:
            most = max(most, gauge())
            self.pass_time(0.01)
        return most

    def redis_pid(self) -> int:
        return int(self.redis.info("server")["process_id"])

    def restart_postgres(self) -> None:
        """Kill -9 its main process, and start it again on the same data. Raises `ServiceUnavailable`."""
        pid = int((self.settings.home / "postgres" / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        # Our own `running` around this keeps what this one starts.
        with running(self.settings.home):
            pass

    @contextmanager
    def frozen(self, pid: int) -> Iterator[None]:
        """Hold a process still for the block, with all its threads."""
        os.kill(pid, signal.SIGSTOP)
        try:
            # On a busy machine its other threads go on until one of them has seen the signal.
            self.wait_until(lambda: stands_still(pid), f"process {pid} stands still")
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def logs(self) -> dict[str, str]:
        """The last words of each process."""
        return {line.log.stem: line.last_words() for line in (*self._lines, *self._supervised)}

    def close(self) -> None:
        """End all processes, those without a parent of their own at once. Nothing of the installation is needed any more."""
        for line in self._supervised:
            line.signal(signal.SIGTERM)
        for line in self._lines:
            line.kill()
        for line in self._supervised:
            if not line.ended(self.settings.grace + 5):
                line.kill()
        self._lifeline.close()
        self.redis.close()


def stands_still(pid: int) -> bool:
    """Whether a stop has reached every thread of the process: a signal's sender does not wait for that."""
    tasks = list(Path(f"/proc/{pid}/task").glob("*/stat"))
    if tasks:
        try:
            return all(task.read_text().rpartition(")")[2].split()[0] == "T" for task in tasks)
        except (FileNotFoundError, ProcessLookupError):  # a thread has just ended: not all stood still
            return False
    shown = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False)  # noqa: S603, S607 - systems without /proc
    return shown.stdout.strip().startswith("T")

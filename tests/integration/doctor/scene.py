"""An installation in which nothing is wrong: servers of its own, a ledger at head, workers that say they are alive, a Procfile."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psycopg2
import redis
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders import bootstrap
from reminders.broker import presence, silence
from reminders.broker.link import Link
from reminders.broker.presence import DISPATCHERS_KEY, KEY, Presence, announce
from reminders.celery_options import QUEUES
from reminders.domain.tenants import MAIN
from reminders.embedded import postgres, running
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate
from reminders.ledger.status import make_partitions
from reminders.operate.doctor import examine, installed
from reminders.operate.doctor.examine import Diagnosis, Installation
from reminders.operate.doctor.procfile import read_procfile
from reminders.settings import Secret, Settings

PROCFILE = Path(__file__).resolve().parents[3] / "Procfile"
STRONG = "Zk3vQ8rT1nW6yB0eH5uJ9pL2xS7dF4gA"
HEARD_FOR = 60.0
"""Seconds after which workers count as silent here: they speak once, where real ones speak every second."""
TICK = "INSERT INTO reminders.ticks (name, last_at) VALUES ('scan_due', clock_timestamp()) ON CONFLICT (name) DO UPDATE SET last_at = EXCLUDED.last_at"


@dataclass
class Scene:
    """`postgres` is the owner's connection in autocommit mode, `redis` a client; `installation` is what is looked at."""

    postgres: DriverConnection
    redis: redis.Redis
    installation: Installation
    queues: list[str] = field(default_factory=lambda: list(QUEUES))
    dispatchers: list[str] = field(default_factory=lambda: [MAIN])

    silent: bool = False
    """Whether workers cannot say that they are there."""
    frozen: list[Presence] = field(default_factory=list)
    """Workers that have said nothing for two minutes."""

    def __post_init__(self) -> None:
        self.settings = self.installation.settings
        """Those of the healthy scene."""

    def change(self, **settings: Any) -> None:
        """Other settings than those of the healthy scene."""
        self.installation = replace(self.installation, settings=replace(self.installation.settings, **settings))

    def surround(self, **what: Any) -> None:
        """Other surroundings than those of the healthy scene."""
        self.installation = replace(self.installation, **what)

    def sql(self, statement: str, *parameters: Any) -> list[tuple[Any, ...]]:
        with self.postgres.cursor() as cursor:
            cursor.execute(statement, parameters)
            return cursor.fetchall() if cursor.description else []

    def look(self) -> Diagnosis:
        """What the doctor says now. A second look at workers, which real ones may need, is left out."""
        self.sql("SELECT pg_stat_force_next_flush()")
        with patch.object(examine, "SECOND_LOOK", 0.0), self.speaking():
            return examine.diagnose(self.installation)

    def names(self) -> set[str]:
        return {finding.check.name for finding in self.look().findings}

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Have workers say that they are there, and let that hold for the whole block: the doctor may take long on a busy machine."""
        if not self.silent:
            self.alive()
        with ExitStack() as stack:
            for module in (presence, silence):
                stack.enter_context(patch.object(module, "SILENT_AFTER", HEARD_FOR))
            yield

    def alive(self) -> None:
        """Have workers say that they are there."""
        self.redis.delete(KEY, DISPATCHERS_KEY)
        link = Link(self.settings)
        for each in self.frozen:
            announce(link, each)
        link.close()
        for member in self.redis.zrange(KEY, 0, -1):
            self.redis.zincrby(KEY, -2 * HEARD_FOR, member)
        self._announce()

    def _announce(self) -> None:
        link = Link(self.settings)
        for dispatcher in self.dispatchers:
            for number, queue in enumerate(self.queues):
                each = Presence(f"{queue}1.7@host", number, (queue,), 1)
                announce(link, each, instead_of=each, dispatcher=dispatcher)
        link.close()


def base(database_url: str, redis_url: str) -> Installation:
    """What the doctor is given of it."""
    settings = Settings(
        database_url=Secret(database_url),
        redis_url=Secret(redis_url),
        webhook_secret=Secret(STRONG),
        flower_auth=Secret(f"operator:{STRONG}"),
    )
    channels = bootstrap.channels(settings)
    return Installation(
        settings, {}, sorted(channels.ready), channels.faults, 12, procfile=read_procfile(PROCFILE.read_text())
    )


@contextmanager
def servers(home: Path) -> Iterator[tuple[str, str]]:
    """Both servers; Postgres takes from its configuration what the embedded one is told on its command line."""
    free = {name: value for name, value in postgres._OPTIONS.items() if name not in {"fsync", "synchronous_commit"}}
    with patch.object(postgres, "_OPTIONS", free), running(home) as services:
        migrate(services.database_url, "reminders")
        database = Database(services.database_url, schema="reminders")
        make_partitions(database)
        bootstrap.tell_ledger(Settings(), database)
        database.close()
        yield services.database_url, services.redis_url


@contextmanager
def healthy(urls: tuple[str, str]) -> Iterator[Scene]:
    """A scene on these servers. Whatever Python runs it counts as tested."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(installed, "TESTED_PYTHON", (sys.version_info[:2],)))
        connection = psycopg2.connect(urls[0])
        stack.callback(connection.close)
        connection.autocommit = True
        client = redis.Redis.from_url(urls[1])
        stack.callback(client.close)
        scene = Scene(connection, client, base(*urls))
        scene.sql(TICK)
        yield scene

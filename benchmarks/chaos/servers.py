"""Postgres and Redis of the throw-away installation: killed, frozen, emptied and started again on the same address."""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from pathlib import Path

import psutil
import redis

from reminders.embedded import running
from reminders.embedded.lifeline import Lifeline
from reminders.embedded.services import Services

SERVERS = ("postgres", "redis")


class Servers:
    """`locks` has one for each server, held while it is down or frozen on purpose."""

    def __init__(self, home: Path, services: Services) -> None:
        self.locks = {name: threading.Lock() for name in SERVERS}
        self._home = home
        self._services = services
        self._lifelines = {name: Lifeline(home / f"{name}.lock") for name in SERVERS}

    def processes(self, name: str) -> list[psutil.Process]:
        """The main process first. Empty if it does not run."""
        pid = self._lifelines[name].pid()
        with suppress(psutil.NoSuchProcess):
            if pid is not None:
                main = psutil.Process(pid)
                return [main, *main.children(recursive=True)]
        return []

    def start(self, name: str) -> None:
        """Start it on its own data. Who holds the installation open keeps it running."""
        with running(self._home, postgres=name == "postgres", redis=name == "redis") as services:
            before = self._services.database_url if name == "postgres" else self._services.redis_url
            now = services.database_url if name == "postgres" else services.redis_url
            if now != before:
                raise RuntimeError(f"the embedded {name} came back at another address")

    def flush(self) -> None:
        client = redis.Redis.from_url(self._services.redis_url, socket_timeout=5, socket_connect_timeout=5)
        try:
            client.flushall()
        finally:
            client.close()

    def forget_redis(self) -> None:
        """Remove what Redis has on disk. It must be dead."""
        for path in (self._home / "redis").glob("appendonly*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()

    def close(self) -> None:
        for lifeline in self._lifelines.values():
            lifeline.close()

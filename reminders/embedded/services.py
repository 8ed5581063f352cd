"""The users of a home folder's servers: who comes first starts them, who leaves last stops them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded.locks import FileLock
from reminders.embedded.placement import why_closed
from reminders.embedded.postgres import Postgres
from reminders.embedded.redis import Redis
from reminders.embedded.server import Answer, Server

_STARTUP_LOCK = "startup.lock"
_USERS_LOCK = "users.lock"
_STARTUP_PATIENCE = 180.0
"""Seconds to wait for another process that starts or stops this home's servers; above what a recovery may take."""


@dataclass(frozen=True)
class Services:
    """Where the embedded servers answer. A URL is empty when that server was not asked for or does not run.

    `database_url` is in libpq's form; SQLAlchemy needs the driver named in it (`postgresql+psycopg2://`).
    """

    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)


@contextmanager
def running(home: Path, *, postgres: bool = True, redis: bool = True) -> Iterator[Services]:
    """Use the embedded servers of `home` for the block: start those asked for, or join the ones that run.

    Several processes (and several blocks in one) share them; the last one to leave stops them. A user that was killed
    counts as gone, and what it left is taken over by the next. The data stays in `home`. Raises `ServiceUnavailable`
    where a server cannot be had, with what was tried and what to do.
    """
    household = _Household(home, create=True)
    try:
        yield household.enter(postgres=postgres, redis=redis)
    finally:
        household.leave()


def attach(home: Path) -> Services | None:
    """What runs under `home` right now, or None; starts nothing and keeps nothing running.

    Waits for a start or stop that is under way.
    """
    if not _used_before(home):
        return None
    household = _Household(home, create=False)
    try:
        return household.look()
    finally:
        household.close()


def end_unused(home: Path) -> bool:
    """End what runs under `home` although its users are dead. False, and nothing ended, if one of them lives.

    Raises `ServiceUnavailable`.
    """
    if not _used_before(home):
        return True
    household = _Household(home, create=False)
    try:
        return household.stop_if_unused()
    finally:
        household.close()


class _Household:
    """One user's view of a home folder. All its files are opened once: they stay the right ones if it is moved."""

    def __init__(self, home: Path, *, create: bool) -> None:
        self._home = home.expanduser().resolve()
        self._user_process: int | None = None
        with ExitStack() as stack:
            try:
                if create:
                    _make_home(self._home)
                self._startup = FileLock(self._home / _STARTUP_LOCK)
                stack.callback(self._startup.close)
                self._users = FileLock(self._home / _USERS_LOCK)
                stack.callback(self._users.close)
                self._postgres = Postgres(self._home)
                stack.callback(self._postgres.close)
                self._redis = Redis(self._home)
                stack.callback(self._redis.close)
            except OSError as error:
                raise ServiceUnavailable(
                    f"The embedded Postgres and Redis cannot use the folder {self._home}: {why_closed(self._home, error)}.\n"
                    "Set REMINDERS_HOME to a folder you own, or set DATABASE_URL and REDIS_URL."
                ) from error
            self._files = stack.pop_all()

    def enter(self, *, postgres: bool, redis: bool) -> Services:
        with self._alone():
            self._user_process = os.getpid()
            # Nobody holds it exclusively without the startup lock, which is ours.
            if not self._users.take_shared_if_free():
                raise ServiceUnavailable(f"{self._users.path} is locked by another program.\nEnd that program.")
            redis_url = self._redis.ensure() if redis else ""
            database_url = self._postgres.ensure() if postgres else ""
            return Services(database_url, redis_url)

    def leave(self) -> None:
        with self._files:
            # A forked child that unwinds its parent's block is no user of its own.
            if self._user_process == os.getpid():
                self.stop_if_unused()

    def stop_if_unused(self) -> bool:
        with self._alone():
            if not self._users.take_exclusive_if_free():
                return False
            with ExitStack() as stack:
                # Both get their turn, also when stopping the first fails or is interrupted.
                stack.callback(self._redis.stop)
                stack.callback(self._postgres.stop)
            return True

    def look(self) -> Services | None:
        with self._alone(shared=True):
            database_url, redis_url = _url_if_ready(self._postgres), _url_if_ready(self._redis)
        return Services(database_url, redis_url) if database_url or redis_url else None

    def close(self) -> None:
        self._files.close()

    @contextmanager
    def _alone(self, *, shared: bool = False) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                stack.enter_context(self._startup.held(shared=shared, seconds=_STARTUP_PATIENCE))
            except TimeoutError as error:
                raise ServiceUnavailable(
                    f"The embedded Postgres and Redis are still being started or stopped elsewhere: {error}.\n"
                    "Wait for that process or end it, then try again."
                ) from error
            except OSError as error:
                raise ServiceUnavailable(
                    f"Files in {self._home} cannot be locked: {error}.\n"
                    "Set REMINDERS_HOME to a folder on a local disk, or set DATABASE_URL and REDIS_URL."
                ) from error
            yield


def _used_before(home: Path) -> bool:
    try:
        return (home / _STARTUP_LOCK).exists()
    except OSError as error:
        raise ServiceUnavailable(
            f"The folder {home} cannot be looked into: {why_closed(home, error)}.\n"
            "Set REMINDERS_HOME to a folder you own, or set DATABASE_URL and REDIS_URL."
        ) from error


def _url_if_ready(server: Server) -> str:
    return server.url() if server.ask() is Answer.READY else ""


def _make_home(home: Path) -> None:
    if home.is_dir():
        return
    # Others may pass through (root's Postgres runs as somebody else) but not look; what lies inside is closed to them.
    home.mkdir(parents=True, exist_ok=True, mode=0o711)
    (home / ".gitignore").write_text("*\n")

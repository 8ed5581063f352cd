"""The embedded Postgres: a cluster under the home folder, reached over a Unix socket with a random password."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import psycopg2

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded.placement import (
    SOCKET_NAME,
    make_postgres_folder,
    make_socket_folder,
    owner_of,
    reachable_package,
    socket_folder,
)
from reminders.embedded.programs import postgres_package, postgres_programs, server_environment
from reminders.embedded.server import Answer, Server

_NAME = "reminders"
"""Of the database and of its owner."""
_PORT = 5432
"""Part of the socket's name only: nothing listens on a network."""
_ANSWER_WITHIN = 2
_OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "port": str(_PORT),
    "max_connections": "200",
    # Guarantees that count on committed claims do not survive any other setting of these two.
    "fsync": "on",
    "synchronous_commit": "on",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "off",
    "log_destination": "stderr",
}


class Postgres(Server):
    title: ClassVar[str] = "Postgres"
    variable: ClassVar[str] = "DATABASE_URL"
    # Fast shutdown (open transactions are rolled back), then immediate (the next start recovers).
    endings: ClassVar[Sequence[tuple[signal.Signals, float]]] = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 5.0))

    def folder(self) -> Path:
        return make_postgres_folder(self.home)

    def url(self) -> str:
        """A libpq URL; every part of it is free of characters that a URL would have to escape."""
        folder = (self.home / "postgres").resolve()
        return f"postgresql://{_NAME}:{_password(folder)}@/{_NAME}?host={socket_folder(folder)}&port={_PORT}"

    def ask(self) -> Answer:
        try:
            self._connect(_NAME).close()
        except FileNotFoundError:
            return Answer.REFUSED
        except psycopg2.OperationalError as error:
            text = str(error)
            if "password authentication failed" in text:
                return Answer.REFUSED
            # "is starting up", "is shutting down", "is not yet accepting connections", "is in recovery mode"
            if "the database system is" in text:
                return Answer.STARTING
            # Any other word of the server itself (all connections in use, no such database yet) shows that it works.
            return Answer.READY if "FATAL" in text else Answer.SILENT
        return Answer.READY

    def ensure(self) -> str:
        url = super().ensure()
        try:
            self._connect(_NAME).close()
        except psycopg2.OperationalError as error:
            if "does not exist" in str(error):
                self._create_database()
        return url

    def _create_database(self) -> None:
        # Crash here: a server without our database; the next user finds it missing and creates it.
        try:
            with closing(self._connect("postgres")) as connection:
                connection.autocommit = True
                with connection.cursor() as cursor:
                    cursor.execute(f"CREATE DATABASE {_NAME}")
        except psycopg2.Error as error:
            raise ServiceUnavailable(
                f"The embedded Postgres runs, but its database cannot be created: {str(error).strip()}\n"
                f"See {self.log}, or set DATABASE_URL to a Postgres of your own."
            ) from error

    def stop(self) -> None:
        super().stop()
        folder = (self.home / "postgres").resolve()
        with suppress(OSError):
            if (sockets := socket_folder(folder)) != folder:
                sockets.rmdir()

    def start(self) -> None:
        package = postgres_package()
        folder = self.folder()
        data = folder / "data"
        programs = postgres_programs(reachable_package(package, owner_of(folder)))
        if not data.exists():
            _initialise(folder, data, programs / "initdb")
        _password(folder)  # raises where somebody removed it
        sockets = make_socket_folder(folder)
        # No process of this home's server lives, so the files that name one are stale. Postgres sees that too, unless
        # a zombie or another process of the same user has the old pid: then it would refuse to start for good.
        for stale in (data / "postmaster.pid", sockets / SOCKET_NAME, sockets / f"{SOCKET_NAME}.lock"):
            stale.unlink(missing_ok=True)
        options = [f"{name}={value}" for name, value in (*_OPTIONS.items(), ("unix_socket_directories", str(sockets)))]
        command = [str(programs / "postgres"), "-D", str(data)]
        log_start = self.launch([*command, *(part for option in options for part in ("-c", option))])
        if self.wait() is not Answer.READY:
            raise self.did_not_start(log_start)

    def _connect(self, database: str) -> psycopg2.extensions.connection:
        folder = (self.home / "postgres").resolve()
        return psycopg2.connect(
            dbname=database,
            user=_NAME,
            password=_password(folder),
            host=str(socket_folder(folder)),
            port=_PORT,
            connect_timeout=_ANSWER_WITHIN,
        )


def _password(folder: Path) -> str:
    return (folder / "password").read_text().strip()


def _initialise(folder: Path, data: Path, initdb: Path) -> None:
    """Create the cluster. It gets its name only when it is complete and on disk, so a half-made one is never started."""
    for half_made in folder.glob("data.new-*"):
        shutil.rmtree(half_made, ignore_errors=True)
    account = owner_of(folder)
    password = folder / "password"
    password.unlink(missing_ok=True)
    descriptor = os.open(password, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_hex(24) + "\n")
        file.flush()
        os.fsync(file.fileno())
        if account:
            os.fchown(file.fileno(), account.uid, account.gid)
    # A name of its own: an initdb whose caller was killed ends by emptying the folder it was told to fill.
    growing = folder / f"data.new-{uuid4().hex[:8]}"
    done = subprocess.run(  # noqa: S603 (the command is this package's own)
        [
            initdb, "--pgdata", growing, "--username", _NAME, "--pwfile", password, "--auth", "scram-sha-256",
            "--encoding", "UTF8", "--no-locale", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8",
        ],
        check=False,
        cwd=folder,
        env=dict(server_environment()),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        umask=0o077,
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )  # fmt: skip
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["it wrote nothing"]
        raise ServiceUnavailable(
            f"The embedded Postgres could not be set up in {folder}: {lines[-1]}\n"
            "Make room or set REMINDERS_HOME to another folder, or set DATABASE_URL to a Postgres of your own."
        )
    growing.rename(data)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""The embedded Redis: one server on a free port of 127.0.0.1, with a random password and an append-only file."""

from __future__ import annotations

import os
import secrets
import signal
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from reminders.embedded.placement import owner_of
from reminders.embedded.programs import redis_server
from reminders.embedded.server import Answer, Server

_HOST = "127.0.0.1"
_ANSWER_WITHIN = 2.0
_PORT_TRIES = 5
_PORTS = range(20_000, 30_000)
"""Systems give none of these to who asks for any port, or connects to somewhere: so it is still free when a server that died is
started again, however late, and its clients find it there."""
_PORTS_LOOKED_AT = 20
_OPTIONS = {
    "bind": _HOST,
    "daemonize": "no",
    "databases": "16",
    "appendonly": "yes",
    "appendfsync": "everysec",
    # The end of the file is incomplete after a power cut; what came before it must still load.
    "aof-load-truncated": "yes",
    "save": '""',
    # Any other policy drops queues silently when memory is short.
    "maxmemory-policy": "noeviction",
}


@dataclass(frozen=True)
class _Record:
    """What the configuration file says: where the server listens and which password it asks for."""

    port: int
    password: str


class Redis(Server):
    title: ClassVar[str] = "Redis"
    variable: ClassVar[str] = "REDIS_URL"
    endings: ClassVar[Sequence[tuple[signal.Signals, float]]] = ((signal.SIGTERM, 5.0),)

    def folder(self) -> Path:
        folder = self.home / "redis"
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if account := owner_of(self.home):
                os.chown(folder, account.uid, account.gid)
        return folder

    def url(self) -> str:
        record = self._record()
        if record is None:
            raise FileNotFoundError(f"{self.home / 'redis' / 'redis.conf'} is missing or damaged")
        return f"redis://:{record.password}@{_HOST}:{record.port}/0"

    def ask(self) -> Answer:
        import redis  # noqa: PLC0415 (a third of the time that a short command takes, and most of them need no broker)

        record = self._record()
        if record is None:
            return Answer.REFUSED
        client = redis.Redis(
            host=_HOST,
            port=record.port,
            password=record.password,
            socket_timeout=_ANSWER_WITHIN,
            socket_connect_timeout=_ANSWER_WITHIN,
            retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0),
            decode_responses=True,
        )
        try:
            # In a copied home the record names the other home's server.
            folder = str(client.config_get("dir")["dir"])
            return Answer.READY if Path(folder).samefile(self.folder()) else Answer.REFUSED
        except redis.exceptions.BusyLoadingError:
            return Answer.STARTING
        except redis.exceptions.AuthenticationError:
            return Answer.REFUSED
        except FileNotFoundError:
            return Answer.REFUSED
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
            return Answer.SILENT
        except redis.exceptions.RedisError:
            return Answer.REFUSED
        finally:
            client.close()

    def start(self) -> None:
        program = redis_server()
        record = self._record()
        former = 0 if record is None else record.port
        password = secrets.token_hex(24) if record is None else record.password
        for _ in range(_PORT_TRIES):
            # The old port if possible: clients of a server that died find the new one there. A free one may be taken by
            # somebody else before the server has it; then another is tried.
            self._write_configuration(_Record(_port(former), password))
            log_start = self.launch([str(program), "./redis.conf"])
            if self.wait() is Answer.READY:
                return
            if self._lifeline.alive():
                break
        raise self.did_not_start(log_start)

    def _record(self) -> _Record | None:
        try:
            lines = (self.home / "redis" / "redis.conf").read_text().splitlines()
            options = dict(line.split(" ", 1) for line in lines if " " in line)
            return _Record(int(options["port"]), options["requirepass"])
        except (FileNotFoundError, LookupError, ValueError):
            return None

    def _write_configuration(self, record: _Record) -> None:
        folder = self.folder()
        options = {**_OPTIONS, "port": str(record.port), "requirepass": record.password}
        growing = folder / "redis.conf.new"
        growing.unlink(missing_ok=True)
        descriptor = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.writelines(f"{name} {value}\n" for name, value in options.items())
            if account := owner_of(folder):
                os.fchown(file.fileno(), account.uid, account.gid)
        growing.replace(folder / "redis.conf")


def _port(former: int) -> int:
    """The port that a server had before, if it is free; else, and for 0, a free one that stays free, if one of some is."""
    chosen = secrets.SystemRandom().sample(_PORTS, _PORTS_LOOKED_AT)
    return next(filter(None, map(_free_port, [former, *chosen] if former else chosen)), 0) or _free_port(0)


def _free_port(wanted: int) -> int:
    """`wanted` if it is free, any free port for 0, and 0 if `wanted` is taken."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, wanted))
        except OSError:
            return 0
        port: int = probe.getsockname()[1]
        return port

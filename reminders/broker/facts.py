"""What the Redis server says about itself and about who is connected."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import redis

from reminders.broker.link import Link
from reminders.broker.presence import Presence, ask, ask_dispatchers, living, living_dispatchers
from reminders.broker.silence import Silent, silent_ones
from reminders.celery_options import CLIENT_NAME, KEY_PREFIX
from reminders.settings import Settings

_OURS = re.compile(rf"{CLIENT_NAME}(?:/(\d+))?")
NO_KEY = KEY_PREFIX + "never_set"
_CONSUMES = frozenset({"brpop", "blpop", "brpoplpush", "blmove", "blmpop", "subscribe", "psubscribe"})


@dataclass(frozen=True, slots=True)
class Connected:
    """One connection to our database of the server. `visibility` is what it says of itself, in seconds; None if nothing."""

    address: str
    name: str
    ours: bool
    consumes: bool
    visibility: int | None


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """One look at the broker. Sizes are bytes; `most_memory` is 0 without a limit."""

    version: tuple[int, ...]
    replica: bool
    policy: str
    memory: int
    most_memory: int
    evicted: int
    append_only: bool
    snapshots: bool | None
    """None where the server does not show its configuration."""
    idle_timeout: int | None
    """Seconds after which the server closes a silent connection; 0 for never, None where it does not say."""
    clients: int
    most_clients: int
    connected: tuple[Connected, ...] | None
    """None where the server does not show them."""
    workers: tuple[Presence, ...]
    refuses_writes: str | None
    """What the server answers to a write; None if it takes it."""
    dispatchers: tuple[str, ...]
    """Those whose workers have spoken here of late."""
    silent: tuple[Silent, ...]


def read_broker(settings: Settings) -> BrokerFacts:
    """Ask the broker. Raises `BrokerAway`."""
    link = Link(settings)
    try:
        with link.redis() as client:
            info: dict[str, Any] = client.info()
            with client.pipeline(transaction=False) as pipe:
                ask(pipe)
                replies = pipe.execute()
                ask_dispatchers(pipe)
                dispatchers = living_dispatchers(pipe.execute())
            workers, silent = living(replies), silent_ones(client, replies)
            save, timeout = _configured(client, "save"), _configured(client, "timeout")
            refuses_writes = _refuses_writes(client)
            connected = _connected(client, _database(client))
    finally:
        link.close()
    return BrokerFacts(
        tuple(int(part) for part in re.findall(r"\d+", str(info["redis_version"]))[:3]),
        info.get("role") in {"slave", "replica"},
        str(info.get("maxmemory_policy", "noeviction")),
        int(info.get("used_memory", 0)),
        int(info.get("maxmemory", 0)),
        int(info.get("evicted_keys", 0)),
        bool(info.get("aof_enabled", 0)),
        None if save is None else bool(save),
        None if timeout is None else int(timeout),
        int(info.get("connected_clients", 0)),
        int(info.get("maxclients", 0)),
        connected,
        tuple(workers),
        refuses_writes,
        tuple(dispatchers),
        tuple(silent),
    )


def _refuses_writes(client: redis.Redis) -> str | None:
    # A key that is not there is not set: nothing changes, whether the server takes writes or not.
    try:
        client.set(NO_KEY, "", xx=True)
    except redis.ResponseError as error:
        return str(error)
    return None


def _configured(client: redis.Redis, name: str) -> str | None:
    try:
        found: dict[Any, Any] = client.config_get(name)
    except redis.ResponseError:  # managed servers keep it to themselves
        return None
    return next((_text(value) for value in found.values()), None)


def _database(client: redis.Redis) -> str:
    return str(client.connection_pool.connection_kwargs.get("db") or 0)


def _connected(client: redis.Redis, database: str) -> tuple[Connected, ...] | None:
    try:
        rows: list[dict[str, str]] = client.client_list()
    except redis.ResponseError:
        return None
    return tuple(_connection(row) for row in rows if row.get("db") == database)


def _connection(row: dict[str, str]) -> Connected:
    name = row.get("name", "")
    ours = _OURS.fullmatch(name)
    visibility = int(ours[1]) if ours and ours[1] else None
    consumes = row.get("cmd", "").partition("|")[0].lower() in _CONSUMES
    return Connected(row.get("addr", ""), name, ours is not None, consumes, visibility)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)

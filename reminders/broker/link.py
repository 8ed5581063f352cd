"""A connection of our own to the broker, for what is not a task: publishing in batches, reading lengths, presence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any

import redis
from kombu.exceptions import KombuError

from reminders.broker.transport import Connection
from reminders.celery_options import broker_url, split_tls, transport_options
from reminders.domain.errors import SettingsError
from reminders.settings import Settings


class BrokerAway(Exception):
    """The broker cannot be reached or did not answer in time. What was being sent may have arrived."""


class Link:
    """One lazily opened connection, thread-safe: one user at a time.

    After any failure the connection is thrown away; the next use opens a new one. An attempt to connect is made once,
    so every use ends within the socket timeouts.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = RLock()
        self._connection: Any = None
        self._channel: Any = None

    @contextmanager
    def channel(self) -> Iterator[Any]:
        """The kombu channel. Raises `BrokerAway` for whatever fails on the way to the broker."""
        with self._lock:
            try:
                yield self._open()
            except (redis.RedisError, KombuError, OSError, SettingsError) as error:
                self.close()
                raise BrokerAway(str(error) or type(error).__name__) from error
            except BaseException:
                self.close()
                raise

    @contextmanager
    def redis(self) -> Iterator[redis.Redis]:
        """A plain client over the same connection; it adds no prefix. Raises `BrokerAway` like `channel`."""
        with self.channel() as channel:
            yield redis.Redis(connection_pool=channel.pool)

    def close(self) -> None:
        with self._lock:
            connection, self._connection, self._channel = self._connection, None, None
            if connection is not None:
                with suppress(redis.RedisError, OSError):
                    connection.release()

    def _open(self) -> Any:
        if self._channel is None:
            url, tls = split_tls(broker_url(self._settings), self._settings.redis_ca)
            self._connection = Connection(url, ssl=tls, transport_options=transport_options(self._settings))  # type: ignore[no-untyped-call]
            self._connection.ensure_connection(max_retries=0)
            self._channel = self._connection.channel()
        return self._channel

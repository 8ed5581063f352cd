"""The receiver as an object: an event loop in a thread of its own, started and stopped."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from resource import RLIMIT_NOFILE, getrlimit
from types import TracebackType
from typing import Any, Self

from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream
from tornado.netutil import bind_sockets

from reminders.receiver.addresses import Addresses, default_urls
from reminders.receiver.exchange import Site
from reminders.receiver.hook import Hook
from reminders.receiver.report import Handled, Report, Tally
from reminders.receiver.store import KeyCalls, Store
from reminders.receiver.verification import Verifier
from reminders.settings import Secret

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8780
IDLE_SECONDS = 60.0
"""For the next request's head to arrive whole. Longer than our sender keeps an unused connection, which is 55 s."""
BODY_SECONDS = 10.0
"""For a request's body to arrive whole."""
_LARGEST_HEAD = 16 * 1024
_STOP_SECONDS = 5.0
_BACKLOG = 1024
_MOST_CONNECTIONS = 1000


class _BoundedServer(HTTPServer):
    """Turns callers away while too many are connected, which is better than having no file left to open."""

    connected = 0

    def handle_stream(self, stream: IOStream, address: tuple[Any, ...]) -> None:
        if self.connected >= min(_MOST_CONNECTIONS, getrlimit(RLIMIT_NOFILE)[0] // 2):
            stream.close()
            return
        self.connected += 1
        super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self.connected -= 1
        super().on_close(server_conn)


class Receiver:
    """A receiver on `host` and `port` (0: any free one), from `start` to `stop`.

    `urls` are the URLs by which senders call it, by default the ones of this machine; one that cannot be is refused
    with `InvalidInput`. `master` is the sender's `REMINDERS_WEBHOOK_SECRET`, from which the secret of each tenant and
    URL is derived; `secrets` are secrets given outright. Without a `store` it forgets everything when it ends.
    `on_delivery` is called on the receiver's thread and must return at once. `clock` gives Unix time in seconds.
    """

    def __init__(
        self,
        host: str = DEFAULT_HOST,
        port: int = DEFAULT_PORT,
        *,
        master: Secret | None = None,
        secrets: Sequence[bytes] = (),
        urls: Sequence[str] = (),
        store: Path | None = None,
        on_delivery: Callable[[Handled], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
        idle_seconds: float = IDLE_SECONDS,
        body_seconds: float = BODY_SECONDS,
    ) -> None:
        self._host = host
        self._port = port
        self._verifier = Verifier(master=master, secrets=secrets, clock=clock)
        self._addresses = Addresses(urls)
        self._store_path = store
        self._on_delivery = on_delivery
        self._clock = clock
        self._idle_seconds = idle_seconds
        self._body_seconds = body_seconds
        self._tally = Tally()

    def start(self) -> None:
        """Listen. Raises `OSError` if the address cannot be had, `InvalidInput` for a store that cannot be used."""
        self._store = Store(self._store_path)
        try:
            self._sockets = bind_sockets(self._port, self._host, backlog=_BACKLOG)
        except BaseException:
            self._store.close()
            raise
        self._port = self._sockets[0].getsockname()[1]
        if not self._addresses.urls:
            self._addresses = Addresses(default_urls(self._host, self._port))
        started: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, args=(started,), name="receiver", daemon=True)
        self._thread.start()
        started.result()

    def stop(self) -> None:
        """Stop listening, answer what was begun, for a few seconds, and close the store."""
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        self._store.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port, as bound."""
        return self._host, self._port

    @property
    def urls(self) -> Sequence[str]:
        """The URLs it answers for, the preferred one first."""
        return self._addresses.urls

    def report(self) -> Report:
        """Counts since the start."""
        return self._tally.report()

    def calls_by_key(self) -> Iterator[KeyCalls]:
        """Every key in the store with its calls and effects; until `stop`."""
        return self._store.calls_by_key()

    def _run(self, started: Future[None]) -> None:
        try:
            asyncio.run(self._serve(started))
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)

    async def _serve(self, started: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        hook = Hook(self._verifier, self._store, self._tally, self._on_delivery, self._clock)
        site = Site(self._addresses, hook, self._store, self._tally)
        server = _BoundedServer(
            site,
            max_header_size=_LARGEST_HEAD,
            idle_connection_timeout=self._idle_seconds,
            body_timeout=self._body_seconds,
        )
        server.add_sockets(self._sockets)
        started.set_result(None)
        await self._stopping.wait()
        server.stop()
        await site.settle(_STOP_SECONDS)
        await server.close_all_connections()

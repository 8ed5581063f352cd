"""A receiver that does what a drill or a test says, and knows calls per key, overlaps and effects.

It checks no signature and keeps nothing: for what we ask of real receivers see `reminders.receiver`.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answering = Callable[[str, int, dict[str, Any]], "int | Reply"]
"""Given the key, the number of this key's call (from 1) and the body; may block."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A status with headers of its own."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)


class ScriptedReceiver:
    """Listens on `host` and `port` (0: any free one) until `close`, whatever the path.

    `answer` decides each call. Everything seen is kept, under a lock; `order` has Unix times and bodies.
    """

    def __init__(self, answer: Answering | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.answer: Answering = answer or (lambda _key, _call, _body: 200)
        self.calls: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.bodies: dict[str, set[bytes]] = {}
        self.order: list[tuple[float, dict[str, Any]]] = []
        self.overlaps = 0
        self._open: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._server = _Server((host, port), self._handler())
        self.url = f"http://{host}:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), name="scripted receiver", daemon=True).start()

    def wait_for(self, condition: Callable[[ScriptedReceiver], bool], timeout: float, what: str) -> None:
        """Return once `condition` holds, checked at every call; raise `TimeoutError` after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise TimeoutError(
                    f"not within {timeout:g} s: {what} (calls {self.calls.total()}, keys {len(self.calls)})"
                )

    def called_at(self, reference: str) -> float | None:
        """Unix time of the first call about `reference`."""
        return next(iter(self.calls_about(reference)), None)

    def calls_about(self, reference: str) -> list[float]:
        """Unix times of all calls about `reference`."""
        return [at for at, body in list(self.order) if body["reference"] == reference]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                reply = receiver._take(self.headers["webhook-id"], raw)
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """A call is kept, not printed."""

        return Handler

    def _take(self, key: str, raw: bytes) -> Reply:
        body = json.loads(raw)
        with self._changed:
            self.calls[key] += 1
            call = self.calls[key]
            self.bodies.setdefault(key, set()).add(raw)
            self.order.append((time.time(), body))
            self._open[key] += 1
            self.overlaps += self._open[key] > 1
            self._changed.notify_all()
        try:
            given = self.answer(key, call, body)
        finally:
            with self._changed:
                self._open[key] -= 1
        reply = given if isinstance(given, Reply) else Reply(given)
        with self._changed:
            if reply.status == 200:
                self.effects[key] += 1
            self._changed.notify_all()
        return reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_: object) -> None:
        """A killed worker resets its connections."""

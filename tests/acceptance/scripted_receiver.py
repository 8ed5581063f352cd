"""A receiver that does what a test says, and knows calls per key, overlaps and effects."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class ScriptedReceiver:
    """`answer(key, call_number, body)` gives the status; it may block. Everything seen is kept, under a lock."""

    def __init__(self, answer: Callable[[str, int, dict[str, Any]], int] | None = None) -> None:
        self.answer = answer or (lambda _key, _call, _body: 200)
        self.calls: Counter[str] = Counter()
        self.effects: Counter[str] = Counter()
        self.bodies: dict[str, set[bytes]] = {}
        self.order: list[tuple[float, dict[str, Any]]] = []
        self.overlaps = 0
        self._open: Counter[str] = Counter()
        self._changed = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                raw = self.rfile.read(int(self.headers["content-length"]))
                status = receiver._take(self.headers["webhook-id"], raw)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 512

            def handle_error(self, *_: object) -> None:
                """A killed worker resets its connections."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def _take(self, key: str, raw: bytes) -> int:
        import time

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
            status = self.answer(key, call, body)
        finally:
            with self._changed:
                self._open[key] -= 1
        with self._changed:
            if status == 200:
                self.effects[key] += 1
            self._changed.notify_all()
        return status

    def wait_for(self, condition: Callable[[ScriptedReceiver], bool], timeout: float, what: str) -> None:
        """Return once `condition` holds, checked at every call; fail the test after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: condition(self), timeout):
                raise AssertionError(
                    f"not within {timeout} s: {what} (calls {self.calls.total()}, keys {len(self.calls)})"
                )

    def called_at(self, reference: str) -> float | None:
        """Unix time of the first call about `reference`."""
        return next((at for at, body in self.order if body["reference"] == reference), None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

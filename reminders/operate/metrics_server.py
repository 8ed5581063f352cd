"""The scrape endpoint: `GET /metrics`, for whoever knows the token, and nothing else."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from reminders.operate.metrics import CONTENT_TYPE
from reminders.settings import Secret

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9464
GOOD_FOR = 1.0
"""Seconds for which one scrape answers all who ask: many observers cost as much as one."""
_IDLE_SECONDS = 120.0
_BODY_SECONDS = 5.0
_LARGEST_HEAD = 16 * 1024
_LARGEST_BODY = 1024


class MetricsServer:
    """Answers on `host` and `port` (0: any free one) with what `scrape` gives, which is called in a thread, one call at a time."""

    def __init__(self, scrape: Callable[[], bytes], token: Secret, *, host: str, port: int) -> None:
        self._scrape = scrape
        self._token = token.reveal().encode()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="scrape")
        self._text = b""
        self._scraped_at = float("-inf")
        self._sockets = bind_sockets(port, host)
        self.port: int = self._sockets[0].getsockname()[1]

    async def serve(self, stop: asyncio.Event) -> None:
        """Answer until `stop` is set."""
        application = Application([("/metrics", _Handler, {"server": self})])
        server = HTTPServer(
            application,
            max_header_size=_LARGEST_HEAD,
            max_body_size=_LARGEST_BODY,
            idle_connection_timeout=_IDLE_SECONDS,
            body_timeout=_BODY_SECONDS,
        )
        server.add_sockets(self._sockets)
        await stop.wait()
        server.stop()
        await server.close_all_connections()
        self._thread.shutdown(wait=True)

    async def text(self) -> bytes:
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._fresh)

    def admits(self, authorization: str) -> bool:
        """Whether the header's value is the token as a bearer token, or as the password of whatever user."""
        scheme, _, credentials = authorization.partition(" ")
        given = credentials.strip().encode()
        if scheme.lower() == "basic":
            try:
                _, _, given = base64.b64decode(given, validate=True).partition(b":")
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._token)

    def _fresh(self) -> bytes:
        if time.monotonic() - self._scraped_at > GOOD_FOR:
            self._text = self._scrape()
            self._scraped_at = time.monotonic()
        return self._text


class _Handler(RequestHandler):
    def initialize(self, server: MetricsServer) -> None:
        self._server = server

    def set_default_headers(self) -> None:
        self.clear_header("Server")
        self.set_header("Cache-Control", "no-store")

    async def get(self) -> None:
        if not self._server.admits(self.request.headers.get("Authorization", "")):
            self.set_status(401)
            self.set_header("WWW-Authenticate", 'Bearer realm="reminders"')
            self.add_header("WWW-Authenticate", 'Basic realm="reminders"')
            self.finish("Unauthorized\n")
            return
        self.set_header("Content-Type", CONTENT_TYPE)
        self.finish(await self._server.text())

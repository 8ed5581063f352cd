"""HTTP/1.1 for the receiver: one request read within bounds, routed, and answered.

Framing, keep-alive, limits and time-outs are Tornado's (which Flower brings along). One event loop serves everybody, so
a caller who sends a byte a second costs the others nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import asdict
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

from tornado.httputil import (
    HTTPConnection,
    HTTPHeaders,
    HTTPMessageDelegate,
    HTTPServerConnectionDelegate,
    RequestStartLine,
    ResponseStartLine,
)
from tornado.iostream import StreamClosedError

from reminders.receiver.addresses import Addresses, Place
from reminders.receiver.hook import LARGEST_BODY, Answer, Hook
from reminders.receiver.report import Tally
from reminders.receiver.store import Store

logger = logging.getLogger(__name__)

REPORT_PATH = "/report"
_SECONDS_TO_TAKE_A_PAGE = 30.0
"""How long a reader of the report may leave one page of it unread."""
_LINES_IN_A_PAGE = 200


class Site(HTTPServerConnectionDelegate):
    """What there is to be called: the hook's places by POST, the report by GET."""

    def __init__(self, addresses: Addresses, hook: Hook, store: Store, tally: Tally) -> None:
        self._addresses = addresses
        self._hook = hook
        self._store = store
        self._tally = tally
        self._running: set[asyncio.Task[None]] = set()

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        del server_conn
        return _Exchange(self, request_conn)

    async def settle(self, seconds: float) -> None:
        """Wait until all that was begun is answered, at most `seconds`."""
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    def begin(self, answering: Coroutine[Any, Any, None]) -> None:
        """Answer a request that was read, beside all others."""
        task = asyncio.get_running_loop().create_task(_guarded(answering))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def respond(
        self, connection: HTTPConnection, line: RequestStartLine, headers: HTTPHeaders, body: bytes
    ) -> None:
        """Route and answer a whole request."""
        path, _, query = line.path.partition("?")
        place = self._addresses.place(line.path)
        if path == REPORT_PATH:
            if line.method != "GET":
                _write(connection, line, _error(405, "the report is read with GET"), {"Allow": "GET"})
            elif query == "keys=1":
                await self._write_keys(connection)
            else:
                _write(connection, line, Answer(200, json.dumps(self._tally.report().as_json()).encode()))
        elif place is None:
            _write(connection, line, _error(404, "nothing is received here"))
        elif line.method != "POST":
            _write(connection, line, _error(405, "deliveries are made with POST"), {"Allow": "POST"})
        else:
            await self._take(connection, line, place, headers, body)

    def refuse_too_large(self, connection: HTTPConnection, line: RequestStartLine) -> None:
        """Answer without reading on; the connection ends with it."""
        if line.method == "POST" and self._addresses.place(line.path) is not None:
            answer = self._hook.refuse_too_large()
        else:
            answer = _error(413, f"the body is larger than {LARGEST_BODY} bytes")
        _write(connection, line, answer, {"Connection": "close"})

    async def _take(
        self, connection: HTTPConnection, line: RequestStartLine, place: Place, headers: HTTPHeaders, body: bytes
    ) -> None:
        answer = await self._hook.post(place, headers, body)
        if answer.delay:
            await asyncio.sleep(answer.delay)
        _write(connection, line, answer)

    async def _write_keys(self, connection: HTTPConnection) -> None:
        head = HTTPHeaders({"Content-Type": "application/x-ndjson"})
        connection.write_headers(ResponseStartLine("HTTP/1.1", 200, "OK"), head)
        lines: list[str] = []
        for key in self._store.calls_by_key():
            lines.append(json.dumps({"v": 1, **asdict(key)}) + "\n")
            if len(lines) == _LINES_IN_A_PAGE:
                await self._write_page(connection, lines)
                lines = []
        await self._write_page(connection, lines)
        connection.finish()

    async def _write_page(self, connection: HTTPConnection, lines: list[str]) -> None:
        async with asyncio.timeout(_SECONDS_TO_TAKE_A_PAGE):
            await connection.write("".join(lines).encode())


class _Exchange(HTTPMessageDelegate):
    """One request on its way in."""

    def __init__(self, site: Site, connection: HTTPConnection) -> None:
        self._site = site
        self._connection = connection
        self._body = bytearray()
        self._too_large = False

    def headers_received(self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders) -> None:
        assert isinstance(start_line, RequestStartLine)
        self._line = start_line
        self._headers = headers
        announced = headers.get("Content-Length", "")
        if announced.isdecimal() and int(announced[:9]) > LARGEST_BODY:
            self._refuse_too_large()

    def data_received(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > LARGEST_BODY:
            self._refuse_too_large()

    def finish(self) -> None:
        self._site.begin(self._site.respond(self._connection, self._line, self._headers, bytes(self._body)))

    def _refuse_too_large(self) -> None:
        self._body.clear()
        self._site.refuse_too_large(self._connection, self._line)


async def _guarded(answering: Coroutine[Any, Any, None]) -> None:
    try:
        await answering
    except (StreamClosedError, TimeoutError):
        pass
    except Exception:
        logger.exception("A request was not answered")


def _write(
    connection: HTTPConnection, line: RequestStartLine, answer: Answer, more: Mapping[str, str] = MappingProxyType({})
) -> None:
    head = {"Content-Type": "application/json", "Content-Length": str(len(answer.body)), **more}
    start = ResponseStartLine("HTTP/1.1", answer.status, HTTPStatus(answer.status).phrase)
    # A caller who has gone by now does not matter: what was stored stays, and a repeat will be recognised.
    with suppress(StreamClosedError):
        connection.write_headers(start, HTTPHeaders(head), None if line.method == "HEAD" else answer.body)
        connection.finish()


def _error(status: int, reason: str) -> Answer:
    return Answer(status, json.dumps({"v": 1, "error": reason}).encode())

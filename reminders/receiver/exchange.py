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

from tornado.http1connection import HTTP1Connection
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
_SECONDS_TO_TAKE_AN_ANSWER = 30.0
"""How long a caller may leave an answer, or a page of the report, unread."""
_LINES_IN_A_PAGE = 200
_MOST_DIGITS = 12


class Site(HTTPServerConnectionDelegate):
    """What there is to be called: the hook's places by POST, the report by GET."""

    def __init__(self, addresses: Addresses, hook: Hook, store: Store, tally: Tally) -> None:
        self._addresses = addresses
        self._hook = hook
        self._store = store
        self._tally = tally
        self._running: set[asyncio.Task[None]] = set()
        self._closing = asyncio.Event()

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        del server_conn
        assert isinstance(request_conn, HTTP1Connection)
        return _Exchange(self, request_conn)

    async def settle(self, seconds: float) -> None:
        """Wait until all that was begun is answered, at most `seconds`; answers held back on purpose go out now."""
        self._closing.set()
        if self._running:
            await asyncio.wait(self._running, timeout=seconds)

    def begin(self, connection: HTTP1Connection, answering: Coroutine[Any, Any, None]) -> None:
        """Answer a request that was read, beside all others."""
        task = asyncio.get_running_loop().create_task(_guard(connection, answering))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def respond(
        self, connection: HTTP1Connection, line: RequestStartLine, headers: HTTPHeaders, body: bytes
    ) -> None:
        """Route and answer a whole request."""
        path, _, query = line.path.partition("?")
        place = self._addresses.place(line.path)
        if path == REPORT_PATH:
            if line.method != "GET":
                await _write(connection, line, _error(405, "the report is read with GET"), {"Allow": "GET"})
            elif query == "keys=1":
                await self._write_calls(connection)
            else:
                await _write(connection, line, Answer(200, json.dumps(self._tally.report().as_json()).encode()))
        elif place is None:
            await _write(connection, line, _error(404, "nothing is received here"))
        elif line.method != "POST":
            await _write(connection, line, _error(405, "deliveries are made with POST"), {"Allow": "POST"})
        else:
            await self._take(connection, line, place, headers, body)

    async def refuse_too_large(self, connection: HTTP1Connection, line: RequestStartLine) -> None:
        """Answer without reading on; the connection ends with it."""
        if line.method == "POST" and self._addresses.place(line.path) is not None:
            answer = self._hook.refuse_too_large()
        else:
            answer = _error(413, f"the body is larger than {LARGEST_BODY} bytes")
        await _guard(connection, _write(connection, line, answer, {"Connection": "close"}))

    async def _take(
        self, connection: HTTP1Connection, line: RequestStartLine, place: Place, headers: HTTPHeaders, body: bytes
    ) -> None:
        try:
            answer = await self._hook.post(place, headers, body)
        except Exception:
            logger.exception("receiver.not_handled: a delivery was not handled")
            answer = _error(500, "the receiver failed; call again")
        if answer.delay:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), answer.delay)
        await _write(connection, line, answer)

    async def _write_calls(self, connection: HTTP1Connection) -> None:
        head = HTTPHeaders({"Content-Type": "application/x-ndjson"})
        connection.write_headers(ResponseStartLine("HTTP/1.1", 200, "OK"), head)
        lines: list[str] = []
        for calls in self._store.calls_by_key():
            lines.append(json.dumps({"v": 1, **asdict(calls)}) + "\n")
            if len(lines) == _LINES_IN_A_PAGE:
                await _taken(connection.write("".join(lines).encode()))
                lines = []
        sent = connection.write("".join(lines).encode())
        connection.finish()
        await _taken(sent)


class _Exchange(HTTPMessageDelegate):
    """One request on its way in."""

    def __init__(self, site: Site, connection: HTTP1Connection) -> None:
        self._site = site
        self._connection = connection
        self._body = bytearray()

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Coroutine[Any, Any, None] | None:
        assert isinstance(start_line, RequestStartLine)
        self._line = start_line
        self._headers = headers
        announced = headers.get("Content-Length", "")
        # What is no number is Tornado's to refuse; one of 5,000 digits is too large without being read.
        return self._refuse_if_over(int(announced[:_MOST_DIGITS]) if announced.isdecimal() else 0)

    def data_received(self, chunk: bytes) -> Coroutine[Any, Any, None] | None:
        self._body += chunk
        return self._refuse_if_over(len(self._body))

    def finish(self) -> None:
        answering = self._site.respond(self._connection, self._line, self._headers, bytes(self._body))
        self._site.begin(self._connection, answering)

    def _refuse_if_over(self, size: int) -> Coroutine[Any, Any, None] | None:
        return self._site.refuse_too_large(self._connection, self._line) if size > LARGEST_BODY else None


async def _guard(connection: HTTP1Connection, answering: Coroutine[Any, Any, None]) -> None:
    try:
        await answering
    except StreamClosedError:
        # The caller has gone. What was stored stays, and a repeat will be recognised.
        pass
    except TimeoutError:
        connection.close()
    except Exception:
        logger.exception("receiver.not_answered: a request was not answered")
        connection.close()


async def _write(
    connection: HTTP1Connection,
    line: RequestStartLine,
    answer: Answer,
    more: Mapping[str, str] = MappingProxyType({}),
) -> None:
    head = {"Content-Type": "application/json", "Content-Length": str(len(answer.body)), **more}
    start = ResponseStartLine("HTTP/1.1", answer.status, HTTPStatus(answer.status).phrase)
    sent = connection.write_headers(start, HTTPHeaders(head), None if line.method == "HEAD" else answer.body)
    connection.finish()
    await _taken(sent)


async def _taken(sent: asyncio.Future[None]) -> None:
    """Wait until an answer has left for the caller. Raises `TimeoutError`."""
    if not sent.done():
        async with asyncio.timeout(_SECONDS_TO_TAKE_AN_ANSWER):
            await sent


def _error(status: int, reason: str) -> Answer:
    return Answer(status, json.dumps({"v": 1, "error": reason}).encode())

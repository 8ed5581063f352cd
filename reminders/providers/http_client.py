"""One request to one checked address under one deadline: the standard library's HTTP, with nothing done on its own.

`http.client` follows no redirect, repeats nothing, reads neither proxy variables nor `.netrc`, decompresses nothing and
logs no address. What is added here: the deadline, the check of the address, knowing whether anything was sent, a bound
on what is received, and connections that are used again.
"""

from __future__ import annotations

import http.client
import logging
import re
import select
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reminders.domain.outcomes import Outcome
from reminders.pipeline.tracing import origin
from reminders.providers.address_guard import not_public, resolve
from reminders.providers.allowance import Allowance
from reminders.providers.call_failures import Unsendable, outcome_of_failure
from reminders.providers.deadline_sockets import Call, DeadlineSocket, DeadlineTlsSocket, connect
from reminders.providers.destination_url import Target
from reminders.providers.idle_connections import IdleConnections
from reminders.providers.tls import new_tls_context, wrap

logger = logging.getLogger(__name__)

MOST_BODY = 64 * 1024
"""Bytes of an answer's body that are read. After a longer one the connection is closed."""
IDLE_SECONDS = 55.0
"""How long an unused connection is kept; shorter where the far side announces it (`Keep-Alive: timeout=`)."""
_STATUS_LINE = re.compile(rb"(HTTP/1\.[01])[ \t]+(\d{3})(?:[ \t][^\n]*)?\r?\n")
_LONGEST_STATUS_LINE = 8 * 1024
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\xa0-\xff]*")
_KEEP_ALIVE = re.compile(r"timeout=(\d{1,5})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Answer:
    """A final answer. `body` is what was sent, not decompressed, and may be cut off."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Posts and gets, and keeps up to `idle_limit` connections open between calls. Any number of threads may share one."""

    def __init__(self, *, allow_private: bool, idle_limit: int) -> None:
        self._allow_private = allow_private
        self._idle: IdleConnections[_Connection] = IdleConnections(idle_limit)
        self._lock = threading.Lock()
        self._tls_context: ssl.SSLContext | None = None

    def post(
        self,
        target: Target,
        headers: Mapping[str, str],
        body: bytes,
        deadline: float,
        allowance: Allowance | None = None,
    ) -> Answer | Outcome:
        """Send `body` once. Returns the answer, or what its absence means; within `deadline` seconds; never raises."""
        return self._exchange("POST", target, headers, body, Call(deadline, allowance))

    def get(self, target: Target, headers: Mapping[str, str], deadline: float) -> Answer | Outcome:
        """Ask once, in the same way. What stands for an absent answer is written for posts; it sent nothing."""
        return self._exchange("GET", target, headers, None, Call(deadline))

    def _exchange(
        self, method: str, target: Target, headers: Mapping[str, str], body: bytes | None, call: Call
    ) -> Answer | Outcome:
        try:
            return self._request(method, target, headers, body, call)
        except Exception as error:  # noqa: BLE001 (whatever happens, the attempt needs an outcome)
            outcome = outcome_of_failure(error, sent=call.sent)
            if outcome.error_class == "internal":
                logger.error("http.call_failed: %s", origin(error))  # noqa: TRY400 (not its text)
            return outcome

    def _request(
        self, method: str, target: Target, headers: Mapping[str, str], body: bytes | None, call: Call
    ) -> Answer:
        if not all(_HEADER_VALUE.fullmatch(value) for value in headers.values()):
            raise Unsendable("a header value")
        connection = self._idle.take(_place(target)) or self._take_permitted(target, call.allowance)
        connection = connection or self._connect(target, call)
        keep_seconds = 0.0
        try:
            answer, keep_seconds = connection.exchange(method, target.path, headers, body, call)
        finally:
            if keep_seconds > 0:
                self._idle.keep(connection.kept_under, connection, keep_seconds)
            else:
                connection.close()
        return answer

    def _take_permitted(self, target: Target, allowance: Allowance | None) -> _Connection | None:
        """An open connection to an address that is not public, if the tenant whom it was opened for may still use it."""
        if allowance is None or self._allow_private:
            return None
        connection = self._idle.take((*_place(target), allowance.tenant_id))
        if connection is None:
            return None
        permitted = False
        try:
            permitted = allowance.permits(target.host, connection.inside)
        finally:
            if not permitted:
                connection.close()
        return connection if permitted else None

    def _connect(self, target: Target, call: Call) -> _Connection:
        found = resolve(target.host, target.port, call, allow_private=self._allow_private)
        sock = connect(found, call)
        inside = () if self._allow_private else not_public(found)
        # What is not public is one tenant's: another one has not been allowed it.
        kept_under = (*_place(target), call.allowance.tenant_id) if inside and call.allowance else _place(target)
        if target.scheme == "http":
            return _Connection(target, sock, kept_under, inside)
        return _Connection(target, wrap(sock, call, self._tls(), target.host), kept_under, inside)

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls_context is None:
                self._tls_context = new_tls_context()
            return self._tls_context


def _place(target: Target) -> tuple[str | int, ...]:
    return target.scheme, target.host, target.port


class FinalResponse(http.client.HTTPResponse):
    """A response whose status line is read strictly, and before which any interim (1xx) response is passed over.

    The standard library passes over 100 only, and takes `HTTP/1.1 20_0` for 200.
    """

    def _read_status(self) -> tuple[str, int, str]:
        while True:
            line = self.fp.readline(_LONGEST_STATUS_LINE)
            if not line:
                raise http.client.RemoteDisconnected("closed without an answer")
            match = _STATUS_LINE.fullmatch(line)
            if match is None:
                raise http.client.BadStatusLine("not HTTP")
            status = int(match[2])
            if status < 100:
                raise http.client.BadStatusLine("no status")
            if status >= 200 or status == http.HTTPStatus.SWITCHING_PROTOCOLS:
                return match[1].decode("ascii"), status, ""
            http.client.parse_headers(self.fp)


class _Connection(http.client.HTTPConnection):
    """An open connection to one origin. It is never reopened: a new connection is a new object with a new check."""

    response_class = FinalResponse
    auto_open = 0
    sock: DeadlineSocket | DeadlineTlsSocket

    def __init__(
        self,
        target: Target,
        sock: DeadlineSocket | DeadlineTlsSocket,
        kept_under: tuple[str | int, ...],
        inside: tuple[str, ...],
    ) -> None:
        super().__init__(target.host, target.port)
        self.kept_under = kept_under
        self.inside = inside
        self.default_port = 443 if target.scheme == "https" else 80
        self.sock = sock
        self._outgoing: list[bytes] = []
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)

    def is_quiet(self) -> bool:
        pending = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
        return not pending and not self._poll.poll(0)

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, call: Call
    ) -> tuple[Answer, float]:
        """The answer, and for how many seconds the connection may be kept (0: not at all)."""
        self.sock.call = call
        self._outgoing.clear()
        self.request(method, path, body, headers)
        self._transmit(b"".join(self._outgoing), call)
        response = self.getresponse()
        pieces = []
        size = 0
        whole = False
        try:
            while size < MOST_BODY and (piece := response.read(MOST_BODY - size)):
                pieces.append(piece)
                size += len(piece)
            whole = response.isclosed()
        except (OSError, http.client.HTTPException, ValueError):
            # The status line has said what happened; the body can only add a reference.
            pass
        finally:
            response.close()
        keep = self._keep_seconds(response) if whole and not response.will_close and response.status >= 200 else 0.0
        return Answer(response.status, dict(response.headers.items()), b"".join(pieces)), keep

    def send(self, data: Any) -> None:
        """Take head and body from `request`: they leave in one write, as one packet where they fit into one."""
        self._outgoing.append(data)

    def _transmit(self, request: bytes, call: Call) -> None:
        self.sock.settimeout(call.remaining())
        # A TLS write that fails may have sent whole records; a plain one that fails at once has sent nothing.
        call.sent = isinstance(self.sock, ssl.SSLSocket)
        try:
            size = self.sock.send(request)
            call.sent = True
            if size < len(request):
                self.sock.settimeout(call.remaining())
                self.sock.sendall(memoryview(request)[size:])
        except (BrokenPipeError, ConnectionResetError):
            if not call.sent:
                raise
            # The far side may have answered before it closed, and its answer is worth more than the error.

    @staticmethod
    def _keep_seconds(response: http.client.HTTPResponse) -> float:
        announced = _KEEP_ALIVE.search(response.getheader("keep-alive") or "")
        return min(IDLE_SECONDS, int(announced[1]) - 1.0) if announced else IDLE_SECONDS

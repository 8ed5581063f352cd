"""Fetching a file over https, a slice at a time, through the same guard as webhooks: the address looked up once and checked.

Nothing is followed, repeated or decompressed. What is raised names neither the address nor the token: both may be secrets.
"""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version

from reminders.domain.errors import InvalidInput, RemindersError
from reminders.domain.outcomes import Retry
from reminders.providers.address_guard import ForbiddenAddress, LookUpFailed, resolve
from reminders.providers.call_failures import outcome_of_failure
from reminders.providers.deadline_sockets import Call, TooMuchReceived, connect
from reminders.providers.destination_url import Target, parse_destination
from reminders.providers.http_client import FinalResponse
from reminders.providers.tls import new_tls_context, wrap

LONGEST_URL = 8000
"""Characters. Addresses that carry their own permission are long."""
PIECE = 64 * 1024
"""Bytes that are read at once at most."""
_HEADS = 256 * 1024
"""Bytes that TLS, heads and chunk marks may need besides a file; a hundredth of the file comes on top."""
_CONTENT_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)", re.ASCII)
_STRONG_ETAG = re.compile(r'"[\x21\x23-\x7e]{0,256}"')
_NOT_NOW = frozenset({404, 408, 409, 423, 425, 429})
"""Answers to a report that is not there yet, or not just now; besides those of 500 and above."""


class FetchFailed(RemindersError):
    """The file, or its rest, was not had. `again` if a later attempt may go better."""

    def __init__(self, reason: str, *, again: bool) -> None:
        super().__init__(reason)
        self.again = again


class OutOfTime(FetchFailed):
    """The slice's time is over; nothing is wrong with what was received so far."""

    def __init__(self) -> None:
        super().__init__("the file did not come in time", again=True)


class Fetched:
    """A file on its way.

    `size` is that of the whole file, None if the far side does not say. `validator` names this state of the file for the
    next slice; None if the far side cannot send a rest, or cannot say whether it is one of the same file.
    """

    def __init__(self, response: http.client.HTTPResponse, start: int, most: int) -> None:
        self._response = response
        self._left = None if response.length is None else int(response.length)
        self._most = most
        self._received = start
        self.size = None if self._left is None else start + self._left
        self.validator = _validator(response) if start or _takes_ranges(response) else None

    def pieces(self) -> Iterator[bytes]:
        """The bytes from the start that was asked for, as they come. Raises `FetchFailed` where they end too early."""
        while True:
            try:
                piece = self._response.read1(PIECE)
            except TimeoutError:
                raise OutOfTime from None
            except (OSError, http.client.HTTPException, ValueError) as error:
                if isinstance(error, TooMuchReceived):
                    raise too_large(self._most) from None
                raise self._cut_off() from None
            if not piece:
                break
            self._received += len(piece)
            if self._received > self._most:
                raise too_large(self._most)
            yield piece
        if self.size is not None and self._received < self.size:
            raise self._cut_off()

    def _cut_off(self) -> FetchFailed:
        of = "" if self.size is None else f" of {self.size:,}"
        return FetchFailed(f"the connection was lost after {self._received:,}{of} bytes", again=True)


def check_url(url: str, *, allow_private: bool) -> Target:
    """The address taken apart. Raises `InvalidInput("url", ...)`, which does not repeat it."""
    try:
        return parse_destination(url, allow_private=allow_private, longest=LONGEST_URL)
    except InvalidInput as error:
        raise InvalidInput("url", error.reason) from None


def too_large(most: int) -> FetchFailed:
    return FetchFailed(f"the file is larger than {most:,} bytes; split it, or read it where it lies", again=False)


@contextmanager
def fetched(
    url: str,
    *,
    seconds: float,
    most: int,
    allow_private: bool,
    start: int = 0,
    validator: str | None = None,
    bearers: Mapping[str, str] | None = None,
) -> Iterator[Fetched]:
    """Ask for the file from byte `start` on, and be ready to read it, within `seconds` in all.

    `validator` is that of the slices before, of which this is the rest. `bearers` has the bearer token of each host that
    is to be shown one. Raises `InvalidInput` for the address, `FetchFailed` for everything else.
    """
    target = check_url(url, allow_private=allow_private)
    headers = {"user-agent": f"reminders/{version('reminders')}", "accept-encoding": "identity"}
    if start:
        headers |= {"range": f"bytes={start}-", "if-range": validator or ""}
    if (token := (bearers or {}).get(target.host)) is not None:
        headers["authorization"] = f"Bearer {token}"
    call = Call(seconds, most_received=_HEADS + most - start + (most - start) // 100)
    connection = _connected(target, call, allow_private=allow_private)
    try:
        response = _answer(connection, target, headers)
        _check(response, start, most, validator)
        yield Fetched(response, start, most)
    finally:
        connection.close()


class _Connection(http.client.HTTPConnection):
    response_class = FinalResponse
    auto_open = 0


@lru_cache(maxsize=1)
def _tls_context() -> ssl.SSLContext:
    return new_tls_context()


def _connected(target: Target, call: Call, *, allow_private: bool) -> _Connection:
    connection = _Connection(target.host, target.port)
    connection.default_port = 443 if target.scheme == "https" else 80
    try:
        sock = connect(resolve(target.host, target.port, call, allow_private=allow_private), call)
        connection.sock = sock if target.scheme == "http" else wrap(sock, call, _tls_context(), target.host)
    except (OSError, LookUpFailed, ForbiddenAddress) as error:
        outcome = outcome_of_failure(error, sent=False)
        raise FetchFailed(outcome.reason, again=isinstance(outcome, Retry)) from None
    return connection


def _answer(connection: _Connection, target: Target, headers: Mapping[str, str]) -> http.client.HTTPResponse:
    try:
        connection.request("GET", target.path, headers=dict(headers))
        return connection.getresponse()
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise FetchFailed(outcome_of_failure(error, sent=True).reason, again=True) from None


def _check(response: http.client.HTTPResponse, start: int, most: int, validator: str | None) -> None:
    """Raise `FetchFailed` unless the answer is the file from byte `start` on."""
    status = response.status
    if 300 <= status < 400:
        raise FetchFailed(
            f"the far side answers {status}; redirects are not followed, give the last address", again=False
        )
    if status >= 500 or status in _NOT_NOW:
        raise FetchFailed(f"the far side answers {status}", again=True)
    if start and (status in {200, 412, 416} or (status == 206 and _validator(response) not in {None, validator})):
        raise FetchFailed("the file has changed, or ranges ended to be served, while it was fetched", again=False)
    if status != (206 if start else 200):
        raise FetchFailed(f"the far side answers {status}", again=False)
    if response.getheader("content-encoding", "identity").strip().lower() not in {"identity", ""}:
        raise FetchFailed("the far side sends the file compressed, though asked not to", again=False)
    if start and not _is_rest(response, start):
        raise FetchFailed("the far side sends another range of the file than it was asked for", again=False)
    if response.length is None and not response.chunked:
        raise FetchFailed("the far side does not say where the file ends", again=False)
    if response.length is not None and start + response.length > most:
        raise too_large(most)


def _is_rest(response: http.client.HTTPResponse, start: int) -> bool:
    found = _CONTENT_RANGE.fullmatch(response.getheader("content-range", "").strip())
    if found is None or int(found[1]) != start:
        return False
    end = int(found[2]) + 1
    return found[3] in {"*", str(end)} and response.length in {None, end - start}


def _takes_ranges(response: http.client.HTTPResponse) -> bool:
    return "bytes" in response.getheader("accept-ranges", "").lower()


def _validator(response: http.client.HTTPResponse) -> str | None:
    """What `If-Range` may hold (RFC 9110, 13.1.5): a strong entity tag. A date may stand for two states of one second."""
    tag = response.getheader("etag", "").strip()
    return tag if _STRONG_ETAG.fullmatch(tag) else None

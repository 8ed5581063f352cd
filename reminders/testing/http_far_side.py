"""A far side that speaks HTTP: what most providers call."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import IO

from reminders.testing.far_side import Call, TcpFarSide
from reminders.testing.scenes import Scene

PATH = "/kit-path/5d1c0b7e"
_FILLER = b" and so on" * 1000

Answer = bytes | Callable[[Call], bytes]
"""A whole HTTP answer, or what makes one of the call."""


def http_answer(status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> bytes:
    """The bytes of an answer after which the connection stays open."""
    phrase = HTTPStatus(status).phrase
    lines = [f"HTTP/1.1 {status} {phrase}", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + body


def repeating(status: int) -> Callable[[Call], bytes]:
    """An answer that repeats the request line and the body, at length, with bytes that cannot be stored."""

    def answer(call: Call) -> bytes:
        return http_answer(
            status,
            b"refused \0\xff: " + call.raw.split(b"\r\n")[0] + call.body + _FILLER,
            {"Content-Type": "text/plain"},
        )

    return answer


class HttpFarSide(TcpFarSide):
    """Answers every request, whatever its method and path, as the scene says.

    `answers` replaces the answers of single scenes: a whole HTTP answer (see `http_answer`), or a function of the `Call`
    that gives one. By default: 200, 400 (repeating the request), 410, 429, 500, 401, and for look-ups 200 and 404.
    """

    def __init__(self, answers: Mapping[Scene, Answer] | None = None) -> None:
        self.answers: dict[Scene, Answer] = {
            Scene.ACCEPTS: http_answer(200, b'{"id": "far-side-1"}', {"Content-Type": "application/json"}),
            Scene.REFUSES: repeating(400),
            Scene.IS_GONE: http_answer(410),
            Scene.IS_BUSY: http_answer(429),
            Scene.FAILS: http_answer(500),
            Scene.REFUSES_OUR_CREDENTIALS: http_answer(401),
            Scene.KNOWS_THE_KEY: http_answer(200, b"{}"),
            Scene.DOES_NOT_KNOW_THE_KEY: http_answer(404),
            **(answers or {}),
        }
        super().__init__()

    @property
    def url(self) -> str:
        """A URL that leads here, with a path that is looked for in logs. It differs between scenes: ask after `play`."""
        return f"http://127.0.0.1:{self.port}{PATH}"

    def talk(self, connection: socket.socket, number: int) -> None:
        """Read requests, and answer them as the scene says."""
        with connection.makefile("rb") as stream:
            while (call := _read(stream, number)) is not None:
                self.calls.append(call)
                if not self._answer(connection, call):
                    return

    def _answer(self, connection: socket.socket, call: Call) -> bool:
        match self.scene:
            case Scene.DOES_NOT_ANSWER:
                self.wait()
            case Scene.DRIPS:
                connection.sendall(b"HTTP/1.1 200 ")
                self.drip(connection, b"O")
            case Scene.NEVER_ENDS:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                self.drip(connection, b" " * 4096)
            case Scene.TALKS_NONSENSE:
                connection.sendall(b"\0\xff this is not HTTP\r\n\r\n")
            case Scene.BREAKS_AFTER_READING:
                pass
            case scene:
                answer = self.answers[scene]
                connection.sendall(answer if isinstance(answer, bytes) else answer(call))
                return True
        return False


def _read(stream: IO[bytes], number: int) -> Call | None:
    """The next request, or None where the connection ends."""
    head = bytearray()
    headers: dict[str, str] = {}
    while (line := stream.readline()) not in {b"\r\n", b"\n"}:
        if not line:
            return None
        head += line
        name, _, value = line.decode("latin-1").partition(":")
        headers[name.strip().lower()] = value.strip()
    head += b"\r\n"
    if headers.get("expect", "").lower() == "100-continue":
        raise ValueError("send the body without waiting for 100 Continue")
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = _read_chunks(stream)
    else:
        body = stream.read(int(headers.get("content-length", "0")))
    return Call(bytes(head) + body, body, number)


def _read_chunks(stream: IO[bytes]) -> bytes:
    pieces = []
    while size := int(stream.readline().split(b";")[0], 16):
        pieces.append(stream.read(size))
        stream.readline()
    while stream.readline() not in {b"\r\n", b"\n", b""}:
        pass
    return b"".join(pieces)

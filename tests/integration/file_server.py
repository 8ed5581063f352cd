"""A server of one file, over http or https on loopback, that can be told to misbehave."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from dataclasses import dataclass, field


@dataclass
class FileServer:
    """Serves `content`. With `ranges`, rests of it; `cut_after` bytes of a body it closes; `stall_after` it says no more.

    `answers` are sent as they are instead, one a request, while there are any (None: as usual). `asked` has the heads.
    """

    content: bytes
    etag: str | None = '"one"'
    ranges: bool = True
    heeds_if_range: bool = True
    chunked: bool = False
    cut_after: int | None = None
    stall_after: int | None = None
    answers: list[bytes | None] = field(default_factory=list)
    context: ssl.SSLContext | None = None
    asked: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        scheme = "https" if self.context else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}/payouts.csv?signature=s3cret"
        self.gone = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.gone.set()
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            if self.context:
                connection = stack.enter_context(self.context.wrap_socket(connection, server_side=True))
            stream = stack.enter_context(connection.makefile("rb"))
            head = {"line": stream.readline().decode().strip()}
            while (line := stream.readline()) not in (b"\r\n", b""):
                name, _, value = line.decode().partition(":")
                head[name.lower()] = value.strip()
            self.asked.append(head)
            scripted = self.answers.pop(0) if self.answers else None
            if scripted is not None:
                connection.sendall(scripted)
                return
            self._serve(connection, head)

    def _serve(self, connection, head):
        wanted = re.fullmatch(r"bytes=(\d+)-", head.get("range", ""))
        start = int(wanted[1]) if wanted and self.ranges else 0
        if start and self.heeds_if_range and head.get("if-range") != self.etag:
            start = 0
        body = self.content[start:]
        lines = [f"HTTP/1.1 {'206 Partial Content' if start else '200 OK'}", "Content-Type: text/csv"]
        lines += [f"ETag: {self.etag}"] if self.etag else []
        lines += ["Accept-Ranges: bytes"] if self.ranges else []
        if start:
            lines.append(f"Content-Range: bytes {start}-{len(self.content) - 1}/{len(self.content)}")
        lines.append("Transfer-Encoding: chunked" if self.chunked else f"Content-Length: {len(body)}")
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        limit = self.cut_after if self.cut_after is not None else self.stall_after
        sent = body if limit is None else body[:limit]
        if self.chunked:
            sent = b"%x\r\n%b\r\n" % (len(sent), sent) if sent else b""
            sent += b"0\r\n\r\n" if limit is None else b""
        connection.sendall(sent)
        if self.stall_after is not None and self.cut_after is None:
            self.gone.wait(60)

"""A pooler in transaction mode, as small as can be: each client's session goes to whoever begins the next transaction."""

from __future__ import annotations

import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

IDLE = b"Z" + struct.pack("!I", 5) + b"I"
"""What says that no transaction is open."""


class _Pooler:
    """Every client logs in by itself; from then on its server connection is in the pool while it has no transaction."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._pool: list[socket.socket] = []
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.close()
        for server in self._pool:
            server.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server: socket.socket | None = socket.socket(socket.AF_UNIX)
        assert server is not None
        server.connect(self._path)
        began = True
        with suppress(OSError, EOFError), client:
            while True:
                readable, _, _ = select.select([client, *([server] if server else [])], [], [])
                if client in readable:
                    data = client.recv(65536)
                    if not data or (data[:1] == b"X" and not began):
                        break
                    if server is None:
                        with self._lock:
                            server = self._pool.pop()
                    server.sendall(data)
                elif server is not None:
                    message = _next_of(server)
                    if message == IDLE:
                        began = False
                        # First: a client that knows its transaction to be over may begin the next one at once, on another connection.
                        with self._lock:
                            self._pool.append(server)
                        server = None
                    client.sendall(message)


def _next_of(server: socket.socket) -> bytes:
    """One message of the server."""
    head = _exactly(server, 1)
    if head == b"N":  # no TLS
        return head
    size = _exactly(server, 4)
    return head + size + _exactly(server, struct.unpack("!I", size)[0] - 4)


def _exactly(server: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = server.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data


@contextmanager
def pooler(path: str) -> Iterator[int]:
    """The port of a pooler before the server whose socket is at `path`."""
    running = _Pooler(path)
    try:
        yield running.port
    finally:
        running.close()

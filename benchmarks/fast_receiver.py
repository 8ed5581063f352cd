"""A receiver that costs next to nothing: answers 200 to every POST after an optional latency. Not for production.

A GET is answered with how many POSTs have come.

python -m benchmarks.fast_receiver PORT [LATENCY_MS]
"""

from __future__ import annotations

import asyncio
import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

HEAD = "HTTP/1.1 200 OK\r\ncontent-length: {}\r\ncontent-type: text/plain\r\n\r\n{}"
ANSWER = HEAD.format(2, "ok").encode()
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class Fast(asyncio.Protocol):
    came: ClassVar[int] = 0
    """POSTs, over all connections."""

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            told = LENGTH.search(head)
            length = int(told[1]) if told else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            if head.startswith(b"GET"):
                self.transport.write(HEAD.format(len(str(Fast.came)), Fast.came).encode())
            else:
                self.post(head)

    def post(self, _head: bytes, /) -> None:
        """A POST has come whole, with this head."""
        Fast.came += 1
        if self.latency:
            asyncio.get_running_loop().call_later(self.latency, self.transport.write, ANSWER)
        else:
            self.transport.write(ANSWER)


class Receiver:
    """One that runs in a process of its own, on `port`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    def came(self) -> int:
        """How many POSTs have come."""
        self._client.request("GET", "/")
        return int(self._client.getresponse().read())


@contextmanager
def receiving(latency_ms: float) -> Iterator[Receiver]:
    """A receiver on a free port."""
    argv = [sys.executable, "-m", "benchmarks.fast_receiver", "0", str(latency_ms)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield Receiver(int(process.stdout.readline().split()[1]))
    finally:
        process.terminate()
        process.wait()


async def main(port: int, latency: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Fast(latency), "127.0.0.1", port, backlog=1000)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.0))

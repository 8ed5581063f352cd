"""A receiver that costs next to nothing: answers 200 to every POST after an optional latency. Not for production.

python benchmarks/fast_receiver.py PORT [LATENCY_MS]
"""

from __future__ import annotations

import asyncio
import re
import sys

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"
LENGTH = re.compile(rb"\r\ncontent-length:\s*(\d+)", re.IGNORECASE)


class Fast(asyncio.Protocol):
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
            self.post(head)

    def post(self, _head: bytes, /) -> None:
        """A POST has come whole, with this head."""
        if self.latency:
            asyncio.get_running_loop().call_later(self.latency, self.transport.write, ANSWER)
        else:
            self.transport.write(ANSWER)


async def main(port: int, latency: float) -> None:
    server = await asyncio.get_running_loop().create_server(lambda: Fast(latency), "127.0.0.1", port)
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) / 1000 if len(sys.argv) > 2 else 0.0))

"""A receiver that costs little and notes when each POST came: answers 200, and under /hang never. Not for production.

python -m benchmarks.noting_receiver PORT FILE

FILE gets a line for each POST: the wall clock's time, and the path.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TextIO

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: text/plain\r\n\r\nok"
FLUSH_EVERY = 0.2


class Noting(asyncio.Protocol):
    def __init__(self, notes: TextIO) -> None:
        self.notes = notes
        self.buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            head = self.buffer[:end]
            at = head.lower().find(b"content-length:")
            length = int(head[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self.buffer) < end + 4 + length:
                return
            self.buffer = self.buffer[end + 4 + length :]
            path = head.split(b" ", 2)[1].decode()
            self.notes.write(f"{time.time():.6f} {path}\n")
            if not path.startswith("/hang"):
                self.transport.write(ANSWER)


async def main(port: int, file: Path) -> None:
    with file.open("w") as notes:
        server = await asyncio.get_running_loop().create_server(lambda: Noting(notes), "127.0.0.1", port)
        print("ready", flush=True)
        async with server:
            while True:
                await asyncio.sleep(FLUSH_EVERY)
                notes.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))

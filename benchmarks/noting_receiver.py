"""A receiver that costs little and notes when each POST came: answers 200, and under /hang never. Not for production.

python -m benchmarks.noting_receiver PORT FILE

FILE gets a line for each POST: the wall clock's time, and the path. It prints `ready` and its port, which of 0 is any free one.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path
from typing import TextIO

from benchmarks.fast_receiver import Fast

FLUSH_EVERY = 0.2


class Noting(Fast):
    def __init__(self, notes: TextIO) -> None:
        super().__init__(latency=0.0)
        self.notes = notes

    def post(self, head: bytes, /) -> None:
        path = head.split(b" ", 2)[1].decode()
        self.notes.write(f"{time.time():.6f} {path}\n")
        if not path.startswith("/hang"):
            super().post(head)


async def main(port: int, file: Path) -> None:
    with file.open("w") as notes:
        server = await asyncio.get_running_loop().create_server(lambda: Noting(notes), "127.0.0.1", port)
        print("ready", server.sockets[0].getsockname()[1], flush=True)
        async with server:
            while True:
                await asyncio.sleep(FLUSH_EVERY)
                notes.flush()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), Path(sys.argv[2])))

"""The scripted receiver: one process, two places (`/once/...` and `/each/...`), every call noted in a file.

    python -m benchmarks.chaos.receiver PORT FILE SEED TROUBLE DEADLINE

It answers as `manners` says, prints `ready` and its port (of 0 any free one), and on SIGTERM closes what is open and writes the rest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import TextIO

from benchmarks.chaos.calls import ONCE, Call, write
from benchmarks.chaos.manners import Manner, manner

REASONS = {200: "OK", 429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}


class Notes:
    """What all connections share: calls by key, keys that were applied, and the file."""

    def __init__(self, file: TextIO, seed: int, trouble: float, deadline: float) -> None:
        self._file = file
        self._seed = seed
        self._trouble = trouble
        self._deadline = deadline
        self._calls: Counter[str] = Counter()
        self._applied: set[str] = set()

    def begin(self, path: str, headers: dict[str, str], body: bytes) -> tuple[Call, Manner]:
        said = json.loads(body)
        key = headers["webhook-id"]
        self._calls[key] += 1
        how = manner(self._seed, key, self._calls[key], trouble=self._trouble, deadline=self._deadline)
        place = path.split("/")[1]
        effect = how.effect and not (place == ONCE and key in self._applied)
        if effect:
            self._applied.add(key)
        now = monotonic()
        call = Call(
            key=key, reminder=said["id"], reference=said["reference"], place=place,
            attempt=int(headers["reminders-attempt"]), body=hashlib.sha256(body).hexdigest()[:16],
            start=now, end=now, manner=how.name, status=None, effect=effect,
        )  # fmt: skip
        return call, how

    def end(self, call: Call, status: int | None) -> None:
        call.end, call.status = monotonic(), status
        self._file.write(write([call]))

    def flush(self) -> None:
        self._file.flush()


class Conversation(asyncio.Protocol):
    """One connection: requests one after the other, as our client sends them."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._buffer = b""
        self._open: Call | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, gap, rest = self._buffer.partition(b"\r\n\r\n")
        if not gap:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = int(headers["content-length"])
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        self._open, how = self._notes.begin(first.split()[1], headers, rest[:length])
        self._timer = asyncio.get_running_loop().call_later(how.wait, self._answer, how)

    def _answer(self, how: Manner) -> None:
        assert self._open is not None
        if how.status is None:
            self._transport.abort()
            return
        retry = "" if how.retry_after is None else f"retry-after: {how.retry_after}\r\n"
        answer = f"HTTP/1.1 {how.status} {REASONS[how.status]}\r\n{retry}content-length: 0\r\n\r\n"
        # Noted first: the caller may act on the answer before this process runs again.
        call, self._open = self._open, None
        self._notes.end(call, how.status)
        self._transport.write(answer.encode())

    def connection_lost(self, _error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._open is not None:
            call, self._open = self._open, None
            self._notes.end(call, None)


async def serve(port: int, notes: Notes) -> None:
    """Until SIGTERM."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    conversations: set[asyncio.BaseTransport] = set()

    class Counted(Conversation):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            conversations.add(transport)

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            conversations.discard(self._transport)

    server = await loop.create_server(lambda: Counted(notes), "127.0.0.1", port, backlog=1024)
    print("ready", server.sockets[0].getsockname()[1], flush=True)
    await stop.wait()
    for transport in tuple(conversations):
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    notes.flush()


def main(arguments: list[str]) -> None:
    port, path, seed, trouble, deadline = arguments
    with Path(path).open("a", buffering=1) as file:
        asyncio.run(serve(int(port), Notes(file, int(seed), float(trouble), float(deadline))))


if __name__ == "__main__":
    main(sys.argv[1:])

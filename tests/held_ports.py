"""A port for a server that is told its port: free when it starts, however late that is, and again after it was killed."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

APART = range(10_000, 20_000)
"""Systems give none of these to who asks for any port, or connects to somewhere; nor has an embedded Redis one of them."""


@contextmanager
def held_port() -> Iterator[int]:
    """A port of this machine that nobody else is given by chance as long as the block lasts.

    It is bound, and nobody listens: who connects is refused. Linux lets a server that sets SO_REUSEADDR, as they all do,
    listen there all the same, and gives the port to no other that asks for any port or connects to somewhere. Other
    systems would not let the server in; there the port is let go of at once.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        if sys.platform != "linux":
            holder.close()
        yield port


@contextmanager
def taken_port() -> Iterator[int]:
    """A port that somebody listens on, on all addresses. The next one stays free, or taken, until somebody wants just that.

    Linux gives the port after one that was asked for as any to whoever connects to somewhere, and keeps it from servers for
    a minute after that.
    """
    while True:
        try:
            listening = socket.create_server(("0.0.0.0", random.choice(APART)))
        except OSError:
            continue
        with closing(listening):
            yield listening.getsockname()[1]
        return

"""Sockets that keep one deadline for a whole call, however slowly bytes drip in.

An ordinary socket timeout starts again with every byte. These sockets are given the time that is left before each
operation, and they count what they receive.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

from reminders.providers.allowance import Allowance

MOST_RECEIVED = 256 * 1024
"""Bytes taken from the far side in one call, headers included."""

SocketAddress = tuple[socket.AddressFamily, tuple[Any, ...]]


class TooMuchReceived(OSError):
    """The far side sent more than any answer may have."""


class Call:
    """One request on its way: when it must be over, where it may go besides public addresses, whether any of it may have
    left, how much came back and may come at most.
    """

    __slots__ = ("_ends_at", "_most_received", "_received", "allowance", "sent")

    def __init__(
        self, seconds: float, allowance: Allowance | None = None, *, most_received: int = MOST_RECEIVED
    ) -> None:
        self._ends_at = time.monotonic() + seconds
        self._most_received = most_received
        self._received = 0
        self.allowance = allowance
        self.sent = False

    def remaining(self) -> float:
        """Seconds left, more than zero. Raises `TimeoutError` when there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left

    def count_received(self, size: int) -> None:
        self._received += size
        if self._received > self._most_received:
            raise TooMuchReceived("the answer is too large")


class DeadlineSocket(socket.socket):
    """A plain socket under the deadline of `call`, which is exchanged when the connection is used again."""

    call: Call

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.call.remaining())
        size = super().recv_into(*args, **kwargs)
        self.call.count_received(size)
        return size


class DeadlineTlsSocket(ssl.SSLSocket):
    """The same over TLS. The handshake is bounded as a whole by the timeout of the socket that is wrapped."""

    call: Call

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.call.remaining())
        size = super().recv_into(*args, **kwargs)
        self.call.count_received(size)
        return size

    def send(self, *args: Any, **kwargs: Any) -> int:
        # `sendall` of a TLS socket calls this for every part, each of which would have the full timeout.
        self.settimeout(self.call.remaining())
        return super().send(*args, **kwargs)


def connect(addresses: Sequence[SocketAddress], call: Call) -> DeadlineSocket:
    """Connect to the first address that answers; each has an equal share of the time that is left.

    Raises the last address's `OSError`.
    """
    failure: OSError = OSError("the host has no address")
    for index, (family, address) in enumerate(addresses):
        sock = None
        try:
            sock = DeadlineSocket(family, socket.SOCK_STREAM)
            sock.settimeout(call.remaining() / (len(addresses) - index))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.connect(address)
        except OSError as error:
            if sock is not None:
                sock.close()
            failure = error
        else:
            sock.call = call
            return sock
    raise failure

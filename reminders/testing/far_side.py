"""Who a provider calls: a server on loopback that behaves as a scene says."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from dataclasses import dataclass
from typing import Protocol

from reminders.testing.scenes import Scene

DRIP_EVERY = 0.02
"""Seconds between two bytes of an answer that drips, and between two pieces of one that never ends."""


@dataclass(frozen=True, slots=True)
class Call:
    """One message that the far side has read whole.

    `raw` is all of it, as it came; `body` what the provider's `body` became in it; `connection` tells connections apart.
    """

    raw: bytes
    body: bytes
    connection: int


class FarSide(Protocol):
    """What the kit needs of a far side. `TcpFarSide` does most of it, `HttpFarSide` all of it."""

    calls: list[Call]
    """The messages read since the last `play`, oldest first."""

    def play(self, scene: Scene) -> None:
        """Behave so from now on, and forget the calls."""

    def close(self) -> None:
        """End all connections."""


class NoFarSide:
    """That of a provider which calls nobody."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def play(self, scene: Scene) -> None:
        """There is nobody to behave."""

    def close(self) -> None:
        """There are no connections."""


class TcpFarSide:
    """Connections that are refused, not accepted or broken; what is said on the others is a subclass's.

    Such a class writes `talk`, and may use `drip` and `wait`.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.scene = Scene.ACCEPTS
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._connections: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        # Bound and not listening: the port is ours, and whoever connects to it is refused.
        self._refusing = socket.socket()
        self._refusing.bind(("127.0.0.1", 0))
        self._deaf = socket.create_server(("127.0.0.1", 0), backlog=0)
        for _ in range(4):  # fills its queue: further attempts to connect are not answered
            waiting = socket.socket()
            waiting.setblocking(False)
            waiting.connect_ex(self._deaf.getsockname())
            self._connections.append(waiting)
        threading.Thread(target=self._accept, name="far-side", daemon=True).start()

    @property
    def port(self) -> int:
        """Where to call it on 127.0.0.1. It differs between scenes: ask after `play`."""
        listener = {Scene.REFUSES_CONNECTIONS: self._refusing, Scene.DOES_NOT_ACCEPT: self._deaf}.get(
            self.scene, self._listener
        )
        return int(listener.getsockname()[1])

    def play(self, scene: Scene) -> None:
        """Behave so from now on, and forget the calls."""
        self.scene = scene
        self.calls = []

    def close(self) -> None:
        """End all connections."""
        self._over.set()
        with self._lock:
            for each in (self._refusing, self._deaf, *self._connections):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def talk(self, connection: socket.socket, number: int) -> None:
        """Speak the protocol on one connection, as `self.scene` says; it is closed afterwards.

        Append a `Call` for every message that was read whole, with `number` as its connection.
        """
        raise NotImplementedError

    def drip(self, connection: socket.socket, piece: bytes) -> None:
        """Send `piece` again and again, until the far side is closed."""
        while not self._over.wait(DRIP_EVERY):
            connection.sendall(piece)

    def wait(self) -> None:
        """Do nothing, until the far side is closed."""
        self._over.wait()

    def _accept(self) -> None:
        number = 0
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                number += 1
                with self._lock:
                    self._connections.append(connection)
                threading.Thread(target=self._serve, args=(connection, number), name="far-side", daemon=True).start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            if self.scene is Scene.BREAKS_BEFORE_READING:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.talk(connection, number)

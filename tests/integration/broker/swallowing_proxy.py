"""A TCP way to the run's Postgres that can be told to swallow what the server answers, and keeps every connection open."""

import socket
from contextlib import suppress
from threading import Event, Thread


class SwallowingProxy:
    """Listens on `port`; forwards to the Unix socket `target` until `swallow` is set. New connections then get through."""

    def __init__(self, target):
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._open = []
        Thread(target=self._accept, daemon=True).start()

    def swallow(self):
        """From now on, nothing that comes back over the present connections arrives."""
        for _, _, deaf in self._open:
            deaf.set()

    def close(self):
        self._server.close()
        for ours, theirs, _ in self._open:
            for each in (ours, theirs):
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)
                each.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                ours, _ = self._server.accept()
                theirs = socket.socket(socket.AF_UNIX)
                theirs.connect(self._target)
                deaf = Event()
                self._open.append((ours, theirs, deaf))
                Thread(target=_carry, args=(ours, theirs, Event()), daemon=True).start()
                Thread(target=_carry, args=(theirs, ours, deaf), daemon=True).start()


def _carry(source, sink, deaf):
    with suppress(OSError):
        while part := source.recv(65536):
            if not deaf.is_set():
                sink.sendall(part)
        sink.shutdown(socket.SHUT_RDWR)

"""The end of a listener on which a thread waits."""

import contextlib
import socket


def end_listening(listener: socket.socket) -> None:
    """Close it and wake the thread. Closing alone would leave both the thread and the open port, for ever."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()

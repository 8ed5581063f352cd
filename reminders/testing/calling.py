"""Calls under watch: whatever a provider does, the check that called it goes on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch


@dataclass(frozen=True, slots=True)
class Called:
    """What became of a call: what it returned, or raised, after how many seconds; `hung` if it had to be left behind."""

    value: Any
    error: BaseException | None
    seconds: float
    hung: bool = False


def watched(call: Callable[[], Any], seconds: float) -> Called:
    """Make the call in a thread of its own, which is left behind when it has not ended after `seconds`."""
    found: list[Called] = []
    began = time.monotonic()

    def run() -> None:
        try:
            value = call()
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is what the check is about)
            found.append(Called(None, error, time.monotonic() - began))
        else:
            found.append(Called(value, None, time.monotonic() - began))

    thread = threading.Thread(target=run, name="kit-call", daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else Called(None, None, seconds, hung=True)


class NetworkUsed(OSError):
    """Raised into code that must not use the network."""


@contextmanager
def no_network() -> Iterator[list[str]]:
    """Refuse everything that would look up a name or open a connection. Yields a list of what was tried."""
    tried: list[str] = []

    def refusing(name: str) -> Callable[..., Any]:
        def refuse(*_arguments: Any, **_named: Any) -> Any:
            tried.append(name)
            raise NetworkUsed(f"{name} is not allowed here")

        return refuse

    looks_up = ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr", "create_connection")
    opens = ("connect", "connect_ex", "sendto")
    patches = [patch.object(socket, name, refusing(f"socket.{name}")) for name in looks_up]
    patches += [patch.object(socket.socket, name, refusing(f"socket.socket.{name}"), create=True) for name in opens]
    for each in patches:
        each.start()
    try:
        yield tried
    finally:
        for each in patches:
            each.stop()

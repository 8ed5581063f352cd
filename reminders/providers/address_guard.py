"""From a host name to addresses that may be connected to.

The name is looked up once per connection, every answer is checked, and only a checked address is handed on: a name
that leads to a public address when it is checked and to a private one when it is used (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import queue
import socket
import threading
from ipaddress import ip_address

from reminders.providers.deadline_sockets import Call, SocketAddress
from reminders.providers.public_addresses import is_public

MOST_ADDRESSES = 6
"""Addresses of one name that are tried."""
_OPEN_LOOKUPS = threading.BoundedSemaphore(256)


class LookUpFailed(OSError):
    """The name has no address, or no name server said so."""


class ForbiddenAddress(OSError):
    """The host leads to an address that is not public. The text does not say which."""


def resolve(host: str, port: int, call: Call, *, allow_private: bool) -> list[SocketAddress]:
    """The addresses of `host`, in the order the system prefers, within the call's deadline.

    Raises `LookUpFailed`, `TimeoutError` or, unless `allow_private`, `ForbiddenAddress`: one address that is neither public
    nor permitted refuses all.
    """
    try:
        ip_address(host)
    except ValueError:
        found = _look_up(host, port, call)
    else:
        found = _addresses(host, port, socket.AI_NUMERICHOST)
    inside = () if allow_private else not_public(found)
    if inside and (call.allowance is None or not call.allowance.permits(host, inside)):
        raise ForbiddenAddress("the host leads to an address that is not public")
    return found[:MOST_ADDRESSES]


def not_public(found: list[SocketAddress]) -> tuple[str, ...]:
    """Those of the addresses that are not public."""
    return tuple(address for _, (address, *_) in found if not is_public(address))


def _addresses(host: str, port: int, flags: int = 0) -> list[SocketAddress]:
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=flags)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise LookUpFailed(f"the host name could not be resolved ({reason or 'malformed'})") from None
    return [(family, address) for family, _, _, _, address in answers]


def _look_up(host: str, port: int, call: Call) -> list[SocketAddress]:
    """Ask in a thread of its own: a look-up cannot be interrupted, but it can be left behind.

    A thread left behind ends when the system's resolver gives up. The semaphore bounds how many there are.
    """
    if not _OPEN_LOOKUPS.acquire(blocking=False):
        raise LookUpFailed("too many name look-ups are waiting for an answer")
    answer: queue.SimpleQueue[list[SocketAddress] | LookUpFailed] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answer.put(_addresses(host, port))
        except LookUpFailed as error:
            answer.put(error)
        finally:
            _OPEN_LOOKUPS.release()

    try:
        threading.Thread(target=look_up, name="reminders-name-look-up", daemon=True).start()
    except RuntimeError:
        _OPEN_LOOKUPS.release()
        raise LookUpFailed("no thread could be started for the name look-up") from None
    try:
        found = answer.get(timeout=call.remaining())
    except queue.Empty:
        raise TimeoutError("the name look-up took too long") from None
    if isinstance(found, LookUpFailed):
        raise found
    return found

"""Which URLs a receiver answers for.

A secret is derived for the exact URL that a reminder names, so the receiver must know its own. It is configured, never
read from the request's `Host`: whoever owns some other URL knows the secret of that one, and could name it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from reminders.domain.errors import InvalidInput
from reminders.providers.destination_url import parse_destination
from reminders.receiver.misbehaviour import SCRIPTED_PATHS

HOOK_PATH = "/hook"
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to name one that can be called, not to bind
_ALIASES = {"127.0.0.1": "localhost", "::1": "localhost", "localhost": "127.0.0.1"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request was sent: the URLs that may stand for it, and the part of its path after the hook's own."""

    destinations: tuple[str, ...]
    script: str
    query: str


class Addresses:
    """The receiver's own URLs. Raises `InvalidInput("url", ...)` for one that is none, has no path, or has a query."""

    def __init__(self, urls: Iterable[str]) -> None:
        self.urls = tuple(urls)
        self._hooks = [(url, _request_path(url)) for url in self.urls]

    def place(self, target: str) -> Place | None:
        """The place that the request target `target` (path and query) names; None if nothing is received there."""
        path, _, query = target.partition("?")
        found: list[str] = []
        script = ""
        for url, hook in self._hooks:
            rest = path.removeprefix(hook)
            if path.startswith(hook) and (not rest or rest in SCRIPTED_PATHS):
                found.append(url + target.removeprefix(hook))
                script = rest
        return Place(tuple(found), script, query) if found else None


def default_urls(host: str, port: int) -> Sequence[str]:
    """The URLs by which a receiver bound to `host` is called from this machine, its own address first."""
    host = _EVERY_ADDRESS.get(host, host)
    names = [f"[{host}]" if ":" in host else host]
    if host in _ALIASES:
        names.append(_ALIASES[host])
    return [f"http://{name}:{port}{HOOK_PATH}" for name in names]


def _request_path(url: str) -> str:
    """The path by which a sender asks for `url`, percent-encoded as our sender does it."""
    try:
        path = parse_destination(url, allow_private=True).path
    except InvalidInput as error:
        raise InvalidInput("url", f"{url!r} {error.reason}") from None
    if path == "/" or "?" in path:
        raise InvalidInput("url", f"{url!r} must have a path, and no query")
    return path

"""Which URLs a receiver answers for.

A secret is derived for the exact URL that a reminder names, so the receiver must know its own. It is configured, never
read from the request's `Host`: whoever owns some other URL knows the secret of that one, and could name it there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from reminders.domain.errors import InvalidInput
from reminders.receiver.misbehaviour import SCRIPTED_PATHS

HOOK_PATH = "/hook"
_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - to name one that can be called, not to bind


@dataclass(frozen=True, slots=True)
class Place:
    """Where a request was sent: the URLs that may stand for it, and the part of its path after the hook's own."""

    destinations: tuple[str, ...]
    script: str
    query: str


class Addresses:
    """The receiver's own URLs. Raises `InvalidInput("url", ...)` for one that is not http or https, or has a query."""

    def __init__(self, urls: Iterable[str]) -> None:
        self.urls = tuple(urls)
        self._hooks = [_origin_and_path(url) for url in self.urls]

    def place(self, target: str) -> Place | None:
        """The place that the request target `target` (path and query) names; None if nothing is received there."""
        path, _, query = target.partition("?")
        found: list[str] = []
        script = ""
        for origin, hook in self._hooks:
            rest = path.removeprefix(hook)
            if path.startswith(hook) and (not rest or rest in SCRIPTED_PATHS):
                found.append(origin + target)
                script = rest
        return Place(tuple(found), script, query) if found else None


def default_urls(host: str, port: int) -> Sequence[str]:
    """The URLs by which a receiver bound to `host` is called from this machine, its own address first."""
    host = _EVERY_ADDRESS.get(host, host)
    names = [f"[{host}]" if ":" in host else host]
    if host in {"127.0.0.1", "::1"}:
        names.append("localhost")
    return [f"http://{name}:{port}{HOOK_PATH}" for name in names]


def _origin_and_path(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc or parts.path in {"", "/"} or "?" in url or "#" in url:
        raise InvalidInput("url", f"{url!r} must be http:// or https://, a host and a path, without a query")
    origin = f"{parts.scheme}://{parts.netloc}"
    return origin, url.removeprefix(origin)

"""A webhook's destination, taken apart once: what is checked when it is scheduled is what is connected to."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import SplitResult, quote, urlsplit

from reminders.domain.errors import InvalidInput, NotHere, NotPublic
from reminders.providers.public_addresses import is_public

LONGEST = 2000
_PORTS = {"http": 80, "https": 443}
# Controls, blanks, lone surrogates, and the backslash, which some parsers read as a slash.
_FORBIDDEN = re.compile("[\x00-\x20\x7f-\xa0\\\\\u2028\u2029\ud800-\udfff]|\\s")
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMERIC_LABEL = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)
_BRACKETED = re.compile(r"\[[0-9A-Fa-f:.]+\](:\d*)?", re.ASCII)
# Never names of the public Internet: RFC 6761 (localhost), RFC 6762 with its appendix G, RFC 8375 (home.arpa), and
# `internal`, which ICANN has set aside (2024) and clouds use for their metadata services.
_INSIDE = re.compile(r"(.*\.)?(localhost|localdomain|local|internal|intranet|private|corp|home|lan|home\.arpa)")
_KEPT_IN_TARGET = "/?%:@!$&'()*+,;=~-._"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a request goes. `host` is ASCII without brackets, `path` the request target with its query."""

    scheme: str
    host: str
    port: int
    path: str


@lru_cache(maxsize=4096)
def parse_destination(
    destination: str, *, allow_private: bool, allow_inside: bool = False, longest: int = LONGEST
) -> Target:
    """Take a URL apart. Raises `InvalidInput("destination", ...)` with what is wrong with it.

    Where nothing is wrong but that it is `http`, that is `NotHere`; where only its host is not public, `NotPublic`, but not
    with `allow_inside`, for a tenant who is allowed that host.

    With `allow_private` (development) `http` and addresses that are not public are accepted. A name is not looked up
    here: the address that it leads to is checked at every new connection.
    """
    if not isinstance(destination, str) or not destination:
        raise _invalid("is empty; give the receiver's https:// address")
    if len(destination) > longest:
        raise _invalid(f"has {len(destination)} characters; at most {longest} are allowed")
    if _FORBIDDEN.search(destination):
        raise _invalid("holds a space, a control character, a backslash or broken text; percent-encode it")
    try:
        parts = urlsplit(destination)
        port = parts.port
    except ValueError:
        raise _invalid("is not a URL, or its host or port is malformed; ports are 1 to 65535") from None
    _check_form(destination, parts)
    host, inside = _checked_host(parts)
    if port == 0 or parts.netloc.endswith(":"):
        raise _invalid("has no valid port; ports are 1 to 65535")
    if parts.scheme != "https" and not allow_private:
        reason = "must begin with https://; http:// is for development, with REMINDERS_ALLOW_PRIVATE=1"
        raise NotHere("destination", reason)
    if inside and not allow_private and not allow_inside:
        reason = "leads to this machine or into a private network, which is for development only, or for tenants who are allowed it"
        raise NotPublic("destination", reason, host)
    path = quote(parts.path or "/", safe=_KEPT_IN_TARGET)
    if parts.query:
        path += "?" + quote(parts.query, safe=_KEPT_IN_TARGET)
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path)


def _invalid(message: str) -> InvalidInput:
    return InvalidInput("destination", message)


def _check_form(destination: str, parts: SplitResult) -> None:
    if parts.scheme not in _PORTS or not destination[len(parts.scheme) :].startswith("://"):
        raise _invalid("must be an absolute URL that begins with https://")
    if "@" in parts.netloc:
        raise _invalid("must not hold a user name or password; requests are signed instead")
    if "#" in destination:
        raise _invalid("must not have a fragment (#...)")


def _checked_host(parts: SplitResult) -> tuple[str, bool]:
    """The host, and whether it is known not to be public without a look-up."""
    host = parts.hostname or ""
    if not host:
        raise _invalid("has no host")
    address: ipaddress.IPv4Address | ipaddress.IPv6Address | None = None
    if parts.netloc.startswith("["):
        try:
            address = ipaddress.IPv6Address(host)
        except ValueError:
            raise _invalid("holds a malformed IPv6 address") from None
        if not _BRACKETED.fullmatch(parts.netloc):
            raise _invalid("holds a malformed IPv6 address, or one with a zone (%...)")
    else:
        host = _ascii_host(host)
        labels = host.removesuffix(".").split(".")
        if len(host) > 253 or not all(_LABEL.fullmatch(label) for label in labels):
            raise _invalid("holds a malformed host name")
        if _NUMERIC_LABEL.fullmatch(labels[-1]):
            # Resolvers read 2130706433, 0x7f.1 and 0177.0.0.1 as addresses; here there is one spelling.
            try:
                address = ipaddress.IPv4Address(host)
            except ValueError:
                raise _invalid("holds an IPv4 address that is not four decimal numbers") from None
    if address is not None:
        return host, not is_public(address)
    # A name of one label is completed by the resolver with the domains of our own network.
    name = host.removesuffix(".")
    return host, "." not in name or _INSIDE.fullmatch(name) is not None


def _ascii_host(host: str) -> str:
    if host.isascii():
        return host
    import idna  # noqa: PLC0415 (its tables take 20 ms to load and few hosts need them)

    try:
        return idna.encode(host, strict=True, std3_rules=True).decode("ascii")
    except idna.IDNAError:
        raise _invalid("holds a host name that is not a valid international domain name") from None

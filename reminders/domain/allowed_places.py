"""Places that a tenant may reach although they are not public: single hosts, and networks.

What a rule opens is no more than its words say. A name opens the addresses of a private network that it leads to, a
network its own. Neither opens this machine, link-local addresses or the metadata services of clouds: those take a rule
that names the one address. Nothing opens multicast, reserved addresses, or IPv6 addresses that hold an IPv4 one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from reminders.domain.errors import InvalidInput

Network = IPv4Network | IPv6Network
_WIDEST = {4: 8, 6: 7}
"""The shortest prefix that a rule may have: 10.0.0.0/8 and fc00::/7 are the widest private networks there are."""
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)", re.ASCII)
_NUMERIC_LABEL = re.compile(r"\d+|0x[0-9a-f]*", re.ASCII)
_LONGEST_NAME = 253


def _networks(*texts: str) -> tuple[Network, ...]:
    return tuple(ip_network(text) for text in texts)


_ONE_BY_ONE = _networks(
    "127.0.0.0/8",
    "169.254.0.0/16",  # link-local, with most clouds' metadata service
    "168.63.129.16/32",  # Azure's platform service
    "100.100.100.200/32",  # Alibaba's metadata service
    "192.0.0.192/32",  # Oracle's
    "::1/128",
    "fe80::/10",
    "fd00:ec2::/32",  # Amazon's
    "fd20:ce::/32",  # Google's
)
_NEVER = _networks(
    "0.0.0.0/8",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/96",  # unspecified and IPv4-compatible; ::1 is above
    "::ffff:0:0/96",
    "::ffff:0:0:0/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "2001::/32",
    "2002::/16",
    "ff00::/8",
)


@dataclass(frozen=True, slots=True)
class AllowedPlaces:
    """What one tenant is allowed."""

    names: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def opens(self, host: str) -> bool:
        """Whether a destination may name `host` (ASCII, without brackets), be it a name or an address."""
        try:
            ip_address(host)
        except ValueError:
            return _name(host) in self.names
        return self.permits(host, host)

    def permits(self, host: str, address: str) -> bool:
        """Whether `address`, which is not public and to which `host` has led, may be connected to."""
        found = ip_address(address)
        if getattr(found, "scope_id", None) is not None:
            return False
        if _within(found, _ONE_BY_ONE):
            return ip_network(found) in self.networks
        if _within(found, _NEVER):
            return False
        return _name(host) in self.names or _within(found, self.networks)


NOTHING = AllowedPlaces()


def nothing_allowed(_tenant_id: str) -> AllowedPlaces:
    """What tenants are allowed where nobody keeps rules."""
    return NOTHING


def from_rules(places: list[str]) -> AllowedPlaces:
    """What the rules allow together; each is as `read_place` returned it."""
    networks = tuple(ip_network(place) for place in places if "/" in place)
    return AllowedPlaces(frozenset(place for place in places if "/" not in place), networks)


def read_place(text: str) -> str:
    """A rule in the one form it is kept in: a network with its prefix, or a host name. Raises `InvalidInput`.

    An address is the network of that address alone.
    """
    given = text.strip().lower()
    if "/" in given or ":" in given or _NUMERIC_LABEL.fullmatch(given.removesuffix(".").rpartition(".")[2]):
        return _read_network(given)
    name = _name(given)
    if len(name) > _LONGEST_NAME or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise InvalidInput(
            "place", f"{text[:80]!r} is neither a network nor a host name; international names are written xn--..."
        )
    return name


def _read_network(text: str) -> str:
    try:
        network = ip_network(text)
    except ValueError as error:
        raise InvalidInput("place", f"{text[:80]!r} is no network: {error}") from None
    if "%" in text:
        raise InvalidInput("place", f"{text[:80]!r} names an interface; only the address can be allowed")
    if network.prefixlen < _WIDEST[network.version]:
        raise InvalidInput("place", f"{network} is too wide; at most a /{_WIDEST[network.version]} can be allowed")
    alone = network.num_addresses == 1
    if _inside(network, _ONE_BY_ONE):
        if not alone:
            raise InvalidInput(
                "place",
                f"{network} is this machine, link-local or a metadata service; name the one address that is meant",
            )
    elif _inside(network, _NEVER):
        raise InvalidInput("place", f"{network} is multicast, reserved or holds IPv4 addresses; it cannot be allowed")
    return str(network)


def _name(host: str) -> str:
    return host.lower().removesuffix(".")


def _within(address: IPv4Address | IPv6Address, networks: tuple[Network, ...]) -> bool:
    return any(address in network for network in networks)


def _inside(network: Network, others: tuple[Network, ...]) -> bool:
    return any(network.version == other.version and network.subnet_of(other) for other in others)  # type: ignore[arg-type]

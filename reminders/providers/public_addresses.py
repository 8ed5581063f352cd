"""Which addresses are public: the others lead into our own network, or to nobody.

`ipaddress.is_global` alone is not enough: it is true for 6to4, NAT64, IPv4-compatible and multicast addresses, which
lead inside. The lists follow IANA's special-purpose registries
(https://www.iana.org/assignments/iana-ipv4-special-registry and .../iana-ipv6-special-registry).
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

_NOT_PUBLIC_V4 = tuple(
    ip_network(net)
    for net in (
        "0.0.0.0/8",  # "this network"; 0.0.0.0 is this machine on Linux
        "10.0.0.0/8",
        "100.64.0.0/10",  # shared by carriers; one cloud's metadata service lives in it
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's platform service, reachable from every machine there
        "169.254.0.0/16",  # link-local, with most clouds' metadata service
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, broadcast
    )
)
# Everything else in IPv6 is loopback, unspecified, IPv4-mapped (::ffff:0:0/96), IPv4-compatible (::/96), NAT64
# (64:ff9b::/96, 64:ff9b:1::/48), unique local (fc00::/7), link-local, site-local, multicast, or not assigned.
_UNICAST_V6 = ip_network("2000::/3")
_NOT_PUBLIC_V6 = tuple(
    ip_network(net)
    for net in (
        "2001::/23",  # protocol assignments, with Teredo and ORCHID
        "2001:db8::/32",
        "2002::/16",  # 6to4: holds any IPv4 address
        "3fff::/20",
    )
)


@lru_cache(maxsize=4096)
def is_public(address: str | IPv4Address | IPv6Address) -> bool:
    """Whether `address` is a public unicast address. Raises `ValueError` for text that is no address."""
    address = ip_address(address)
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return not any(address in net for net in _NOT_PUBLIC_V4)
    return address in _UNICAST_V6 and not any(address in net for net in _NOT_PUBLIC_V6)

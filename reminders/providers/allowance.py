"""What one tenant may reach besides public addresses, for one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from reminders.domain.allowed_places import AllowedPlaces


@dataclass(frozen=True, slots=True)
class Allowance:
    """`allowed_to` is asked only where the guard would refuse. It may raise `ServiceUnavailable`."""

    tenant_id: str
    allowed_to: Callable[[str], AllowedPlaces]

    def opens(self, host: str) -> bool:
        """Whether a destination may name the host."""
        return self.allowed_to(self.tenant_id).opens(host)

    def permits(self, host: str, addresses: tuple[str, ...]) -> bool:
        """Whether all of the addresses, none of them public, to which the host leads may be connected to."""
        allowed = self.allowed_to(self.tenant_id)
        return all(allowed.permits(host, address) for address in addresses)

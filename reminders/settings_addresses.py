"""Whether the addresses of Postgres and Redis can be any."""

from __future__ import annotations

import re

from reminders.domain.errors import SettingsError
from reminders.settings import Settings


def check_addresses(settings: Settings) -> None:
    """Raise `SettingsError` for an address that can be none of a Postgres or a Redis. Neither is asked.

    For what connects by itself: an application may keep its own addresses under the same names and lend us connections.
    """
    faults = []
    for name, secret, check in (
        ("DATABASE_URL", settings.database_url, _postgres_fault),
        ("REDIS_URL", settings.redis_url, _redis_fault),
    ):
        fault = secret and check(secret.reveal())
        if fault:
            faults.append(f"{name}: {fault}")
    if faults:
        raise SettingsError("\n".join(faults))


_ADDRESS = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?:[^/?]*?(?::[^@]*)?@)?(?:\[[^\]]*\]|[^:/?#]*)(?::(?P<port>[^/?#]*))?(?:/(?P<path>[^?#]*))?",
    re.IGNORECASE,
)
"""An authority's user and password may hold what URLs would escape: drivers take them so."""


def _postgres_fault(text: str) -> str | None:
    fault = _address_fault(text, r"postgres(ql)?(\+psycopg2)?", "Postgres")
    return fault and f"{fault}\nWrite postgresql://user:password@host:5432/name"


def _redis_fault(text: str) -> str | None:
    fault = _address_fault(text, r"rediss?|unix|redis\+socket", "Redis")
    found = _ADDRESS.match(text)
    if fault is None and found and found["scheme"].lower().startswith("redis") and "+" not in found["scheme"]:
        number = found["path"] or "0"
        if not re.fullmatch(r"\d{1,5}", number, re.ASCII):
            fault = f"has {number[:20]!r} for a database, which must be a number"
    return fault and f"{fault}\nWrite redis://user:password@host:6379/0, or rediss:// for TLS"


def _address_fault(text: str, schemes: str, what: str) -> str | None:
    found = _ADDRESS.match(text)
    if found is None:
        return "is no URL"
    if not re.fullmatch(schemes, found["scheme"], re.IGNORECASE):
        return f"begins with {found['scheme'][:20]!r}, which is no {what}"
    port = found["port"]
    # Several hosts with a port each are left to the driver.
    if port and "," not in port and not (re.fullmatch(r"\d{1,5}", port, re.ASCII) and 0 < int(port) < 65536):
        return f"has {port[:20]!r} for a port, which must be a number from 1 to 65535"
    return None

"""Keys: what makes two requests the same reminder, and what a receiver deduplicates on.

All are SHA-256 over length-delimited parts, so that no choice of texts can make two different things collide,
and none of them carries readable personal data.
"""

from __future__ import annotations

import os
import time
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from uuid import UUID

ERASED_HASH = bytes(32)
"""Stands in place of a hash of what was erased: whatever is asked for then counts as the same."""
NOWHERE = UUID("00000000-0000-8000-8000-000000000000")
"""Stands in place of the id of a destination that was erased."""
_ABSENT = b"\xff\xff\xff\xff"
_UUID7_VERSION = 0x7 << 76
_UUID8_VERSION = 0x8 << 76
_UUID_VARIANT = 0x2 << 62
_RANDOM = (1 << 62) - 1
_UUID_FREE = ~((0xF << 76) | (0x3 << 62))


def digest(*parts: str | None) -> bytes:
    """SHA-256 over the parts, each preceded by its length; `None` differs from the empty text."""
    hashed = sha256()
    for part in parts:
        if part is None:
            hashed.update(_ABSENT)
        else:
            raw = part.encode()
            hashed.update(len(raw).to_bytes(4, "big") + raw)
    return hashed.digest()


def identity_key(
    *,
    tenant_id: str,
    user_id: str,
    reference: str | None,
    kind: str,
    channel: str,
    slot: str,
    due_at: datetime,
    recurrence_id: str = "",
) -> bytes:
    """Which reminder this is, never its version. Without a reference the UTC instant takes its place."""
    instant = None if reference is not None else due_at.astimezone(UTC).isoformat()
    return digest("identity", tenant_id, user_id, reference, instant, kind, channel, slot, recurrence_id)


def request_hash(
    *,
    destination: str,
    due_at: datetime,
    zone: str | None,
    data: str,
    expires_at: datetime | None,
) -> bytes:
    """What was asked for, beyond the identity: a replay with the same hash is the same request."""
    expiry = None if expires_at is None else expires_at.astimezone(UTC).isoformat()
    return digest("request", destination, due_at.astimezone(UTC).isoformat(), zone, data, expiry)


def delivery_key(identity: bytes, version: int) -> str:
    """The key that every attempt at one version carries: 46 characters, safe in headers and URLs."""
    raw = sha256(b"delivery" + identity + version.to_bytes(8, "big")).digest()
    return "dk_" + urlsafe_b64encode(raw).rstrip(b"=").decode()


@lru_cache(maxsize=4096)
def destination_id(tenant_id: str, channel: str, address: str) -> UUID:
    """The id of a destination, derived from what it is (RFC 9562 version 8), so that no look-up is needed."""
    return derived_id("destination", tenant_id, channel, address)


def derived_id(*parts: str) -> UUID:
    """An id that follows from what the thing is (RFC 9562 version 8)."""
    raw = int.from_bytes(digest(*parts)[:16], "big")
    return UUID(int=raw & _UUID_FREE | _UUID8_VERSION | _UUID_VARIANT)


def uuid7() -> UUID:
    """A time-ordered random id (RFC 9562 section 5.7), in the order of making within a millisecond too (section 6.2, method 3)."""
    milliseconds, nanoseconds = divmod(time.time_ns(), 1_000_000)
    fraction = nanoseconds * 4096 // 1_000_000
    random = int.from_bytes(os.urandom(8), "big") & _RANDOM
    return UUID(int=milliseconds << 80 | _UUID7_VERSION | fraction << 64 | _UUID_VARIANT | random)

"""A reminder as it was asked for: checked, normalised, with its keys.

Everything that text from outside can get wrong is refused here, with the field named, before anything is written.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from json.encoder import encode_basestring as quoted
from math import isfinite
from typing import Any
from uuid import UUID

from reminders.domain.errors import InvalidInput
from reminders.domain.identity import delivery_key, destination_id, identity_key, request_hash, uuid7

LIMITS = {
    "tenant_id": 128,
    "user_id": 256,
    "kind": 64,
    "channel": 32,
    "destination": 2000,
    "reference": 512,
    "slot": 64,
    "zone": 64,
}
"""The longest text, in characters, that each field takes."""
MAX_DATA_BYTES = 8192
COUNTED_DATA_BYTES = 65_536
"""Up to which a refusal says how many there are: the schema's functions do not count further."""
MAX_DATA_DEPTH = 16
FIRST_YEAR, LAST_YEAR = 1970, 9998
_LARGEST_INTEGER = 2**63
_LARGEST_FLOAT = sys.float_info.max
_FLOAT_DIGITS = 17


@dataclass(frozen=True, slots=True)
class ReminderRequest:
    """One reminder to schedule. All instants are UTC; `data` is canonical JSON text."""

    id: UUID
    tenant_id: str
    user_id: str
    kind: str
    channel: str
    destination: str = field(repr=False)
    destination_id: UUID
    reference: str | None
    slot: str
    data: str = field(repr=False)
    due_at: datetime
    zone: str | None
    expires_at: datetime | None
    identity_key: bytes
    request_hash: bytes
    delivery_key: str
    series_id: UUID | None = None
    """Of an occurrence: its series, and which of its turns it is."""
    recurrence_id: str | None = None


def new_request(
    *,
    tenant_id: str,
    user_id: str,
    kind: str,
    channel: str,
    destination: str,
    due_at: datetime,
    zone: str | None,
    reference: str | None,
    slot: str | None,
    data: Mapping[str, Any] | None,
    expires_at: datetime | None,
) -> ReminderRequest:
    """Check every field and derive the keys. `due_at` and `expires_at` must be aware. Raises `InvalidInput`."""
    tenant_id = checked_text("tenant_id", tenant_id)
    user_id = checked_text("user_id", user_id)
    kind = checked_text("kind", kind)
    destination = checked_text("destination", destination)
    reference = None if reference is None else checked_text("reference", reference)
    slot = "" if slot is None or slot == "" else checked_text("slot", slot)
    due_at = checked_instant("due_at", due_at)
    if expires_at is not None:
        expires_at = checked_instant("expires_at", expires_at)
        if expires_at <= due_at:
            raise InvalidInput("expires_at", "must be later than due_at")
    canonical = canonical_data(data)
    identity = identity_key(
        tenant_id=tenant_id,
        user_id=user_id,
        reference=reference,
        kind=kind,
        channel=channel,
        slot=slot,
        due_at=due_at,
    )
    return ReminderRequest(
        id=uuid7(),
        tenant_id=tenant_id,
        user_id=user_id,
        kind=kind,
        channel=channel,
        destination=destination,
        destination_id=destination_id(tenant_id, channel, destination),
        reference=reference,
        slot=slot,
        data=canonical,
        due_at=due_at,
        zone=zone,
        expires_at=expires_at,
        identity_key=identity,
        request_hash=request_hash(
            destination=destination, due_at=due_at, zone=zone, data=canonical, expires_at=expires_at
        ),
        delivery_key=delivery_key(identity, 1),
    )


def checked_text(name: str, value: object) -> str:
    """`value` if it is a non-empty text within the field's limit and without control characters."""
    if not isinstance(value, str):
        raise InvalidInput(name, f"must be text, not {type(value).__name__}")
    limit = LIMITS[name]
    if not value or len(value) > limit:
        raise InvalidInput(
            name, "is empty" if not value else f"has {len(value):,} characters; at most {limit:,} are allowed"
        )
    if not value.isprintable():
        _refuse_unstorable(name, value)
    return value


def _refuse_unstorable(name: str, value: str) -> None:
    for position, character in enumerate(value):
        code = ord(character)
        if code < 0x20 or 0x7F <= code <= 0x9F or 0xD800 <= code <= 0xDFFF:
            what = "a lone surrogate" if code > 0x9F else "a control character"
            raise InvalidInput(name, f"contains {what} (U+{code:04X}) at position {position}")


def checked_flag(name: str, value: object) -> bool:
    """`value` if it is True or False. Nothing that merely counts as either: `"no"` would count as yes."""
    if not isinstance(value, bool):
        raise InvalidInput(name, f"must be True or False, not {type(value).__name__}")
    return value


def checked_instant(name: str, value: object) -> datetime:
    """`value` in UTC if it is an aware datetime within the years both Postgres and Python hold."""
    if not isinstance(value, datetime):
        raise InvalidInput(name, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise InvalidInput(name, "has no UTC offset; give an aware datetime, or zone as well")
    try:
        instant = value.astimezone(UTC)
    except OverflowError:
        instant = None
    if instant is None or not FIRST_YEAR <= instant.year <= LAST_YEAR:
        year = value.year if instant is None else instant.year
        raise InvalidInput(name, f"is in the year {year}; years {FIRST_YEAR} to {LAST_YEAR} (UTC) are allowed")
    return instant


def canonical_data(data: Mapping[str, Any] | None) -> str:
    """`data` as canonical JSON: keys sorted by code point, no spaces, numbers as Postgres writes them without exponent.

    The schema's function of the same name gives the same text. Only what JSON and Postgres both keep unchanged is taken.
    """
    if data is None:
        return "{}"
    if not isinstance(data, dict | Mapping):
        raise InvalidInput("data", f"must be a JSON object, not {type(data).__name__}")
    text = _canonical(data, "data", 1)
    size = len(text.encode())
    if size > MAX_DATA_BYTES:
        said = f"more than {COUNTED_DATA_BYTES:,}" if size > COUNTED_DATA_BYTES else f"{size:,}"
        raise InvalidInput("data", f"has {said} bytes as JSON; at most {MAX_DATA_BYTES:,} are allowed")
    return text


def _canonical(value: object, path: str, depth: int) -> str:
    if depth > MAX_DATA_DEPTH:
        raise InvalidInput("data", f"is nested deeper than {MAX_DATA_DEPTH} levels")
    if isinstance(value, str):
        return _canonical_text(value, path)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return _canonical_integer(value, path)
    if isinstance(value, float):
        return _canonical_float(value, path)
    if isinstance(value, dict | Mapping):
        parts = []
        for key in sorted(value) if all(isinstance(key, str) for key in value) else value:
            if not isinstance(key, str):
                raise InvalidInput("data", f"{path} has a key that is not text but {type(key).__name__}")
            item = value[key]
            if type(item) is str and depth < MAX_DATA_DEPTH and item.isprintable():
                written = quoted(item)  # nearly every value; spares building its path
            else:
                written = _canonical(item, f"{path}.{key[:40]}", depth + 1)
            parts.append(f"{_canonical_text(key, path)}:{written}")
        return f"{{{','.join(parts)}}}"
    if isinstance(value, list | tuple):
        return f"[{','.join([_canonical(item, f'{path}[{index}]', depth + 1) for index, item in enumerate(value)])}]"
    raise InvalidInput("data", f"{path} is a {type(value).__name__}, which JSON cannot hold")


def _canonical_integer(value: int, path: str) -> str:
    # Beyond 64 bits it must have no more digits than a float tells apart: SQL does not know the one from the other.
    if not -_LARGEST_INTEGER <= value < _LARGEST_INTEGER and (
        abs(value) > _LARGEST_FLOAT or len(str(abs(value)).rstrip("0")) > _FLOAT_DIGITS
    ):
        raise InvalidInput(
            "data", f"{path} is a number that neither a 64-bit integer nor a 64-bit float holds; give it as text"
        )
    return int.__repr__(value)


def _canonical_float(value: float, path: str) -> str:
    if not isfinite(value):
        raise InvalidInput("data", f"{path} is {value}, which JSON cannot hold")
    plain = format(Decimal(float.__repr__(value)), "f").removesuffix(".0")
    return "0" if plain == "-0" else plain


def _canonical_text(value: str, path: str) -> str:
    if not value.isprintable():
        _refuse_unstorable_json(path, value)
    return quoted(value)


def _refuse_unstorable_json(path: str, value: str) -> None:
    for character in value:
        code = ord(character)
        if code == 0 or 0xD800 <= code <= 0xDFFF:
            raise InvalidInput("data", f"{path} contains U+{code:04X}, which Postgres cannot store")

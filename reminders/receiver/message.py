"""What a delivery says: the fields of the body that this receiver uses, checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from reminders.domain.errors import RemindersError

BODY_VERSION = 1


class Malformed(RemindersError):
    """The body is not what the contract says, although it may well be signed."""


@dataclass(frozen=True, slots=True)
class Message:
    """One delivery. `due_at` is the text that was sent: an instant in UTC, ISO 8601."""

    key: str
    tenant_id: str
    user_id: str
    kind: str
    reference: str | None
    due_at: str


def read_claims(body: bytes) -> Mapping[str, Any]:
    """What the body claims, before anything is verified; empty if it is no JSON object."""
    try:
        claims = json.loads(body.decode())
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def claimed_tenant(claims: Mapping[str, Any]) -> str | None:
    """The tenant that the body names, if it names one."""
    tenant_id = claims.get("tenant_id")
    return tenant_id if isinstance(tenant_id, str) and _is_text(tenant_id) else None


def message_of(claims: Mapping[str, Any], message_id: str) -> Message:
    """The message, once its signature is known to be good. `message_id` is the signed header. Raises `Malformed`."""
    if claims.get("v") != BODY_VERSION:
        raise Malformed(f"the body is not a JSON object with v = {BODY_VERSION}")
    if claims.get("key") != message_id:
        raise Malformed("key in the body and webhook-id differ")
    return Message(
        key=_text(claims, "key"),
        tenant_id=_text(claims, "tenant_id"),
        user_id=_text(claims, "user_id"),
        kind=_text(claims, "kind"),
        reference=None if claims.get("reference") is None else _text(claims, "reference"),
        due_at=_text(claims, "due_at"),
    )


def _text(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value or not _is_text(value):
        raise Malformed(f"{name} is missing or not text")
    return value


def _is_text(value: str) -> bool:
    # JSON can spell lone surrogates, which neither a hash nor a database takes.
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)

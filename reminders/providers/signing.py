"""Standard Webhooks signatures (https://www.standardwebhooks.com), version `v1`: made here, and checked here.

What is signed is `{id}.{timestamp}.{body}`, the body being the very bytes of the request. A signature header may carry
several signatures, separated by a space, so that a secret can be exchanged without a gap.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping, Sequence

from reminders.domain.errors import InvalidInput, RemindersError

SECRET_PREFIX = "whsec_"  # noqa: S105 (the public mark of the format, not a secret)
TOLERANCE = 300.0
"""Seconds a timestamp may lie in the past or the future: what Standard Webhooks' own libraries use."""
_LABEL = b"reminders webhook signing secret v1"
_MOST_SIGNATURES = 16
_TIMESTAMP = re.compile(r"\d{1,12}", re.ASCII)


class BadSignature(RemindersError):
    """The request is not, or not provably, ours: do nothing with its body."""


def derive_secret(master: bytes, tenant_id: str, channel: str, destination: str) -> bytes:
    """The 32-byte secret of one destination, so that no receiver can forge what another one is sent.

    HMAC-SHA256 under the master over length-delimited parts: no two different triples give the same input.
    """
    parts = (tenant_id.encode(), channel.encode(), destination.encode())
    message = _LABEL + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.digest(master, message, hashlib.sha256)


def format_secret(secret: bytes) -> str:
    """The secret as Standard Webhooks libraries take it: `whsec_` and base64."""
    return SECRET_PREFIX + base64.b64encode(secret).decode("ascii")


def parse_secret(text: str) -> bytes:
    """The bytes behind `whsec_...`. Raises `InvalidInput`, whose text does not repeat the secret."""
    try:
        secret = base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if not text.startswith(SECRET_PREFIX) or not secret:
        raise InvalidInput("secret", f"is not of the form {SECRET_PREFIX} followed by base64")
    return secret


def sign(secrets: Sequence[bytes], message_id: str, timestamp: int, body: bytes) -> str:
    """The value of `webhook-signature`, one signature per secret."""
    message = b"%s.%d.%s" % (message_id.encode(), timestamp, body)
    return " ".join("v1," + base64.b64encode(hmac.digest(secret, message, "sha256")).decode() for secret in secrets)


def verify(
    secrets: Iterable[bytes],
    headers: Mapping[str, str],
    body: bytes,
    now: float,
    tolerance: float = TOLERANCE,
) -> None:
    """Return if the request was signed with one of `secrets` about `now`; otherwise raise `BadSignature`.

    `body` must be the raw bytes as received, before any parsing. `now` is Unix time in seconds. Signatures are
    compared in constant time, every one with every secret.
    """
    values = {name.lower(): value for name, value in headers.items()}
    message_id, stamp, given = (values.get("webhook-" + part, "") for part in ("id", "timestamp", "signature"))
    if not (message_id and stamp and given):
        raise BadSignature("webhook-id, webhook-timestamp or webhook-signature is missing")
    if not _TIMESTAMP.fullmatch(stamp):
        raise BadSignature("webhook-timestamp is not a Unix time in whole seconds")
    if abs(now - int(stamp)) > tolerance:
        raise BadSignature(f"webhook-timestamp is more than {tolerance:g} s away from this clock")
    try:
        expected = sign(list(secrets), message_id, int(stamp), body).encode().split()
        candidates = given.encode().split()[:_MOST_SIGNATURES]
    except UnicodeEncodeError:
        raise BadSignature("the webhook headers are not valid text") from None
    matches = [hmac.compare_digest(one, other) for one in expected for other in candidates]
    if not any(matches):
        raise BadSignature("no signature matches: another secret, or the body was changed on its way")

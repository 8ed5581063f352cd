"""Standard Webhooks signatures (https://www.standardwebhooks.com), version `v1`: how they are made.

How they are checked is the receiver's: `reminders.receiver.kit`.

What is signed is `{id}.{timestamp}.{body}`, the body being the very bytes of the request. A signature header may carry
several signatures, separated by a space, so that a secret can be exchanged without a gap.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence

from reminders.domain.errors import InvalidInput

SECRET_PREFIX = "whsec_"  # noqa: S105 (the public mark of the format, not a secret)
_LABEL = b"reminders webhook signing secret v1"


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

"""Tokens of one-click unsubscription (RFC 8058): who is to be left alone, sealed into a link.

A link outlives the reminder that it was sent with, so the token holds all that is needed, encrypted and authenticated
(AES-SIV, RFC 5297): whoever sees the link learns nothing, and nobody makes one for somebody else. The same recipient
always gets the same token.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import logging
from dataclasses import dataclass

from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput

logger = logging.getLogger(__name__)

LONGEST_LINK = 970
"""Characters that stay within a header line's 998 (RFC 5322 section 2.1.1)."""
_LABEL = b"reminders unsubscribe token v1"
_VERSION = b"\x01"


@dataclass(frozen=True, slots=True)
class Unsubscription:
    """Whom a token names: this user of this tenant asks for no more reminders of this kind over this channel."""

    tenant_id: str
    user_id: str
    kind: str
    channel: str


def make_token(master: bytes, who: Unsubscription) -> str:
    """The token, safe in URLs, under a key derived from `master`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 (where tokens are used at all)

    text = json.dumps([who.tenant_id, who.user_id, who.kind, who.channel], ensure_ascii=False, separators=(",", ":"))
    sealed = _VERSION + AESSIV(_key(master)).encrypt(text.encode(), [_VERSION])
    return _spell(sealed)


def read_token(master: bytes, token: str) -> Unsubscription:
    """Whom `token` names. Raises `InvalidInput("token", ...)` for one that was not made under `master`."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 (the same)
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415 (the same)

    try:
        sealed = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        if sealed[:1] != _VERSION or _spell(sealed) != token:
            raise ValueError
        parts = json.loads(AESSIV(_key(master)).decrypt(sealed[1:], [_VERSION]))
    except (binascii.Error, ValueError, TypeError, InvalidTag):
        raise InvalidInput("token", "is none of ours, or was made under another secret") from None
    return Unsubscription(*parts)


def link_for(url: str, master: bytes, delivery: Delivery) -> str | None:
    """The link of one delivery below the application's `url`; None, with a warning, if names make it too long."""
    who = Unsubscription(delivery.tenant_id, delivery.user_id, delivery.kind, delivery.channel)
    link = f"{url}{'&' if '?' in url else '?'}token={make_token(master, who)}"
    if len(link) > LONGEST_LINK:
        logger.warning("email.no_unsubscribe_link key=%s: tenant, user and kind are too long", delivery.delivery_key)
        return None
    return link


def _key(master: bytes) -> bytes:
    return hmac.digest(master, _LABEL, "sha512")


def _spell(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode("ascii")

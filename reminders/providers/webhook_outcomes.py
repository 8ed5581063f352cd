"""What a receiver's HTTP answer means for a delivery. One pure function; the documented table follows it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime

from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown
from reminders.providers.redaction import redact
from reminders.providers.retry_after import parse_retry_after

_RETRIED = frozenset({408, 425, 429})
_ASKS_FOR_A_PAUSE = frozenset({429, 503})
_NOT_APPLIED = frozenset({501, 503, 505})
"""Server errors that say the request was not taken up (RFC 9110 sections 15.6.2, 15.6.4 and 15.6.6)."""
_GONE, _CONFLICT = 410, 409
_LARGEST_JSON = 16 * 1024
# What an identifier looks like, and what a telephone number written with + or an e-mail address does not.
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,199}", re.ASCII)


def outcome_of(status: int, headers: Mapping[str, str], body_excerpt: bytes, *, now: datetime) -> Outcome:
    """Map a final answer to an outcome.

    A 2xx is a success whatever its body is: broken, cut off, too large or binary. 408, 425, 429, 501, 503 and 505 say
    that the request was not applied; any other 5xx may hide an effect, be it a gateway's or a receiver's that failed
    halfway, and tells nothing. 3xx is refused, because a redirected POST would reach an address that nobody checked. 429 and 503 with a `Retry-After` ask for a
    pause, which is kept for the whole destination. 410 says that the destination is no more. Any other 4xx is a decision
    of the receiver; so is 409, which the contract reserves for a real conflict, unless the first attempt may still be
    under way. What is no final status (1xx, 600 and above) tells nothing. `now` dates a `Retry-After` that is a date.
    """
    error_class = f"http_{status}"
    if 200 <= status <= 299:
        return Delivered(_reference(headers, body_excerpt), status)
    if status in _RETRIED or 500 <= status <= 599:
        reason = _reason(status, headers, body_excerpt)
        asked = _header(headers, "retry-after") if status in _ASKS_FOR_A_PAUSE else None
        after = parse_retry_after(asked, now) if asked else None
        if after is not None:
            return Blocked("destination", after, error_class, reason, status)
        if status >= 500 and status not in _NOT_APPLIED:
            return Unknown(error_class, reason, status)
        return Retry(error_class, reason, status)
    if 300 <= status <= 399:
        reason = f"HTTP {status}: redirects are not followed; make the final address the destination"
        return Rejected(error_class, reason, status)
    if 400 <= status <= 499:
        reason = _reason(status, headers, body_excerpt)
        return Rejected(error_class, reason, status, gone=status == _GONE, may_be_our_own=status == _CONFLICT)
    return Unknown(error_class, f"HTTP {status} is not a final answer", status)


def _header(headers: Mapping[str, str], name: str) -> str | None:
    return next((value for key, value in headers.items() if key.lower() == name), None)


def _reason(status: int, headers: Mapping[str, str], body: bytes) -> str:
    encoded = (_header(headers, "content-encoding") or "identity").strip().lower() != "identity"
    if encoded or b"\0" in body:
        return f"HTTP {status} (an answer of {len(body)} bytes that is not plain text)"
    return redact(f"HTTP {status}: ".encode() + body).rstrip(": ")


def _reference(headers: Mapping[str, str], body: bytes) -> str | None:
    """The receiver's own name for what it took: header `webhook-reference`, else `reference` or `id` of a small object."""
    if (given := _header(headers, "webhook-reference")) is not None:
        return _as_reference(given.strip())
    if not body.startswith(b"{") or len(body) > _LARGEST_JSON:
        return None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return next(filter(None, (_as_reference(answer.get(name)) for name in ("reference", "id"))), None)


def _as_reference(value: object) -> str | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        value = str(value)
    return value if isinstance(value, str) and _REFERENCE.fullmatch(value) else None

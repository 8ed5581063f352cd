"""`Retry-After` (RFC 9110, section 10.2.3) as a wait, whatever the far side wrote there."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

SHORTEST = timedelta(seconds=1)
LONGEST = timedelta(hours=24)
_SECONDS = re.compile(r"\d+", re.ASCII)
_LONGEST_DATE = 64


def parse_retry_after(value: str, now: datetime) -> timedelta | None:
    """The wait asked for, between one second and 24 hours; None where the value is neither seconds nor a date.

    A date without a zone is UTC, as every HTTP date is; one in the past is one second. Never raises.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        # Seven digits are more than 24 hours; thousands of them would be refused by int().
        digits = value.lstrip("0")
        wait = timedelta(seconds=int(digits or "0")) if len(digits) < 7 else LONGEST
    elif len(value) <= _LONGEST_DATE and ":" in value:
        try:
            moment = parsedate_to_datetime(value)
            wait = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    else:
        return None
    return min(max(wait, SHORTEST), LONGEST)

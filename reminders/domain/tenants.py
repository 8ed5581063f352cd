"""What a tenant's mode and its dispatcher may be, and how people write them."""

from __future__ import annotations

import re
from typing import Literal, get_args

Mode = Literal["off", "shadow", "live"]
"""`off`: nothing is claimed, and what comes due is held. `shadow`: all is decided, nothing is sent. `live`: it is sent."""

MODES: tuple[Mode, ...] = get_args(Mode)
MAIN = "main"
"""The dispatcher of an installation that does not name its own."""
Decision = Literal["send", "expired", "suppressed", "refused", "fault", "undeliverable"]
"""What the shadow ledger says of a reminder: it would have been sent; or it had expired, consent or policy said no, the channel
does not deliver there, its message cannot be written, or its destination is disabled or has not been there for too long."""


def read_mode(text: str) -> Mode:
    """A mode as it is written. Raises `ValueError`."""
    for mode in MODES:
        if text == mode:
            return mode
    raise ValueError(f"{text[:40]!r} is none of {', '.join(MODES)}")


def read_dispatcher(text: str) -> str:
    """The name of a dispatcher. Raises `ValueError`."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,62}", text, re.ASCII):
        raise ValueError(
            f"{text[:64]!r} is no name of a dispatcher; use lower-case letters, digits, . _ and -, at most 63"
        )
    return text


def read_cohort(text: str) -> str:
    """The name of a cohort. Raises `ValueError`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", text, re.ASCII):
        raise ValueError(f"{text[:64]!r} is no name of a cohort; use letters, digits, . _ and -, at most 63")
    return text

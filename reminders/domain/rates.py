"""Rates as people write them: `10/s`, `300/m`, `50/h`."""

from __future__ import annotations

import re

_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_RATE = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*/\s*([smh])", re.ASCII)


def parse_rate(text: str) -> float:
    """How many per second `text` means. Raises `ValueError` with what is accepted."""
    match = _RATE.fullmatch(text.strip())
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text[:40]!r} is no rate; write 10/s, 300/m or 50/h")
    return float(match[1]) / _SECONDS[match[2]]

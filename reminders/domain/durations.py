"""Durations as people write them in the environment: `90s`, `5m`, `2h`, `7d` or plain seconds."""

from __future__ import annotations

import re

MOST_DELAYS = 1000
"""Delays that one list may have."""
_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|[smhd]?)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds meant by `text`. Raises `ValueError` with what is accepted."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text[:40]!r} is no duration; write 90s, 5m, 2h, 7d or plain seconds")
    return float(match[1]) * _UNITS[match[2]]


def parse_delays(text: str) -> tuple[float, ...]:
    """Seconds meant by several durations, with commas or blanks between. Raises `ValueError` with what is accepted."""
    parts = [part for part in re.split(r"[,\s]+", text.strip()) if part]
    if not parts:
        raise ValueError("is empty; write for example 5s,30s,5m")
    if len(parts) > MOST_DELAYS:
        raise ValueError(f"has {len(parts)} delays; at most {MOST_DELAYS} are allowed")
    return tuple(parse_duration(part) for part in parts)

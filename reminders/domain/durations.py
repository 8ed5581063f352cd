"""Durations as people write them in the environment: `90s`, `5m`, `2h`, `7d` or plain seconds."""

from __future__ import annotations

import re

_UNITS = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|[smhd]?)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds meant by `text`. Raises `ValueError` with what is accepted."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration; write 90s, 5m, 2h, 7d or plain seconds")
    return float(match[1]) * _UNITS[match[2]]

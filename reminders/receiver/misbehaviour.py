"""Scripted misbehaviour, so that demonstrations and tests can watch the sender retry and give up.

Only this reference receiver has it. Each path is a destination of its own, with a secret of its own:

    /hook/fail-twice   503 to the first two calls of a key, then as usual
    /hook/fail-once    503 to the first call of a key, then as usual
    /hook/refuse       422, always
    /hook/slow?ms=N    as usual, but the answer comes N milliseconds later (default 1000, at most 60000)
"""

from __future__ import annotations

import re

_FAILURES = {"/fail-once": 1, "/fail-twice": 2}
SCRIPTED_PATHS = frozenset({*_FAILURES, "/refuse", "/slow"})
_MILLISECONDS = re.compile(r"ms=(\d{1,5})", re.ASCII)
_DEFAULT_MILLISECONDS = 1000
_MOST_MILLISECONDS = 60_000


def refusal(script: str, earlier_calls: int) -> tuple[int, str] | None:
    """The status and reason with which `script` refuses a call that `earlier_calls` of the same key preceded."""
    if script == "/refuse":
        return 422, "this path always refuses"
    failures = _FAILURES.get(script, 0)
    if earlier_calls < failures:
        return 503, f"this path fails the first {failures} calls of a key; this was number {earlier_calls + 1}"
    return None


def seconds_of_delay(script: str, query: str) -> float:
    """How long the answer is held back after the delivery was handled."""
    if script != "/slow":
        return 0.0
    asked = _MILLISECONDS.fullmatch(query)
    return min(int(asked[1]) if asked else _DEFAULT_MILLISECONDS, _MOST_MILLISECONDS) / 1000

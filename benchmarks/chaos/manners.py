"""How the receiver answers: drawn from the seed, the delivery key and the number of the call, whatever the order."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

PATIENCE = 5
"""From this call on, a key is answered well: a run has an end."""
_TROUBLES = {"slow": 30, "500": 22, "429": 15, "503": 12, "reset": 10, "lost": 8, "too slow": 3}

UNANSWERED = frozenset({"reset", "lost", "too slow"})
"""Those that end the connection instead of answering, or that no caller waits out."""


@dataclass(frozen=True, slots=True)
class Manner:
    """What is done with one call. Without a `status` the connection is reset instead of answered."""

    name: str
    wait: float
    status: int | None
    effect: bool
    """Whether the far side acts on it, whatever it answers."""
    retry_after: int | None = None


def manner(seed: int, key: str, call: int, *, trouble: float, deadline: float) -> Manner:
    """What happens to the `call`-th call of `key`; `trouble` is the share that goes wrong, `deadline` the caller's."""
    random = Random(f"{seed} {key} {call}")
    prompt = random.uniform(0.002, 0.03)
    if call >= PATIENCE or random.random() >= trouble:
        return Manner("well", prompt, 200, effect=True)
    name = random.choices(list(_TROUBLES), weights=list(_TROUBLES.values()))[0]
    match name:
        case "slow":
            return Manner(name, random.uniform(0.3, 0.6 * deadline), 200, effect=True)
        case "too slow":
            return Manner(name, deadline + random.uniform(0.5, 3.0), 200, effect=True)
        case "500":
            return Manner(name, prompt, 500, effect=random.random() < 0.5)
        case "429" | "503":
            return Manner(name, prompt, int(name), effect=False, retry_after=random.randint(1, 3))
        case "lost":
            return Manner(name, random.uniform(0.0, 1.0), None, effect=True)
        case _:
            return Manner(name, prompt, None, effect=False)

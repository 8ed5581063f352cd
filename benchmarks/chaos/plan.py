"""Which fault comes when: drawn from a seed, before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

AT_ONCE = 0.2
"""Share of the faults that come together with the one before."""
SHORT = (1.0, 15.0)
"""Seconds of a freeze that every deadline survives."""
BEYOND_CLAIM = (2.0, 15.0)
"""Seconds by which a long freeze outlasts the claim."""
DOWN = (0.1, 5.0)
"""Seconds before somebody starts again what has no supervisor."""
KILLS = frozenset({"kill child", "kill parent", "kill all", "kill server", "lose data", "kill backend"})
"""Acts that are a kill -9."""
_WEIGHTS: dict[tuple[str, str], float] = {
    ("kill child", "worker"): 26,
    ("kill child", "scanner"): 10,
    ("kill child", "alone"): 5,
    ("kill child", "beat"): 4,
    ("kill child", "retry"): 3,
    ("kill child", "maintenance"): 1,
    ("kill parent", "worker"): 5,
    ("kill parent", "scanner"): 3,
    ("kill parent", "alone"): 1,
    ("kill parent", "beat"): 1,
    ("kill all", "worker"): 4,
    ("kill all", "scanner"): 2,
    ("kill server", "redis"): 7,
    ("lose data", "redis"): 3,
    ("kill server", "postgres"): 6,
    ("kill backend", "postgres"): 5,
    ("flush", "redis"): 3,
    ("restart", "worker"): 3,
    ("restart", "scanner"): 2,
    ("freeze child", "worker"): 5,
    ("freeze child long", "worker"): 6,
    ("freeze child long", "alone"): 2,
    ("freeze child", "scanner"): 1,
    ("freeze child long", "scanner"): 1,
    ("freeze parent long", "worker"): 0.3,
    ("freeze child long", "beat"): 1,
    ("freeze server", "redis"): 2,
    ("freeze server long", "redis"): 0.5,
    ("freeze server", "postgres"): 2,
    ("freeze server long", "postgres"): 0.5,
}
KINDS = tuple(_WEIGHTS)
"""Every act with its target: a line of the Procfile, or a server."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong. `at` is seconds after the start; `pick` in [0, 1) chooses among like processes."""

    number: int
    at: float
    act: str
    target: str
    pick: float
    seconds: float
    """How long it is frozen; or until somebody starts it again."""

    @property
    def kind(self) -> str:
        return f"{self.act}: {self.target}"

    @property
    def is_kill(self) -> bool:
        return self.act in KILLS


def faults(seed: int, pace: float, claim: float) -> Iterator[Fault]:
    """Faults without end, one every `pace` seconds on average. The same arguments give the same faults."""
    random = Random(f"faults {seed}")
    at = 0.0
    number = 0
    while True:
        number += 1
        if random.random() >= AT_ONCE:
            at += random.expovariate((1 - AT_ONCE) / pace)
        act, target = random.choices(KINDS, weights=list(_WEIGHTS.values()))[0]
        yield Fault(number, at, act, target, random.random(), _seconds(random, act, claim))


def _seconds(random: Random, act: str, claim: float) -> float:
    if act.endswith("long"):
        return claim + random.uniform(*BEYOND_CLAIM)
    return random.uniform(*(SHORT if act.startswith("freeze") else DOWN))


def kill_share() -> float:
    """Of many faults, the share that kills something."""
    return sum(weight for (act, _), weight in _WEIGHTS.items() if act in KILLS) / sum(_WEIGHTS.values())

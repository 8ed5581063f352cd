"""Comparing what two systems tell their users: who is told what, and when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

PARTS = ("reference", "user_id", "kind", "channel")
"""What makes two entries of two systems the same, in this order; `""` stands for none."""
Key = tuple[str, ...]
What = Literal["differs", "missing_here", "missing_there"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One entry that the other side lacks, or has at another time. Instants are UTC."""

    what: What
    key: Key
    here: datetime | None
    there: datetime | None

    @property
    def seconds(self) -> float | None:
        """By how much here is later than there; None where one of the two is missing."""
        return None if self.here is None or self.there is None else (self.here - self.there).total_seconds()


@dataclass(slots=True)
class Comparison:
    """How many entries each side has, and how they match; of the differences the first `most`."""

    here: int = 0
    there: int = 0
    matched: int = 0
    differing: int = 0
    missing_here: int = 0
    missing_there: int = 0
    differences: list[Difference] = field(default_factory=list)


def compare(
    here: Iterable[tuple[Key, datetime]], there: Iterable[tuple[Key, datetime]], tolerance: timedelta, most: int
) -> Comparison:
    """Match entries of the same key whose instants are at most `tolerance` apart, then those that are left, in their order.

    Instants are aware. What is left after that is missing on the other side.
    """
    by_key: dict[Key, tuple[list[datetime], list[datetime]]] = defaultdict(lambda: ([], []))
    for side, entries in enumerate((here, there)):
        for key, instant in entries:
            by_key[key][side].append(instant)
    found = Comparison()
    for key in sorted(by_key):
        ours, theirs = map(sorted, by_key[key])
        found.here += len(ours)
        found.there += len(theirs)
        ours, theirs, matched = _beyond(ours, theirs, tolerance)
        found.matched += matched
        differing = min(len(ours), len(theirs))
        found.differing += differing
        found.missing_there += len(ours) - differing
        found.missing_here += len(theirs) - differing
        pairs = zip(ours, theirs, strict=False)
        told = [Difference("differs", key, one, other) for one, other in pairs]
        told += [Difference("missing_there", key, one, None) for one in ours[differing:]]
        told += [Difference("missing_here", key, None, other) for other in theirs[differing:]]
        found.differences += told[: max(0, most - len(found.differences))]
    return found


def _beyond(
    ours: list[datetime], theirs: list[datetime], tolerance: timedelta
) -> tuple[list[datetime], list[datetime], int]:
    """What is left of two ascending lists once those within the tolerance are matched, and how many were."""
    left: tuple[list[datetime], list[datetime]] = ([], [])
    matched = one = other = 0
    while one < len(ours) and other < len(theirs):
        apart = ours[one] - theirs[other]
        if abs(apart) <= tolerance:
            matched, one, other = matched + 1, one + 1, other + 1
        elif apart < timedelta(0):
            left[0].append(ours[one])
            one += 1
        else:
            left[1].append(theirs[other])
            other += 1
    return left[0] + ours[one:], left[1] + theirs[other:], matched

"""What the receiver saw, held against what was promised: each breach with the keys that show it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from benchmarks.chaos.calls import EACH, ONCE, Call
from benchmarks.chaos.evidence import ENDS, Ledger
from benchmarks.chaos.strikes import Freeze, Struck
from benchmarks.chaos.traffic import Book, Promise

REFUSED = frozenset({429, 503})
"""Answers that say that the request was not taken up: only after these may `each` be called again."""
NOT_TAKEN = frozenset({"retry", "blocked"})
"""The outcomes on record that say so."""
SHOWN = 20


@dataclass
class Findings:
    """`breaches` are those that must be empty, by name, each entry one piece of evidence."""

    breaches: dict[str, list[str]] = field(default_factory=dict)
    overlaps_of_frozen: int = 0
    """Overlapping calls of a process that was frozen beyond its claim; at most one for each freeze."""

    def shown(self) -> dict[str, list[str]]:
        return {name: found[:SHOWN] for name, found in self.breaches.items() if found}


def find(book: Book, calls: Sequence[Call], ledger: Ledger, freezes: Sequence[Freeze], claim: float) -> Findings:
    """`calls` in the order of their starts; `claim` in seconds."""
    by_key = _grouped(calls, lambda call: call.key)
    by_reference = _grouped(calls, lambda call: call.reference)
    found = Findings()
    overlaps, found.overlaps_of_frozen = _overlaps(by_key, ledger, freezes, claim)
    found.breaches = {
        "lost": _lost(book, by_reference, ledger),
        "overlapping calls": overlaps,
        "effects repeated": _effects_repeated(by_reference),
        "repeated after an unknown outcome": _repeated_after_unknown(by_reference, ledger),
        "cancelled but called": _begun_after(book.promises, "cancelled", by_key),
        "called after it was superseded": _begun_after(book.promises, "superseded", by_key),
        "claimed after requested or maybe_sent": _claimed_after(book.promises, by_key, ledger),
        "called though rolled back": [each for each in book.never if each in by_reference],
        "calls not on record": [_show(call) for call in calls if (call.key, call.attempt) not in ledger.attempts],
        "bodies that differ": [key for key, same in by_key.items() if len({call.body for call in same}) > 1],
    }
    return found


def calls_per_key(calls: Iterable[Call]) -> dict[str, dict[int, int]]:
    """By place: how many keys were called so often."""
    counts = Counter((call.place, call.key) for call in calls)
    histogram: dict[str, Counter[int]] = {ONCE: Counter(), EACH: Counter()}
    for (place, _), count in counts.items():
        histogram[place][count] += 1
    return {place: dict(sorted(counted.items())) for place, counted in histogram.items()}


def recoveries(struck: Sequence[Struck], calls: Sequence[Call]) -> list[tuple[str, float | None]]:
    """For each fault its kind, and the seconds until a delivery that began after it was answered with success."""
    good = [call for call in calls if call.status == 200]
    starts = [call.start for call in good]
    found = []
    for each in struck:
        position = bisect_left(starts, each.at)
        # One that began a little later may have been answered sooner.
        ends = [call.end for call in good[position : position + 64]]
        found.append((each.fault.kind, min(ends) - each.at if ends else None))
    return found


def _lost(book: Book, by_reference: Mapping[str, list[Call]], ledger: Ledger) -> list[str]:
    lost = []
    for reference in book.known:
        status = ledger.statuses.get(reference)
        if status not in ENDS:
            lost.append(f"{reference} {status or 'is not in the ledger'}")
        elif status == "delivered" and not any(call.effect for call in by_reference.get(reference, ())):
            lost.append(f"{reference} counts as delivered, and the receiver never acted on it")
    return lost


def _overlaps(
    by_key: Mapping[str, list[Call]], ledger: Ledger, freezes: Sequence[Freeze], claim: float
) -> tuple[list[str], int]:
    overlapping: list[str] = []
    excused: Counter[int] = Counter()
    for calls in by_key.values():
        latest = calls[0]
        for call in calls[1:]:
            if call.start < latest.end:
                freeze = _frozen_beyond_claim((latest, call), ledger, freezes, claim)
                if freeze is None or excused[freeze]:
                    overlapping.append(f"{_show(latest)} and {_show(call)}")
                else:
                    excused[freeze] += 1
            if call.end > latest.end:
                latest = call
    return overlapping, excused.total()


def _frozen_beyond_claim(
    pair: tuple[Call, Call], ledger: Ledger, freezes: Sequence[Freeze], claim: float
) -> int | None:
    """Which freeze held the process of either call from within its claim until after the claim's end."""
    for call in pair:
        attempt = ledger.attempts.get((call.key, call.attempt))
        if attempt is None:
            continue
        for number, freeze in enumerate(freezes):
            end = attempt.claimed_at + claim
            if freeze.pid == attempt.worker_pid and attempt.claimed_at <= freeze.since <= end <= freeze.until:
                return number
    return None


def _effects_repeated(by_reference: Mapping[str, list[Call]]) -> list[str]:
    """At `once`. What the receiver did and then called an error of its own, it did not tell: a new key may follow."""
    repeated = []
    for calls in by_reference.values():
        effects = [call for call in calls if call.place == ONCE and call.effect]
        told = [call for call in effects[:-1] if call.status != 500]
        repeated += [f"{_show(call)} and {_show(effects[-1])}" for call in told]
    return repeated


def _repeated_after_unknown(by_reference: Mapping[str, list[Call]], ledger: Ledger) -> list[str]:
    """At `each`: calls after one that was not refused in so many words, or whose refusal is not on record."""
    repeated = []
    for calls in by_reference.values():
        for before, after in pairwise(calls):
            if before.place != EACH:
                continue
            attempt = ledger.attempts.get((before.key, before.attempt))
            recorded = attempt is not None and attempt.outcome in NOT_TAKEN
            if before.status not in REFUSED or not recorded:
                repeated.append(f"{_show(before)} and {_show(after)}")
    return repeated


def _begun_after(promises: Iterable[Promise], answer: str, by_key: Mapping[str, list[Call]]) -> list[str]:
    """Calls that began after the promise had been committed."""
    return [
        f"{_show(call)}, {call.start - promise.monotonic:.3f} s after"
        for promise in promises
        if promise.answer == answer
        for call in by_key.get(promise.key, ())
        if call.start > promise.monotonic
    ]


def _claimed_after(promises: Iterable[Promise], by_key: Mapping[str, list[Call]], ledger: Ledger) -> list[str]:
    """Calls whose claim was taken after somebody had been told that no further attempt follows."""
    found = []
    for promise in promises:
        if promise.answer not in {"requested", "maybe_sent"}:
            continue
        for call in by_key.get(promise.key, ()):
            attempt = ledger.attempts.get((call.key, call.attempt))
            if attempt is not None and attempt.claimed_at > promise.unix:
                found.append(f"{_show(call)}, claimed {attempt.claimed_at - promise.unix:.3f} s after {promise.answer}")
    return found


def _grouped(calls: Iterable[Call], by: Callable[[Call], str]) -> dict[str, list[Call]]:
    groups: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        groups[by(call)].append(call)
    return dict(groups)


def _show(call: Call) -> str:
    return f"{call.reference} {call.key} attempt {call.attempt} ({call.manner}, {call.start:.3f} to {call.end:.3f})"

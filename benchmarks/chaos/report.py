"""The outcome of a run: one JSON object, and a table of it for people."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchmarks.chaos.calls import Call
from benchmarks.chaos.evidence import Ledger
from benchmarks.chaos.findings import Findings, calls_per_key, recoveries
from benchmarks.chaos.manners import UNANSWERED
from benchmarks.chaos.strikes import Strikes
from benchmarks.chaos.traffic import Book


def summary(
    given: Mapping[str, Any],
    *,
    book: Book,
    calls: Sequence[Call],
    ledger: Ledger,
    found: Findings,
    strikes: Strikes,
    more: Mapping[str, Any],
) -> dict[str, Any]:
    """`given` are the run's arguments and settings, `more` what the run itself measured."""
    struck = sorted(strikes.done, key=lambda each: each.at)
    kinds = Counter(each.fault.kind for each in struck)
    by_kind: defaultdict[str, list[float]] = defaultdict(list)
    without = 0
    for kind, seconds in recoveries(struck, calls):
        if seconds is None:
            without += 1
        else:
            by_kind[kind].append(seconds)
    places = Counter(
        (known.place, ledger.statuses.get(reference, "missing")) for reference, known in book.known.items()
    )
    return {
        **given,
        "reminders": len(book.known),
        "calls": len(calls),
        "kills": strikes.kills(),
        "faults": dict(sorted(kinds.items())),
        "faults_missed": len(strikes.missed),
        "freezes_of_processes": len(strikes.freezes),
        "breaches": {name: len(evidence) for name, evidence in found.breaches.items()},
        "evidence": found.shown(),
        "overlaps_of_frozen": found.overlaps_of_frozen,
        "calls_per_key": calls_per_key(calls),
        "callers_gone_in_mid_call": sum(call.status is None and call.manner not in UNANSWERED for call in calls),
        "effects": dict(Counter(call.place for call in calls if call.effect)),
        "changes": dict(Counter(promise.answer for promise in book.promises)),
        "ended": {
            place: {status: number for (where, status), number in sorted(places.items()) if where == place}
            for place in sorted({where for where, _ in places})
        },
        "in_review": dict(sorted(ledger.letters.items())),
        "recovery_seconds": {
            "all": spread(second for seconds in by_kind.values() for second in seconds),
            **{kind: spread(by_kind[kind]) for kind in sorted(by_kind)},
        },
        "faults_without_a_delivery_after": without,
        **more,
    }


def spread(seconds: Iterable[float]) -> dict[str, float]:
    """The median, the 99th percentile and the most, of at least one value."""
    ordered = sorted(seconds)
    if not ordered:
        return {}

    def at(share: float) -> float:
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)

    return {"p50": at(0.5), "p99": at(0.99), "max": round(ordered[-1], 2)}


def failed(told: Mapping[str, Any]) -> bool:
    """Whether anything is not as it must be."""
    return any(told["breaches"].values()) or told["audit"]["violations"] != 0


def table(told: Mapping[str, Any]) -> str:
    rows: list[tuple[str, str]] = [
        ("seed", str(told["seed"])),
        ("settings", ", ".join(f"{name}={value}" for name, value in told["settings"].items()) or "defaults"),
        ("reminders, calls", f"{told['reminders']:,}, {told['calls']:,}"),
        ("kills", f"{told['kills']:,} (and {sum(told['faults'].values()) - told['kills']:,} other faults)"),
        *((f"  {kind}", str(number)) for kind, number in told["faults"].items()),
        ("", ""),
        *((name, f"{number:,}") for name, number in told["breaches"].items()),
        ("audit", f"{told['audit']['violations']} violations in {told['audit']['checks']} checks"),
        ("", ""),
        ("overlaps of processes frozen beyond a claim", str(told["overlaps_of_frozen"])),
        *((f"calls per key, {place}", _pairs(counted)) for place, counted in told["calls_per_key"].items()),
        ("calls whose caller ended first", str(told["callers_gone_in_mid_call"])),
        ("effects", _pairs(told["effects"])),
        ("answers to cancel and reschedule", _pairs(told["changes"])),
        *((f"ended, {place}", _pairs(counted)) for place, counted in told["ended"].items()),
        ("in review", str(sum(told["in_review"].values()))),
        *((f"  {kind}", str(number)) for kind, number in told["in_review"].items()),
        ("", ""),
        ("seconds until a delivery after", "p50, p99, max"),
        *(
            (f"  {kind}", ", ".join(f"{each:.2f}" for each in seconds.values()))
            for kind, seconds in told["recovery_seconds"].items()
        ),
        ("seconds under faults, to calm, in all", ", ".join(f"{each:.0f}" for each in told["seconds"].values())),
        ("seconds under faults in which a call began", str(told["seconds_with_calls"])),
        ("lines that ended by themselves", _pairs(told["lines_ended"]) or "none"),
        ("faults that found nobody", str(told["faults_missed"])),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}".rstrip() for name, value in rows]
    for name, evidence in told["evidence"].items():
        lines += ["", f"{name}:", *(f"  {each}" for each in evidence)]
    return "\n".join(lines)


def _pairs(counted: Mapping[Any, int]) -> str:
    return ", ".join(f"{name}: {number:,}" for name, number in counted.items())

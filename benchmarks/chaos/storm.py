"""The plan's faults in their time, one after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.chaos.calls import Call
from benchmarks.chaos.plan import Fault
from benchmarks.chaos.strikes import Strikes

MOST_WITHOUT_A_CALL = 4
"""Faults in a row."""
HELD_AT_MOST = 12.0
LOOK_EVERY = 0.25


def storm(faults: Iterable[Fault], kills: int, strikes: Strikes, calls_file: Path, tell: Callable[[str], None]) -> None:
    """Begin faults until there were so many kills.

    Who is dead already shows nothing by being killed: the plan's clock stands still, for some seconds, while no call
    has come since so many faults.
    """
    began = time.monotonic()
    held = 0.0
    told = since_call = 0
    noted = calls_file.stat().st_size
    for fault in faults:
        time.sleep(max(0.0, began + held + fault.at - time.monotonic()))
        if strikes.kills() >= kills:
            return
        if strikes.kills() >= told + 50:
            told = strikes.kills()
            tell(f"{told} kills after {time.monotonic() - began:.0f} s")
        stood = time.monotonic()
        while since_call >= MOST_WITHOUT_A_CALL and time.monotonic() < stood + HELD_AT_MOST:
            if calls_file.stat().st_size > noted:
                break
            time.sleep(LOOK_EVERY)
        held += time.monotonic() - stood
        size = calls_file.stat().st_size
        since_call, noted = (since_call + 1, noted) if size == noted else (0, size)
        strikes.begin(fault)


def seconds_with_calls(calls: Sequence[Call], began: float, seconds: float) -> int:
    """Of the storm's seconds, those in which a call began: how much there was to disturb."""
    return len({int(call.start - began) for call in calls if 0 <= call.start - began < seconds})

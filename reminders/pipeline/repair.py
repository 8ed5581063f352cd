"""Repair: claims that ended without an outcome are repeated where that is safe, and shown to a person where it is not."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from reminders.pipeline.ports import Lapsed, ScanLedger
from reminders.pipeline.trail import follow_repaired

logger = logging.getLogger(__name__)

DEATHS_ALONE_TO_CONVICT = 3
"""A reminder whose worker died this often while it ran alone is what kills them."""


@dataclass(frozen=True, slots=True)
class RepairPolicy:
    """The bounds of repeating: attempts in a budget, and seconds since its first attempt."""

    max_attempts: int
    max_wait: float


def repair(ledger: ScanLedger, policy: RepairPolicy, limit: int) -> int:
    """Put up to `limit` lapsed claims right; return how many were found."""
    with ledger.repair(limit) as moves:
        by_fate: dict[str, list[Lapsed]] = {}
        for row in moves.lapsed:
            by_fate.setdefault(_fate(row, policy), []).append(row)
        if rows := by_fate.get("carry over"):
            moves.carry_over(rows)
        if rows := by_fate.get("confirmed late"):
            moves.confirm_late(rows)
        if rows := by_fate.get("repeat"):
            moves.repeat(rows)
        if rows := by_fate.get("look up"):
            moves.look_up(rows)
        if rows := by_fate.get("convict"):
            moves.bury(rows, "pipeline", f"its worker died {DEATHS_ALONE_TO_CONVICT} times while it ran alone")
        if rows := by_fate.get("review"):
            moves.bury(rows, "unknown", "the worker ended during the call; whether it was sent is unknown")
        found = len(moves.lapsed)
        shut_down = sum(row.shut_down for row in moves.lapsed)
    # Crash here: committed as a whole, or not at all and still lapsed.
    if found:
        for fate, rows in by_fate.items():
            follow_repaired(rows, fate.replace(" ", "_"))
        counts = " ".join(f"{fate.replace(' ', '_')}={len(rows)}" for fate, rows in sorted(by_fate.items()))
        logger.warning("repair.lapsed_claims count=%d of_workers_shut_down=%d: %s", found, shut_down, counts)
    return found


def _fate(row: Lapsed, policy: RepairPolicy) -> str:
    if row.confirmed_late and row.delivery_status != "delivered":
        return "confirmed late"
    if row.delivery_status != "sending":
        return "carry over"
    held_against_it = 0 if row.shut_down else 1
    if row.route == "alone" and row.alone_deaths + held_against_it >= DEATHS_ALONE_TO_CONVICT:
        return "convict"
    exhausted = row.attempts + held_against_it >= policy.max_attempts or row.waited > policy.max_wait
    if row.on_unknown == "review" or row.cancel_requested or exhausted:
        return "review"
    return "look up" if row.on_unknown == "look_up" else "repeat"

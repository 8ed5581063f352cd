"""The report on shadows: what a tenant would have been sent, against what was sent by the live path or a previous system."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from reminders.domain.comparison import PARTS, Comparison, compare
from reminders.intake.previous import Previous
from reminders.ledger.database import Database
from reminders.ledger.shadow_reading import begun, entries, live_calls

TOLERANCE = 60.0
"""Seconds between two instants that count as the same, unless the command says otherwise."""


@dataclass(frozen=True, slots=True)
class ShadowReport:
    """`decisions` counts everything that was decided in the period; what would have been sent is compared.

    `compared_by` are the parts that make two entries the same, `instant` what was compared: `sent_at` or `due_at`. Lateness is
    in seconds, of what would have been sent. `since` and `until` are UTC, None where nothing was shadowed.
    """

    tenant_id: str
    against: str
    since: datetime | None
    until: datetime | None
    decisions: dict[str, int]
    compared_by: tuple[str, ...]
    instant: str
    tolerance: float
    lateness_median: float | None
    lateness_most: float | None
    comparison: Comparison


def report(
    database: Database,
    tenant: str,
    *,
    since: datetime | None = None,
    previous: Previous | None = None,
    live: str | None = None,
    tolerance: float = TOLERANCE,
    most: int = 20,
) -> ShadowReport:
    """Compare what was shadowed since then with `previous`, or else with the live calls of tenant `live`, or of the same one.

    The period of the live path is that of the shadow, `tolerance` seconds longer on both sides. At most `most` differences
    are told.
    """
    period = begun(database, tenant, since)
    apart = timedelta(seconds=tolerance)
    parts = PARTS if previous is None else previous.parts
    instant = "sent_at" if previous is None else previous.instant
    places = [PARTS.index(part) for part in parts]
    decisions: Counter[str] = Counter()
    latenesses: list[float] = []
    here = []
    for entry in entries(database, tenant, since, None):
        decisions[entry.decision] += 1
        if entry.decision == "send":
            latenesses.append(entry.lateness)
            when = entry.decided_at if instant == "sent_at" else entry.due_at
            here.append((tuple(entry.key[place] for place in places), when.astimezone(UTC)))
    if previous is not None:
        there = [
            (key, when.astimezone(UTC)) for key, when in previous.entries if since is None or when >= since - apart
        ]
    elif period is None:
        there = []
    else:
        calls = live_calls(database, live or tenant, period[0] - apart, period[1] + apart)
        there = [(key, when.astimezone(UTC)) for key, when in calls]
    latenesses.sort()
    return ShadowReport(
        tenant,
        "file" if previous is not None else f"live calls of tenant {live or tenant}",
        period and period[0],
        period and period[1],
        dict(decisions),
        parts,
        instant,
        tolerance,
        latenesses[len(latenesses) // 2] if latenesses else None,
        latenesses[-1] if latenesses else None,
        compare(here, there, apart, most),
    )

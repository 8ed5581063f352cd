"""Replanning: after an edit, or a change of zone or of the zones' data, what is planned is brought to where it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from reminders.ledger.caller import CallersConnection
from reminders.ledger.occurrences import Occurrence, bring, coming, withdraw
from reminders.ledger.series_rows import Series
from reminders.pipeline.plan import Plan, Planned, Skip, When, late, plan

_ZONES_APART = timedelta(hours=27)
"""Clocks of two zones differ by at most 26 hours."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """What there is to make, and what was skipped because the change has put it too far into the past."""

    plan: Plan
    skips: list[Skip]


def replan(connection: CallersConnection, schema: str, series: Series) -> Replanned:
    """Withdraw or move what is due later than now, by the rule as it is now. The series' row must be locked.

    What a person has moved keeps its time, and gets the series' content. A turn that the rule still gives, but at an
    instant that has passed by the change (the clocks of its new zone are ahead), is late, and treated as missed.
    """
    when = series.when()
    coming_turns = plan(when, series.now, series.now)
    wanted = {each.turn.recurrence_id for each in coming_turns.make}
    skips: list[Skip] = []
    for each in coming(connection, schema, [series])[series.id]:
        if each.withdrawn or (each.recurrence_id in wanted and not each.moved):
            continue
        if each.moved:
            bring(connection, schema, series, each)
            continue
        overtaken, record = _overtaken(when, series, each)
        skips += record
        if overtaken is None:
            withdraw(connection, schema, each.id)
        else:
            bring(connection, schema, series, each, overtaken)
    return Replanned(coming_turns, skips)


def would_move(series: Series, standing: Sequence[Occurrence]) -> list[tuple[Occurrence, Planned | None]]:
    """Which of the live occurrences that are due later than now `replan` would move, and where; None if it would end them."""
    when = series.when()
    wanted = {each.turn.recurrence_id: each for each in plan(when, series.now, series.now).make}
    found: list[tuple[Occurrence, Planned | None]] = []
    for each in standing:
        if each.moved or each.withdrawn:
            continue
        planned = wanted.get(each.recurrence_id) or _overtaken(when, series, each)[0]
        if planned is None or planned.turn.at != each.due_at:
            found.append((each, planned))
    return found


def _overtaken(when: When, series: Series, occurrence: Occurrence) -> tuple[Planned | None, list[Skip]]:
    """What becomes of an occurrence whose turn the rule still gives, at an instant that has passed."""
    for turn in when.since(series.now - _ZONES_APART):
        if turn.at > series.now:
            break
        if turn.recurrence_id == occurrence.recurrence_id:
            return late(when, turn, series.now)
    return None, []

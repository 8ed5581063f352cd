"""Replanning: after an edit, or a change of zone or of the zones' data, what is planned is brought to where it belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from reminders.ledger.caller import CallersConnection
from reminders.ledger.occurrences import Occurrence, bring, coming, last_made, withdraw
from reminders.ledger.series_rows import Series
from reminders.pipeline.plan import ZONES_APART, Before, Plan, Planned, plan


def replan(connection: CallersConnection, schema: str, series: Series, given: frozenset[str] | None = None) -> Plan:
    """Decide anew by the rule as it is now, and withdraw what is due later than now and wanted no more.

    The series' row must be locked. What a person has moved keeps its time, and gets the series' content. A turn whose time has
    passed only by the change (the clocks of its new zone are ahead) is late, and treated as missed, whether it was made
    already or not; of those only the ones that were `given` before count, if it says which.
    """
    standing = coming(connection, schema, [series])[series.id]
    anew = decided_anew(series, standing, given, last_made(connection, schema, [series]).get(series.id))
    if anew.plan_at is not None and anew.plan_at <= series.now:
        return anew
    wanted = {each.turn.recurrence_id for each in anew.make}
    for each in standing:
        if each.withdrawn:
            continue
        if each.moved:
            bring(connection, schema, series, each)
        elif each.recurrence_id not in wanted:
            withdraw(connection, schema, series, each, moved_too=False)
    return anew


def would_move(series: Series, standing: Sequence[Occurrence]) -> list[tuple[Occurrence, Planned | None]]:
    """Which of the live occurrences that are due later than now `replan` would move, and where; None if it would end them."""
    wanted = {each.turn.recurrence_id: each for each in decided_anew(series, standing).make}
    found: list[tuple[Occurrence, Planned | None]] = []
    for each in standing:
        if each.moved or each.withdrawn:
            continue
        planned = wanted.get(each.recurrence_id)
        if planned is None or planned.turn.at != each.due_at:
            found.append((each, planned))
    return found


def given_later(series: Series) -> frozenset[str]:
    """The turns that a series has later than now by the zone it was planned in, as far as another zone can jump over them."""
    recurrence = replace(series.when().recurrence, zone=series.zone_before)
    later = takewhile(lambda turn: turn.at <= series.now + ZONES_APART, recurrence.since(series.now))
    return frozenset(turn.recurrence_id for turn in later)


def decided_anew(
    series: Series,
    standing: Sequence[Occurrence],
    given: frozenset[str] | None = None,
    last: str | None = None,
) -> Plan:
    """What becomes of a series' turns by its rule and zone as they are, but for those that were decided by its zone before.

    `standing` are its occurrences that are due later than now; `given` is as `replan` takes it; `last` names the turn that was
    planned last, as far as it has come due.
    """
    since = series.now
    if series.plan_at is not None:
        # One that is to be planned anew was decided by what it was before until that was asked for.
        since = max(series.created_at, min(series.planned_until, series.plan_at, series.now))
    ahead = frozenset(each.recurrence_id for each in standing if each.live is not None and not each.moved)
    return plan(
        series.when(), since, series.now, Before(series.zone_before, ahead if last is None else ahead | {last}, given)
    )

"""`reminders status --slo`: how many reminders were called for and delivered in time, by day and tenant."""

from __future__ import annotations

import math

from reminders.cli.printing import print_json, print_table
from reminders.cli.session import session
from reminders.domain.request import checked_text
from reminders.ledger.counting import IN_TIME
from reminders.ledger.slo import SloDay, slo_days


def print_slo(*, days: int, tenant: str | None, as_json: bool) -> None:
    """Print what the ledger has counted; with `as_json` an object for each day and tenant."""
    whose = None if tenant is None else checked_text("tenant_id", tenant)
    with session() as ledger:
        found = slo_days(ledger.database, days=days, tenant=whose)
    if as_json:
        for each in found:
            print_json(_fields(each))
    elif found:
        print_table(
            ("day", "tenant", "called", f"within {IN_TIME:g} s", "late", "latest within", "delivered"),
            [_row(each) for each in found],
        )
    else:
        print(
            "Nothing is counted yet: attempts are, some seconds after they were made, while beat and maintenance run."
        )


def _row(day: SloDay) -> tuple[object, ...]:
    called = sum(day.called.values())
    share = f"{day.in_time / called:.2%}" if called else None
    latest = _bound(max(day.called)) if day.called else None
    return day.day, day.tenant_id, f"{called:,}", share, f"{day.late:,}", latest, f"{sum(day.delivered.values()):,}"


def _bound(seconds: float) -> str:
    return "more than a day" if math.isinf(seconds) else f"{seconds:g} s"


def _fields(day: SloDay) -> dict[str, object]:
    return {
        "day": day.day.isoformat(),
        "tenant_id": day.tenant_id,
        "called": sum(day.called.values()),
        "called_in_time": day.in_time,
        "called_late": day.late,
        "delivered": sum(day.delivered.values()),
        "called_within": _within(day.called),
        "delivered_within": _within(day.delivered),
    }


def _within(counts: dict[float, int]) -> dict[str, int]:
    """By the bound in seconds; what took longer than the last one is under `more`."""
    return {"more" if math.isinf(bound) else f"{bound:g}": number for bound, number in counts.items()}

"""Stories of series that are in order."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import reminders
from integration.audit.aging import DAY


def series(w, **changed: Any):
    """Every day in Berlin, hours from now so that none comes due while it is told; its next occurrence is made."""
    hour = (datetime.now(UTC).hour + 12) % 24
    given = {
        "tenant_id": "tenant-a", "user_id": "user-1", "kind": "note", "channel": "log", "destination": "somewhere",
        "start": datetime(2020, 1, 1, hour), "zone": "Europe/Berlin", "rule": "FREQ=DAILY", "reference": f"series-{next(w._names)}",
    }  # fmt: skip
    return w.committed(reminders.schedule_series, **{**given, **changed})


def occurrence(w, made):
    """The one that is live."""
    query = "SELECT id::text AS id, delivery_key FROM reminders.reminders WHERE series_id = %s AND status = 'live'"
    ((id_, key),) = w.sql(query, str(made.id))
    return Made(id_, key)


def with_a_turn_moved(w):
    """Not its next one, but the one after."""
    made = series(w, zone="UTC")
    after = made.next_at + timedelta(days=1)
    w.committed(reminders.move_occurrence, made.id, after, due_at=after + timedelta(hours=1))
    return Made(str(made.id))


class Made:
    """What plants need to know of a reminder."""

    def __init__(self, id_: str, key: str = "") -> None:
        self.id, self.delivery_key = id_, key


def planned(w):
    return occurrence(w, series(w))


def only_series(w):
    return Made(str(series(w).id))


def changed(call, *arguments, **named):
    def story(w):
        made = series(w)
        w.committed(call, made.id, *arguments, **named)

    return story


def skipped(w):
    made = series(w)
    assert w.committed(reminders.skip_occurrence, made.id, made.next_at) == "cancelled"


def moved(w):
    made = series(w)
    w.committed(reminders.move_occurrence, made.id, made.next_at, due_at=w.now + timedelta(days=3))


def resumed(w):
    made = series(w)
    w.committed(reminders.pause_series, made.id)
    w.committed(reminders.resume_series, made.id)


def come_due(w):
    series(w)
    w.age(3 * DAY)
    w.published()


def moved_after_all(w):
    """What a pause has let pass, and its record says so, is wanted all the same."""
    made = series(w)
    w.committed(reminders.pause_series, made.id)
    w.age(3 * DAY)
    w.committed(reminders.resume_series, made.id)
    turn, *_ = w.sql("SELECT due_at FROM reminders.series_skips ORDER BY due_at")
    w.committed(reminders.move_occurrence, made.id, *turn, due_at=made.next_at + timedelta(days=9))


SERIES_STORIES = {
    "of a series": series,
    "of a series, come due in an outage": come_due,
    "of a series that is paused": changed(reminders.pause_series),
    "of a series that is cancelled": changed(reminders.cancel_series),
    "of a series that is edited": changed(reminders.edit_series, rule="FREQ=WEEKLY", destination="elsewhere"),
    "of a series, skipped": skipped,
    "of a series, moved": moved,
    "of a series, resumed": resumed,
    "of a series, moved after it was passed over": moved_after_all,
}

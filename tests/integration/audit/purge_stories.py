"""Stories of reminders that are purged, or were to be."""

from __future__ import annotations

from datetime import timedelta

import reminders
from integration.audit.aging import AGAIN, DAY, NO
from integration.ledger.world import PATIENCE
from reminders.domain.outcomes import Delivered
from reminders.operate.retention import purge

DONE = Delivered("r")


def marked(w):
    made = w.ended(AGAIN, DONE)
    w.age(100 * DAY)
    assert purge(w.database, 90 * DAY, patience=PATIENCE).marked == 1
    return made


def purged(w):
    made = marked(w)
    assert purge(w.database, 90 * DAY, patience=PATIENCE).purged == 1
    assert w.attempts(made.id) == []


def marked_and_revived(w):
    made = w.ended(NO)
    assert w.committed(reminders.cancel, made.id) == "cancelled"
    w.age(100 * DAY)
    assert purge(w.database, 90 * DAY, patience=PATIENCE).marked == 1
    w.committed(reminders.reschedule, made.id, due_at=w.now + timedelta(days=3))
    assert purge(w.database, 90 * DAY, patience=PATIENCE).purged == 0


PURGE_STORIES = {
    "marked to be purged": marked,
    "purged": purged,
    "marked and revived": marked_and_revived,
}

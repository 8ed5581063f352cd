"""Stories of suppressions and of quiet hours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import reminders
from integration.audit.aging import AGAIN, HOUR, LOST, MINUTE
from integration.ledger.world import ScriptedProvider

GUEST = {"tenant_id": "tenant-a", "user_id": "guest"}


def handed(w, made):
    w.published()
    return w.deliver(ScriptedProvider())(made.id, made.delivery_key)


def suppress(w):
    w.committed(reminders.suppress, **GUEST, reason="unsubscribed")


def suppressed(w, *outcomes):
    made = w.ended(*outcomes, user_id="guest") if outcomes else w.schedule(user_id="guest")
    suppress(w)
    w.age(10 * MINUTE)
    assert handed(w, made) == ("dead" if LOST in outcomes else "suppressed")
    return made


def suppressed_and_moved(w):
    made = suppressed(w, AGAIN)
    assert w.committed(reminders.unsuppress, **GUEST, reason="came back")
    moved = w.committed(reminders.reschedule, made.id, due_at=datetime.now(UTC) - timedelta(minutes=1))
    assert handed(w, moved) == "delivered"


def unwanted(w):
    made = w.schedule(user_id="guest")
    w.committed(reminders.set_preference, **GUEST, kind="note", allowed=False)
    assert handed(w, made) == "suppressed"


def quiet(w, *outcomes):
    made = w.ended(*outcomes, user_id="guest") if outcomes else w.schedule(user_id="guest")
    now = datetime.now(UTC)
    hours = f"{now - timedelta(hours=1):%H:%M}", f"{now + timedelta(hours=8):%H:%M}"
    w.committed(reminders.set_recipient, **GUEST, zone="UTC", quiet_hours=hours)
    w.age(10 * MINUTE)
    assert handed(w, made) == "quiet_hours"
    return made


def quiet_no_more(w):
    made = quiet(w, AGAIN)
    w.committed(reminders.set_recipient, **GUEST, quiet_hours=None)
    w.age(9 * HOUR)
    assert w.run(made) == "delivered"


CONSENT_STORIES = {
    "suppressed": suppressed,
    "suppressed while parked": lambda w: suppressed(w, AGAIN),
    "suppressed while uncertain": lambda w: suppressed(w, LOST),
    "suppressed, lifted and moved": suppressed_and_moved,
    "unwanted": unwanted,
    "quiet": quiet,
    "quiet while parked": lambda w: quiet(w, AGAIN),
    "quiet while uncertain": lambda w: quiet(w, LOST),
    "quiet no more": quiet_no_more,
}

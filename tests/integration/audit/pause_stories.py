"""Stories of pauses that are in order, however far they have come."""

from __future__ import annotations

import reminders
from integration.audit.aging import AGAIN, DAY, HOUR, LOST
from integration.ledger import pauses


def held(w, *outcomes, **wanted):
    made = w.ended(*outcomes, **wanted) if outcomes else w.schedule(**wanted)
    w.age(HOUR)
    return made, pauses.held(w, made)


def held_for_long(w):
    held(w)
    w.age(5 * DAY)


def resumed(w, *outcomes):
    _, by = held(w, *outcomes)
    w.age(5 * DAY)
    pauses.resumed(w, by)
    w.published()


def resumed_and_refused(w):
    """Its attempts are all of one budget, in which it was held for long."""
    made, by = held(w, AGAIN)
    w.age(5 * DAY)
    pauses.resumed(w, by)
    w.run(made, AGAIN)


def resumed_at_a_rate(w):
    """The turns of the first hour are over, and much is still held."""
    for _ in range(5):
        w.schedule()
    _, by = held(w)
    pauses.resumed(w, by, rate=1 / 3600)
    w.published()
    w.age(HOUR)
    w.published()


def paused_again_meanwhile(w):
    """The first pause goes on letting go, and the second of exactly the same waits for it."""
    for _ in range(5):
        w.schedule()
    _, by = held(w)
    pauses.resumed(w, by, rate=1 / 3600)
    w.published()
    again = pauses.paused(w, tenant_id="tenant-a")
    w.schedule()
    w.published()
    pauses.resumed(w, again, rate=1 / 3600)
    w.age(HOUR)
    w.published()


def covered_by_another(w):
    _, by = held(w)
    pauses.paused(w)
    pauses.resumed(w, by)
    w.published()
    w.age(DAY)


def held_only(w):
    made, _ = held(w)
    return made


def held_then_resumed(w):
    made, by = held(w)
    pauses.resumed(w, by)
    return made


PAUSE_STORIES = {
    "held": held,
    "held for days": held_for_long,
    "held while parked": lambda w: held(w, AGAIN),
    "held while uncertain": lambda w: held(w, LOST),
    "held and cancelled": lambda w: w.committed(reminders.cancel, held(w)[0].id),
    "resumed": resumed,
    "resumed while parked": lambda w: resumed(w, AGAIN),
    "resumed and tried again": resumed_and_refused,
    "resumed at a rate": resumed_at_a_rate,
    "resumed, and paused again before all has gone": paused_again_meanwhile,
    "resumed and covered by another": covered_by_another,
}

"""Stories of caps, breakers and drains that are in order, however far they have come."""

from __future__ import annotations

from integration.audit.aging import AGAIN, DAY, HOUR, LOST, MINUTE
from integration.ledger.world import ScriptedProvider
from reminders.domain.outcomes import Delivered
from reminders.domain.pauses import PauseScope
from reminders.ledger.draining import begin_drain, stop_drain
from reminders.ledger.rates import remove_rate, set_rate

TENANT = PauseScope(tenant_id="tenant-a")
WORD = {"actor": "ada", "reason": "their wish"}


def capped(w, **cap):
    return set_rate(w.database, TENANT, **WORD, **(cap or {"per_second": 0.001, "burst": 1}))


def waiting(w):
    """One that waits for its turn behind another's."""
    capped(w)
    first = w.schedule()
    w.published()
    made = w.schedule()
    w.published()
    assert w.column("due", "turn_at = wake_at", made.id) is True
    return first, made


def waiting_only(w):
    return waiting(w)[1]


def waited_for_long(w):
    first, _ = waiting(w)
    w.deliver(ScriptedProvider())(first.id, first.delivery_key)
    w.age(DAY)
    w.published()


def gave_up(w):
    waiting(w)
    w.age(4 * DAY)
    w.published()


def cap_removed(w):
    waiting(w)
    remove_rate(w.database, TENANT, **WORD)
    w.age(HOUR)
    w.published()


def removed_just_now(w):
    _, made = waiting(w)
    remove_rate(w.database, TENANT, **WORD)
    return made


def calling(w, calls=1):
    capped(w, concurrent=2)
    made = [w.schedule() for _ in range(calls)]
    w.published()
    for each in made:
        assert w.claim(each) is not None
    return made[0]


def opened(w):
    """A destination whose breaker has opened."""
    made = w.schedule()
    claim = w.opened(made)
    end = w.finalizing()
    for _ in range(4):
        end.samples.note(claim.delivery.destination_id, AGAIN)
    w.deliver(ScriptedProvider(AGAIN), claims=Claimed(claim), finalize=end)(made.id, made.delivery_key)
    assert w.sql("SELECT breaker_times FROM reminders.destinations") == [(1,)]
    return made


class Claimed:
    """Claims of whom has one already."""

    def __init__(self, claim):
        self._claim = claim

    def claim(self, *_):
        return self._claim


def probed(w, outcome):
    made = opened(w)
    w.age(10 * MINUTE)
    assert w.run(made, outcome) in {"delivered", "parked"}


def drained(w, *, stop=False):
    for _ in range(3):
        w.schedule()
    begin_drain(w.database, PauseScope(), rate=1 / 3600, **WORD)
    w.published()
    if not stop:
        w.published()
    else:
        stop_drain(w.database, PauseScope(), **WORD)
        w.age(5 * DAY)


LIMIT_STORIES = {
    "waiting for a turn": waiting,
    "waited for long": waited_for_long,
    "waited too long": gave_up,
    "its cap was removed": cap_removed,
    "a cap was removed just now": removed_just_now,
    "as many calls as may be": lambda w: calling(w, 2),
    "a breaker open": opened,
    "a breaker's probe worked": lambda w: probed(w, Delivered("r")),
    "a breaker's probe failed": lambda w: probed(w, AGAIN),
    "timed out": lambda w: w.ended(LOST),
    "in a drain": drained,
    "in a drain that was stopped": lambda w: drained(w, stop=True),
}

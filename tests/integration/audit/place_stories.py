"""Stories of destinations that are held or disabled."""

from __future__ import annotations

from datetime import timedelta

from integration.audit.aging import LOST, MINUTE, NO
from integration.ledger.world import ScriptedProvider
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Blocked, Rejected
from reminders.ledger.destination_state import disable, enable, release_destination

PAUSE = Blocked("destination", timedelta(minutes=5), "http_429", "HTTP 429", 429)
GONE_FOR_GOOD = Rejected("http_410", "HTTP 410", 410, gone=True)
HOME = ("tenant-a", "log", "somewhere")


def held(w, *, uncertain=False):
    made, other = (w.ended(*[LOST] * uncertain) if uncertain else w.schedule() for _ in range(2))
    w.age(10 * MINUTE)
    w.published()
    assert w.deliver(ScriptedProvider(PAUSE))(made.id, made.delivery_key) == "held"
    assert w.deliver(ScriptedProvider())(other.id, other.delivery_key) == "destination_held"
    return made


def held_and_refused(w):
    made = held(w)
    w.age(10 * MINUTE)
    assert w.run(made, PAUSE) == "held"
    w.age(10 * MINUTE)
    assert w.run(made, NO) == "dead"


def gone(w):
    w.ended(GONE_FOR_GOOD)
    made = w.schedule()
    assert w.run(made) == "dead"
    enable(w.database, HOME, "back again")
    assert w.redrive(made) == [made.id]
    assert w.run(made) == "delivered"


def disabled_while_uncertain(w):
    made = w.ended(LOST)
    disable(w.database, HOME, "asked to")
    w.age(10 * MINUTE)
    assert w.run(made) == "dead"


PLACE_STORIES = {
    "held": held,
    "held and uncertain": lambda w: held(w, uncertain=True),
    "held, released": lambda w: held(w) and release_destination(w.database, destination_id(*HOME)),
    "held twice, then refused": held_and_refused,
    "gone, enabled and redriven": gone,
    "disabled while uncertain": disabled_while_uncertain,
}

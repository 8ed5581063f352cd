"""How a reminder can fare whose worker was told to stop and ended during the call."""

from __future__ import annotations

from integration.audit.aging import AGAIN, LOST, MINUTE, NO
from integration.ledger.world import CLAIM
from reminders.domain.outcomes import Delivered
from reminders.ledger.shutdowns import record_shutdown

DONE = Delivered("r")


def shut_down(w, *, route=None, **wanted):
    """Its worker was told to stop and ended during the call."""
    made = w.schedule(**wanted)
    worker = f"worker-of-{made.id}"
    w.published()
    if route:
        w.sql("UPDATE reminders.due SET route = %s WHERE id = %s", route, str(made.id))
    claim = w.aged(w.claim(made, worker=worker), CLAIM + 1)
    record_shutdown(w.database, worker, 3.0)
    assert w.repair(0.0) == 1
    return made, claim


def late_after_a_shutdown(w, outcome, *more):
    made, claim = shut_down(w)
    w.finish(claim, outcome)
    assert w.violations() == []
    for each in more:
        w.age(10 * MINUTE)
        w.run(made, each)


SHUTDOWN_STORIES = {
    "shut down": shut_down,
    "shut down, for review": lambda w: shut_down(w, deduplicates=False),
    "shut down while alone": lambda w: shut_down(w, route="alone"),
    "shut down, then refused": lambda w: w.run(shut_down(w)[0], NO),
    "shut down, late retry, refused": lambda w: late_after_a_shutdown(w, AGAIN, LOST, NO),
    "shut down, late success": lambda w: late_after_a_shutdown(w, DONE, LOST),
}

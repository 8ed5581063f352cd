"""How a reminder can fare: each story is written by the pipeline, callers and operators alone."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import reminders
from integration.audit.aging import AGAIN, DAY, HOUR, LOST, MINUTE, NO
from integration.audit.consent_stories import CONSENT_STORIES
from integration.audit.erasure_stories import ERASURE_STORIES
from integration.audit.limit_stories import LIMIT_STORIES
from integration.audit.pause_stories import PAUSE_STORIES
from integration.audit.place_stories import PLACE_STORIES
from integration.audit.purge_stories import PURGE_STORIES
from integration.audit.secret_stories import SECRET_STORIES
from integration.audit.series_stories import SERIES_STORIES
from integration.audit.settlement_stories import SETTLEMENT_STORIES
from integration.audit.shutdown_stories import SHUTDOWN_STORIES
from integration.audit.template_stories import TEMPLATE_STORIES
from integration.audit.tenant_stories import TENANT_STORIES
from integration.ledger.world import CLAIM, AskedProvider, ScriptedProvider
from reminders.domain.look_ups import Absent, Found, Undecided
from reminders.domain.outcomes import Delivered
from reminders.ledger.closing_letters import discard, redrive, resolve
from reminders.ledger.destinations import set_deduplicates
from reminders.ledger.review import LetterFilter

DONE = Delivered("r")


def expiring(w):
    return {"expires_at": w.now + timedelta(hours=1)}


def leased(w):
    w.schedule()
    w.broker.accepts = 0
    w.scanning().once()


def cancelled_under_a_claim(w, outcome, **wanted):
    made = w.schedule(**wanted)
    claim = w.opened(made)
    assert w.committed(reminders.cancel, made.id) == "requested"
    w.finish(claim, outcome)


def expired(w, *outcomes):
    made = w.ended(*outcomes, **expiring(w))
    w.age(2 * HOUR)
    w.run(made)


def given_back(w):
    made = w.schedule()
    assert w.finalizing().give_back(w.opened(made), 1.0) == "given_back"
    return made


def given_back_and_delivered(w):
    made = given_back(w)
    w.age(MINUTE)
    assert w.run(made) == "delivered"


def given_back_cancelled_and_uncertain(w):
    made = w.ended(LOST)
    w.age(10 * MINUTE)
    claim = w.opened(made)
    w.committed(reminders.cancel, made.id)
    w.finalizing().give_back(claim, 1.0)
    assert w.status(made.id) == ("dead", "unknown")


def given_back_alone_cancelled_and_uncertain(w):
    made = w.ended(LOST)
    w.age(10 * MINUTE)
    claim = w.opened(made)
    holder = w.connect()
    reminders.cancel(holder, made.id)
    w.finalizing().give_back(claim, 1.0)
    holder.commit()
    w.age(CLAIM + 1)
    w.repair(0.0)
    assert w.status(made.id) == ("dead", "unknown")


def worker_lost(w, **wanted):
    made = w.schedule(**wanted)
    return made, w.died(made)


def late(w, outcome):
    _, claim = worker_lost(w)
    w.finish(claim, outcome)


def late_with_a_newer_claim_open(w, outcome, newer):
    made, old = worker_lost(w)
    claim = w.opened(made)
    w.finish(old, outcome)
    assert w.violations() == []
    w.finish(claim, newer)


def convicted(w):
    made = w.schedule()
    for _ in range(4):
        w.died(made)
    assert w.letters(made.id) == [("pipeline", "open", "worker_lost")]
    return made


def redriven(w, *outcomes, **wanted):
    made = w.ended(*outcomes, **wanted)
    assert w.redrive(made, checked=True) == [made.id]
    return made


def refused_for_good(w):
    made = redriven(w, NO)
    w.run(made, NO)
    assert [state for _, state, _ in w.letters(made.id)] == ["redriven", "open"]


def settled(w):
    made, old = worker_lost(w, deduplicates=False)
    w.finish(old, DONE)
    assert w.violations() == []
    assert w.redrive(made) == []
    assert w.status(made.id) == ("delivered", "delivered")


def judged(w, act, *more, **wanted):
    """In review as unknown, and an operator has acted."""
    made = w.ended(LOST, deduplicates=False, **wanted)
    answer = act(w.database, LetterFilter(ids=[made.id]), *more, actor="ada", reason="looked into it")
    assert answer.done == [made.id]
    return made


def resolved(w, resolution, **wanted):
    return judged(w, partial(resolve, reference="proof" if resolution == "delivered" else None), resolution, **wanted)


def resolved_and_redriven(w):
    made = resolved(w, "not_sent")
    assert w.redrive(made) == [made.id]
    assert w.violations() == []
    assert w.run(made) == "delivered"


def resolved_twice(w):
    made = resolved(w, "not_sent")
    given = {"reference": "proof", "actor": "ada", "reason": "found"}
    assert resolve(w.database, LetterFilter(ids=[made.id]), "delivered", **given).done == [made.id]


def resolved_after_a_cancellation(w):
    made = w.ended(LOST, deduplicates=False)
    assert w.committed(reminders.cancel, made.id) == "maybe_sent"
    resolve(w.database, LetterFilter(ids=[made.id]), "not_sent", actor="ada", reason="looked into it")
    assert w.status(made.id) == ("cancelled", "cancelled")


def sent_in_spite_of_expiry(w, *outcomes):
    made = w.ended(*outcomes, **expiring(w)) if outcomes else w.schedule(**expiring(w))
    w.age(2 * HOUR)
    assert w.run(made) == ("dead" if NO in outcomes else "expired")
    given = {"actor": "ada", "reason": "better late", "ignore_expiry": True}
    assert redrive(w.database, LetterFilter(ids=[made.id]), **given).done == [made.id]
    assert w.violations() == []
    assert w.run(made) == "delivered"


def spread_out(w):
    for _ in range(3):
        w.ended(NO)
    answer = redrive(w.database, LetterFilter(), actor="ada", reason="slowly", rate=1 / (3 * DAY))
    assert len(answer.done) == 3


def moved(w, *outcomes):
    made = w.ended(*outcomes)
    w.committed(reminders.reschedule, made.id, due_at=w.now + timedelta(days=1))


def body_failed(w):
    made = w.schedule()
    w.published()
    provider = ScriptedProvider()
    provider.render = lambda _: 1 / 0
    assert w.deliver(provider)(made.id, made.delivery_key) == "dead"


def out_of_the_window(w):
    made = w.ended(LOST)
    w.age(10 * DAY)
    w.run(made)
    assert w.letters(made.id) == [("unknown", "open", "not_repeatable")]


def no_longer_deduplicating(w):
    made = w.ended(LOST)
    set_deduplicates(w.database, "tenant-a", "log", "somewhere", deduplicates=False)
    w.age(10 * MINUTE)
    w.run(made)
    assert w.redrive(made, checked=True) == [made.id]
    assert w.run(made) == "delivered"


def looked_up(w, *answers, **wanted):
    w.look_ups = ("log",)
    made = w.schedule(deduplicates=False, **wanted)
    provider = AskedProvider(LOST, answers=answers)
    for number in range(len(answers) + 1):
        w.age(10 * MINUTE if number else 0.0)
        w.published()
        w.deliver(provider)(made.id, made.delivery_key)
    return made


def absent_and_delivered(w):
    made = looked_up(w, Absent())
    assert w.run(made) == "delivered"


def lost_and_looked_up(w):
    w.look_ups = ("log",)
    made, _ = worker_lost(w, deduplicates=False)
    w.published()
    assert w.deliver(AskedProvider())(made.id, made.delivery_key) == "delivered"


STORIES = {
    **SETTLEMENT_STORIES,
    **PLACE_STORIES,
    **PURGE_STORIES,
    "pending": lambda w: w.schedule(),
    "months away": lambda w: w.schedule(due_at=w.now + timedelta(days=300)),
    "without a reference": lambda w: w.schedule(reference=None),
    "moved without a reference": lambda w: w.committed(
        reminders.reschedule, w.schedule(reference=None).id, due_at=w.now + timedelta(days=1)
    ),
    "leased": leased,
    "published": lambda w: w.schedule() and w.published(),
    "sending": lambda w: w.opened(w.schedule()),
    "delivered": lambda w: w.ended(DONE),
    "parked": lambda w: w.ended(AGAIN),
    "delivered at the third": lambda w: w.ended(AGAIN, LOST, DONE),
    "refused": lambda w: w.ended(NO),
    "exhausted": lambda w: w.ended(*[AGAIN] * 8),
    "exhausted and uncertain": lambda w: w.ended(LOST, *[AGAIN] * 7),
    "uncertain": lambda w: w.ended(LOST),
    "unknown in review": lambda w: w.ended(LOST, deduplicates=False),
    "redriven": lambda w: redriven(w, NO),
    "redriven and delivered": lambda w: w.run(redriven(w, LOST, deduplicates=False)),
    "redriven and refused": refused_for_good,
    "redriven and moved": lambda w: w.committed(reminders.reschedule, redriven(w, NO).id, due_at=w.now + timedelta(days=1)),
    "discarded": lambda w: judged(w, discard),
    "discarded and cancelled": lambda w: w.committed(reminders.cancel, judged(w, discard).id),
    "resolved as delivered": lambda w: resolved(w, "delivered"),
    "resolved as not sent": lambda w: resolved(w, "not_sent"),
    "resolved as not sent, cancelled": lambda w: w.committed(reminders.cancel, resolved(w, "not_sent").id),
    "resolved as not sent, redriven": resolved_and_redriven,
    "resolved as not sent, then as delivered": resolved_twice,
    "resolved after a cancellation": resolved_after_a_cancellation,
    "sent in spite of expiry": sent_in_spite_of_expiry,
    "sent in spite of expiry, parked before": lambda w: sent_in_spite_of_expiry(w, AGAIN),
    "sent in spite of expiry, dead before": lambda w: sent_in_spite_of_expiry(w, NO),
    "redriven at a rate": spread_out,
    "cancelled": lambda w: w.committed(reminders.cancel, w.schedule().id),
    "cancelled while parked": lambda w: w.committed(reminders.cancel, w.ended(AGAIN).id),
    "cancelled when dead": lambda w: w.committed(reminders.cancel, w.ended(NO).id),
    "cancelled while uncertain": lambda w: w.committed(reminders.cancel, w.ended(LOST).id),
    "cancelled in review": lambda w: w.committed(reminders.cancel, w.ended(LOST, deduplicates=False).id),
    "cancelled in the call, delivered": lambda w: cancelled_under_a_claim(w, DONE),
    "cancelled in the call, retry": lambda w: cancelled_under_a_claim(w, AGAIN),
    "cancelled in the call, unknown": lambda w: cancelled_under_a_claim(w, LOST),
    "moved": moved,
    "moved while parked": lambda w: moved(w, AGAIN),
    "moved when dead": lambda w: moved(w, NO),
    "expired": expired,
    "expired while parked": lambda w: expired(w, AGAIN),
    "expired while uncertain": lambda w: expired(w, LOST),
    "given back": given_back,
    "given back and delivered": given_back_and_delivered,
    "given back, cancelled, uncertain": given_back_cancelled_and_uncertain,
    "given back alone, cancelled, uncertain": given_back_alone_cancelled_and_uncertain,
    "worker lost": worker_lost,
    "worker lost, for review": lambda w: worker_lost(w, deduplicates=False),
    "worker lost, delivered then": lambda w: w.run(worker_lost(w)[0]),
    **SERIES_STORIES,
    **SHUTDOWN_STORIES,
    **LIMIT_STORIES,
    **PAUSE_STORIES,
    **SECRET_STORIES,
    **TEMPLATE_STORIES,
    **CONSENT_STORIES,
    **TENANT_STORIES,
    **ERASURE_STORIES,
    "convicted": convicted,
    "convicted and redriven": lambda w: w.redrive(convicted(w), checked=True),
    "late retry": lambda w: late(w, AGAIN),
    "late success": lambda w: late(w, DONE),
    "late success, newer claim lost": lambda w: late_with_a_newer_claim_open(w, DONE, LOST),
    "late success, newer one too": lambda w: late_with_a_newer_claim_open(w, DONE, DONE),
    "late retry, newer claim done": lambda w: late_with_a_newer_claim_open(w, AGAIN, DONE),
    "late success, settled": settled,
    "body failed": body_failed,
    "out of the window": out_of_the_window,
    "no longer deduplicating": no_longer_deduplicating,
    "looked up: found": lambda w: looked_up(w, Found("r")),
    "looked up: undecided": lambda w: looked_up(w, *[Undecided("busy", "")] * 2),
    "looked up: undecided to the end": lambda w: looked_up(w, *[Undecided("busy", "")] * 7),
    "looked up: absent": lambda w: looked_up(w, Absent()),
    "looked up: absent, then delivered": absent_and_delivered,
    "worker lost, looked up": lost_and_looked_up,
}  # fmt: skip

"""Places that ask for a pause, refuse a tenant's credentials or are gone: what goes there waits and burns nothing by it,
not for ever, or ends."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_receiver import GONE, refuse, wait
from model.model_scanner import ModelScanner
from model.model_stage import MAX_WAIT, PLACES
from model.model_worker import ModelWorker
from model.rules import number
from model.rules_asking import MOST_REMINDERS, AskingRules
from model.rules_delivering import ANSWER, MOST_WORKERS, DeliveringRules
from reminders.domain.errors import Refused
from reminders.domain.identity import destination_id
from reminders.ledger.destination_state import disable, enable, release_channel, release_destination
from reminders.ledger.holding import HOLD_SPREAD

HOUR = 3600.0
SCOPE = st.sampled_from([wait, refuse])
"""Who is to be left alone: the place, or all of its tenant's."""


class AskedToWaitRules(AskingRules, DeliveringRules):
    @rule(seconds=st.sampled_from([1.0, 90.0, 20 * HOUR]), answer=ANSWER, another=st.booleans(), late=st.booleans())
    @precondition(lambda self: len(self.workers) < MOST_WORKERS - 1)
    def asked_to_wait(self, seconds, answer, another, late):
        """While a call is on its way; another reminder's message for the same place is out, or another call is open, which
        may be reported."""
        first = self.stop("called", wait(seconds))
        if first is None:
            return
        place = self.beliefs.of(first.message.reminder_id).place
        if another and len(self.kept()) < MOST_REMINDERS:
            self._schedule(place, -60, None)
        other = self.stop("called", answer) if late else None
        ModelScanner(self.stage).once()
        self._go_on(first, through=True)
        self.carry_all(answer)
        if other is not None and other in self.workers:
            self._go_on(other, through=True)

    @rule(
        pick=number,
        asks=SCOPE,
        spans=st.sampled_from([(HOUR, 1.0), (HOUR, 1.0), (1.0, HOUR), (HOUR, 20 * HOUR)]),
        answer=ANSWER,
    )
    @precondition(lambda self: len(self.workers) < MOST_WORKERS - 1 and len(self.kept()) <= MOST_REMINDERS)
    @precondition(lambda self: self._open_places() and not any(each.active for each in self.beliefs.pauses))
    def two_ask_to_wait(self, pick, asks, spans, answer):
        """Two calls to one place are open, and both are told to wait: the later end stands, whichever is told last."""
        place = self._open_places()[pick % len(self._open_places())]
        for _ in spans:
            self._schedule(place, -60, None)
        open_calls = [self.stop("called", asks(span), at=place) for span in spans]
        for each in open_calls:
            if each in self.workers:
                self._go_on(each, through=True)
        self.clock.forward(min(spans) + HOLD_SPREAD)
        ModelScanner(self.stage).once()
        self.carry_all(answer)

    def _open_places(self):
        """Those that nobody has asked to be left alone."""
        waiting = {who for who, until in self.beliefs.asked_to_wait.items() if until > self.clock.now}
        return [each for each in PLACES if not {each, each.tenant} & waiting and each not in self.beliefs.gone]

    @rule(another=st.booleans(), answer=ANSWER, enable=st.booleans())
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def place_is_gone(self, another, answer, enable):
        """A call learns it, while another message for the place may be out; an operator may find that it is there again."""
        worker = self.stop("called", GONE)
        if worker is None:
            return
        place = self.beliefs.of(worker.message.reminder_id).place
        if another and len(self.kept()) < MOST_REMINDERS:
            self._schedule(place, -60, None)
            ModelScanner(self.stage).once()
        self._go_on(worker, through=True)
        self.carry_all(answer)
        if enable:
            self._enable(place)

    @rule(pick=number, what=st.sampled_from(["enable", "enable", "disable", "let go", "let all go"]))
    @precondition(lambda self: self.kept() and (self.beliefs.gone or self.beliefs.asked_to_wait))
    def operator_says(self, pick, what):
        """That a place is there again or is not to be used; or that it, or the tenant's channel, need not be left alone."""
        place = self.one(pick).place
        if what == "enable":
            for each in [each for each in PLACES if each in self.beliefs.gone]:
                self._enable(each)
        elif what == "disable":
            disable(self.stage.database, (place.tenant, "log", place.address), "closed")
            self.beliefs.gone.add(place)
        elif what == "let go":
            release_destination(self.stage.database, destination_id(place.tenant, "log", place.address))
            self.beliefs.asked_to_wait.pop(place, None)
        else:
            release_channel(self.stage.database, place.tenant, "log")
            self.beliefs.asked_to_wait.pop(place.tenant, None)

    def _enable(self, place):
        """Refused exactly where nobody has disabled it."""
        try:
            enable(self.stage.database, (place.tenant, "log", place.address), "back")
        except Refused:
            assert place not in self.beliefs.gone, f"{place} is gone, and enabling it was refused"
        else:
            assert place in self.beliefs.gone, f"{place} was enabled, and was not gone"
            self.beliefs.failing.pop(place, None)
        self.beliefs.gone.discard(place)

    @rule(asks=SCOPE, hours=st.sampled_from([10, 20, 24]))
    @precondition(lambda self: not (self.workers or self.stage.transactions or self.beliefs.pauses))
    def asked_to_wait_for_ever(self, asks, hours):
        """Where nothing was ever paused, whatever is live has ended when all the waiting that is allowed is over."""
        bound = int(MAX_WAIT / (hours * HOUR)) + 2
        answered: dict[str, int] = {}
        for _ in range(8 * bound):
            self.clock.forward(self.stage.seconds_to_next_wake())
            ModelScanner(self.stage).once()
            while self.stage.broker.queued:
                message = self.stage.broker.take(0)
                before = len(self.beliefs.known(message.delivery_key).turns)
                self.carry(ModelWorker(self.stage, message, asks(hours * HOUR), None))
                called = len(self.beliefs.known(message.delivery_key).turns) - before
                answered[message.delivery_key] = answered.get(message.delivery_key, 0) + called
            if not self.stage.sql("SELECT 1 FROM reminders.due"):
                break
        else:
            raise AssertionError(f"asked to wait for {hours} h again and again, {answered} have not ended")
        for key, times in answered.items():
            if times > bound:
                self.beliefs.breach("G2", f"{key} was sent {times} times, each time to be told to wait for {hours} h")

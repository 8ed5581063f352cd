"""Destinations that ask for a pause: what goes there waits for its end, burns nothing by it, and not for ever."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_receiver import wait
from model.model_scanner import ModelScanner
from model.model_stage import MAX_WAIT
from model.model_worker import ModelWorker
from model.rules_asking import MOST_REMINDERS, AskingRules
from model.rules_delivering import ANSWER, MOST_WORKERS, DeliveringRules

HOUR = 3600.0


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
        while self.stage.broker.queued:
            self.carry(ModelWorker(self.stage, self.stage.broker.take(0), answer, None))
        if other is not None and other in self.workers:
            self._go_on(other, through=True)

    @rule(hours=st.sampled_from([10, 20, 24]))
    @precondition(lambda self: not (self.workers or self.stage.transactions or self.beliefs.pauses))
    def asked_to_wait_for_ever(self, hours):
        """Where nothing was ever paused, whatever is live has ended when all the waiting that is allowed is over."""
        bound = int(MAX_WAIT / (hours * HOUR)) + 2
        answered: dict[str, int] = {}
        for _ in range(8 * bound):
            self.clock.forward(self.stage.seconds_to_next_wake())
            ModelScanner(self.stage).once()
            while self.stage.broker.queued:
                message = self.stage.broker.take(0)
                before = len(self.beliefs.known(message.delivery_key).turns)
                self.carry(ModelWorker(self.stage, message, wait(hours * HOUR), None))
                called = len(self.beliefs.known(message.delivery_key).turns) - before
                answered[message.delivery_key] = answered.get(message.delivery_key, 0) + called
            if not self.stage.sql("SELECT 1 FROM reminders.due"):
                break
        else:
            raise AssertionError(f"asked to wait for {hours} h again and again, {answered} have not ended")
        for key, times in answered.items():
            if times > bound:
                self.beliefs.breach("G2", f"{key} was sent {times} times, each time to be told to wait for {hours} h")

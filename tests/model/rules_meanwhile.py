"""What applications ask at the moments that matter: before the claim, and while the provider is being called."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_scanner import ModelScanner
from model.model_stage import CLAIM
from model.model_worker import ModelWorker
from model.rules_asking import MOST_TRANSACTIONS, AskingRules
from model.rules_delivering import ANSWER, MOST_WORKERS, DeliveringRules


class MeanwhileRules(AskingRules, DeliveringRules):
    @rule(answer=ANSWER, then=st.sampled_from(["goes through", "goes through", "dies", "stays"]))
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def cancel_during_the_call(self, answer, then):
        """Then the worker goes through with it, or dies and its claim is repaired, or stays in its call."""
        worker = self.stop("called", answer)
        if worker is None:
            return
        reminder = self.beliefs.of(worker.message.reminder_id)
        if not reminder.held:
            with self.stage.caller() as connection:
                cancelled = self._cancel(connection, reminder)
            cancelled()
        if then == "goes through":
            self._go_on(worker, through=True)
        elif then == "dies":
            self._kill(worker)
            self.clock.forward(CLAIM + 1)
            ModelScanner(self.stage).once()

    @rule(what=st.sampled_from(["hold", "reschedule"]), answer=ANSWER)
    def ask_before_the_claim(self, what, answer):
        """A message is out when its row is locked, or moved and sent again under its new key; then a worker takes it."""
        self.clock.forward(self.stage.seconds_to_next_wake())
        ModelScanner(self.stage).once()
        queued = self.stage.broker.queued
        if not queued or self.beliefs.of(queued[0].reminder_id) not in self.free():
            return
        reminder = self.beliefs.of(queued[0].reminder_id)
        if what == "hold":
            if len(self.stage.transactions) < MOST_TRANSACTIONS:
                self.hold(reminder, "look", -60)
        else:
            with self.stage.caller() as connection:
                moved = self._reschedule(connection, reminder, -60, None)
            moved()
            ModelScanner(self.stage).once()
        self.carry(ModelWorker(self.stage, self.stage.broker.take(0), answer, None))

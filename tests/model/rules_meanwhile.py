"""What applications ask while a provider is being called."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_scanner import ModelScanner
from model.model_stage import CLAIM
from model.rules_asking import AskingRules
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

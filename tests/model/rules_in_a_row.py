"""Stories that chance tells too seldom: several steps in a row that lead to a moment at which a rule alone decides."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_receiver import ANSWERS, DELIVERED, UNKNOWN, UNKNOWN_APPLIED, WINDOW
from model.model_scanner import ModelScanner
from model.model_stage import CLAIM
from model.rules_asking import AskingRules
from model.rules_delivering import MOST_WORKERS, DeliveringRules
from model.rules_operating import OperatingRules


class InARowRules(OperatingRules, AskingRules, DeliveringRules):
    @rule(when=st.sampled_from(["repaired", "published"]), answer=st.sampled_from(ANSWERS))
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def success_comes_late(self, when, answer):
        """When its claim was repaired, or its message is out again: nothing is sent any more."""
        worker = self.stop("called", DELIVERED)
        if worker is None:
            return
        self.clock.forward(CLAIM + 1)
        ModelScanner(self.stage).once()
        if when == "published":
            self.scan_at_next_wake()
        self._go_on(worker, through=True)
        if when == "repaired":
            self.scan_at_next_wake()
        self.carry_all(answer)

    @rule(first=st.sampled_from([UNKNOWN, UNKNOWN_APPLIED]), answer=st.sampled_from(ANSWERS))
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def message_outlasts_the_window(self, first, answer):
        """It is taken when its place may not remember any more what came of the first attempt."""
        worker = self.stop("called", first)
        if worker is None:
            return
        self._go_on(worker, through=True)
        self.scan_at_next_wake()
        self.clock.forward(WINDOW + 1)
        self.carry_all(answer)

    @rule(ignore_expiry=st.booleans())
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def redrive_what_was_cancelled_meanwhile(self, ignore_expiry):
        """In its call, of which nobody knows what came; even somebody who has found out may not send it again."""
        worker = self.stop("called", UNKNOWN)
        if worker is None or (reminder := self.beliefs.of(worker.message.reminder_id)).held:
            return
        with self.stage.caller() as connection:
            cancelled = self._cancel(connection, reminder)
        cancelled()
        self._go_on(worker, through=True)
        if self.row(reminder)[0] == "dead":
            reminder.ended = "dead"
            self._redrive(reminder, True, ignore_expiry)

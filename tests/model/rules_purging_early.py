"""Purges before their time: what lived long, or was decided about late, is kept from then on as long as anything else."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.checks import check
from model.model_receiver import DELIVERED, REFUSED
from model.model_scanner import ModelScanner
from model.model_stage import PLACES
from model.rules_asking import MOST_REMINDERS
from model.rules_delivering import DeliveringRules
from model.rules_operating import OperatingRules
from model.rules_purging import ASKED, RETENTION, PurgingRules


class EarlyPurgeRules(OperatingRules, PurgingRules, DeliveringRules):
    @rule(
        place=st.sampled_from(PLACES),
        answer=st.sampled_from([DELIVERED, REFUSED]),
        age=st.sampled_from([0.0, 0.6 * RETENTION]),
        what=ASKED,
    )
    @precondition(lambda self: len(self.kept()) < MOST_REMINDERS)
    def purge_before_its_time(self, place, answer, age, what):
        """What was scheduled long ago has just ended; or it died long ago, and has just been discarded."""
        self._schedule(place, RETENTION, None)
        reminder = self.kept()[-1]
        self.clock.forward(RETENTION + 1)
        check(self.stage)
        ModelScanner(self.stage).once()
        self.carry_all(answer)
        check(self.stage)
        if reminder.ended == "dead":
            self.clock.forward(RETENTION + 1)
            self.discard(reminder)
        self.purge(age, 2, False, what)

"""Looking up: what is unknown is asked about before anything is sent again."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.model_receiver import DELIVERED, TIMED_OUT, UNKNOWN, UNKNOWN_APPLIED
from model.model_scanner import ModelScanner
from model.model_stage import CLAIM, PLACES
from model.rules_delivering import ANSWER, MOST_WORKERS, DeliveringRules
from model.rules_operating import OperatingRules


class LookingUpRules(OperatingRules, DeliveringRules):
    @rule(
        first=st.sampled_from([UNKNOWN, UNKNOWN_APPLIED, TIMED_OUT]),
        then=st.sampled_from(["told", "told", "dies", "late"]),
        answer=ANSWER,
        strict=st.booleans(),
    )
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def unknown_is_looked_up(self, first, then, answer, strict):
        """A call comes to something unknown, or its worker dies, or goes on when its claim was repaired; then the far side
        is asked, which may have to be done again, and what it does not know is sent."""
        self.stage.looks_up = True
        if strict:
            for tenant in sorted({place.tenant for place in PLACES}):
                self.tenant_wants(tenant, "look_up")
        worker = self.stop("called", first)
        if worker is None:
            return
        if then == "told":
            self._go_on(worker, through=True)
        elif then == "dies":
            self._kill(worker)
        if then != "told":
            self.clock.forward(CLAIM + 1)
            ModelScanner(self.stage).once()
        for each in (answer, DELIVERED):
            self.scan_at_next_wake()
            self.carry_all(each)
        if then == "late":
            self._go_on(worker, through=True)

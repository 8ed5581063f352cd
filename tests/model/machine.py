"""The machine: all rules together, what is checked after each, and how an example ends.

A concern of its own, such as holding or purging, is one more file of rules, and one more name in the class below.
"""

from __future__ import annotations

from hypothesis.stateful import invariant

from model.checks import check
from model.model_scanner import ModelScanner
from model.rest import check_ends, look_until_all_have_ended
from model.rules_asked_to_wait import AskedToWaitRules
from model.rules_in_a_row import InARowRules
from model.rules_looking_up import LookingUpRules
from model.rules_meanwhile import MeanwhileRules
from model.rules_operating import OperatingRules
from model.rules_pausing import PausingRules
from model.rules_purging_early import EarlyPurgeRules
from model.rules_scanning import ScanningRules
from model.rules_time import TimeRules


class ReminderMachine(
    InARowRules,
    MeanwhileRules,
    AskedToWaitRules,
    LookingUpRules,
    PausingRules,
    EarlyPurgeRules,
    ScanningRules,
    OperatingRules,
    TimeRules,
):
    """Everything that may happen to a few reminders of two tenants."""

    @invariant()
    def guarantees_hold(self):
        check(self.stage)

    def teardown(self):
        """The faults end: transactions and processes die where they are, the broker is fair, receivers take what comes.

        What was paused goes on."""
        for transaction in list(self.stage.transactions):
            self.stage.end(transaction, commit=False)
        for process in (*(worker.puppet for worker in self.workers), *(scanner.look for scanner in self.scanners)):
            if process is not None:
                process.kill()
        self.workers.clear()
        if not self.beliefs.breaches:
            self.stage.garbled = False
            self.resume_all()
            look_until_all_have_ended(ModelScanner(self.stage), self.deliver_all, self.stage)
            check_ends(self.stage)

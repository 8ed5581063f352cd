"""What every file of rules stands on: the stage of the example, and ways to pick from it."""

from __future__ import annotations

from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from model.beliefs import Beliefs, Reminder
from model.model_clock import ModelClock
from model.model_database import ModelDatabase
from model.model_stage import Stage
from model.model_worker import ModelWorker

number = st.integers(0, 9)
"""Picks one of however many there are."""

rarely = st.sampled_from([False, False, False, True])

_ROW = """
SELECT COALESCE(d.status, r.status), r.delivery_key, r.version, d.wake_at, r.expires_at, r.last_outcome, r.cancel_requested_at
FROM reminders.reminders r LEFT JOIN reminders.due d ON d.id = r.id WHERE r.id = %s"""


class MachineRules(RuleBasedStateMachine):
    """The empty machine."""

    base: ClassVar[ModelDatabase]
    """Set by the test."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage.empty(self.base)
        self.workers: list[ModelWorker] = []

    @property
    def beliefs(self) -> Beliefs:
        return self.stage.beliefs

    @property
    def clock(self) -> ModelClock:
        return self.stage.clock

    def one(self, pick: int) -> Reminder:
        return self.kept()[pick % len(self.kept())]

    def kept(self) -> list[Reminder]:
        """Reminders that were not purged."""
        return [each for each in self.beliefs.reminders if not each.purged]

    def free(self) -> list[Reminder]:
        """Reminders that no application's open transaction holds."""
        return [each for each in self.kept() if not each.held]

    def one_free(self, pick: int) -> Reminder:
        """Half the time one that a worker is about to send, if there is one: that is when it matters what is asked."""
        free, in_hand = self.free(), {worker.message.reminder_id for worker in self.workers}
        sent = [each for each in free if each.id in in_hand] if pick % 2 else []
        among = sent or free
        return among[pick // 2 % len(among)]

    def row(self, reminder: Reminder) -> tuple[Any, ...]:
        """How the ledger shows it, first its status."""
        return self.stage.sql(_ROW, str(reminder.id))[0]

    def uncertain(self, reminder: Reminder) -> bool:
        return self.beliefs.uncertain(reminder, self.clock.now)

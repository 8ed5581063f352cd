"""Workers: whole deliveries, and deliveries that stop, freeze or die at each boundary."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.acknowledging import breach_of_acknowledging
from model.model_receiver import AGAIN, ANSWERS, DELIVERED
from model.model_scanner import ModelScanner
from model.model_stage import CLAIM
from model.model_worker import FAULTS, ModelWorker
from model.rules import MachineRules, number, rarely
from reminders.bootstrap import DATABASE_FAULTS

ANSWER = st.sampled_from(ANSWERS)
STOPPED = st.sampled_from([DELIVERED] * 3 + [AGAIN] * 2 + list(ANSWERS))
"""For workers that stop on their way: late successes matter most, and what is to be tried again."""
MOST_WORKERS = 3


class DeliveringRules(MachineRules):
    @rule(pick=number, answer=ANSWER, fault=st.sampled_from(FAULTS))
    @precondition(lambda self: self.stage.broker.queued)
    def deliver(self, pick, answer, fault):
        """One message, carried through without a stop."""
        self.carry(ModelWorker(self.stage, self.stage.broker.take(pick), answer, fault))

    @rule(pick=number, answer=ANSWER, fault=st.sampled_from(FAULTS))
    @precondition(lambda self: self.stage.broker.queued and len(self.workers) < MOST_WORKERS)
    def begin_delivery(self, pick, answer, fault):
        """A worker that stands still once it has its claim."""
        worker = ModelWorker(self.stage, self.stage.broker.take(pick), answer, fault)
        self.workers.append(worker)
        self._go_on(worker)

    @rule(pick=number, how=st.sampled_from(["go on", "go on", "through", "die"]))
    @precondition(lambda self: self.workers)
    def go_on_delivering(self, pick, how):
        """Killed, it leaves its message unacknowledged until the visibility timeout brings it back, or for good."""
        worker = self.workers[pick % len(self.workers)]
        if how == "die":
            self._kill(worker)
        else:
            self._go_on(worker, through=how == "through")

    @rule(answers=st.lists(ANSWER, min_size=1, max_size=3), fault=st.sampled_from(FAULTS))
    def run_smoothly(self, answers, fault):
        """Time moves to the next wake, a scan sends what is due, and as many workers as there are answers take it."""
        self.clock.forward(self.stage.seconds_to_next_wake())
        ModelScanner(self.stage).once()
        for answer in answers:
            if self.stage.broker.queued:
                self.carry(ModelWorker(self.stage, self.stage.broker.take(0), answer, fault))

    @rule(where=st.sampled_from(["claimed", "called", "answered", "finalized"]), answer=STOPPED, die=rarely)
    @precondition(lambda self: len(self.workers) < MOST_WORKERS)
    def stop_midway(self, where, answer, die):
        """The same, and the worker stands still, or dies, at a boundary."""
        worker = self.stop(where, answer)
        if die and worker is not None:
            self._kill(worker)

    @rule(pick=number, meanwhile=st.sampled_from(["nothing", "repaired", "overtaken", "overtaken"]), answer=STOPPED)
    @precondition(lambda self: self.workers)
    def freeze_beyond_the_claim(self, pick, meanwhile, answer):
        """A worker that stands still wakes when its claim has ended, and goes through with what it had begun.

        Meanwhile its claim may have been repaired, or another worker has the message and stands still in its own call.
        """
        worker = self.workers[pick % len(self.workers)]
        self.clock.forward(CLAIM + 1)
        if meanwhile != "nothing":
            ModelScanner(self.stage).once()
        if meanwhile == "overtaken" and self.stage.broker.queued:
            other = ModelWorker(self.stage, self.stage.broker.take(-1), answer, None)
            self.workers.append(other)
            while other.puppet.at != "called" and other in self.workers:
                self._go_on(other)
        self._go_on(worker, through=True)

    def stop(self, where, answer, at=None):
        """A worker with the first message that a scan at the next wake leaves, or with one for the place `at`, which may be
        out already; None if it does not get as far as that."""
        if at is None or not self._out_for(at):
            self.scan_at_next_wake()
        out = range(len(self.stage.broker.queued)) if at is None else self._out_for(at)
        if not out:
            return None
        worker = ModelWorker(self.stage, self.stage.broker.take(out[0]), answer, None)
        self.workers.append(worker)
        while worker.puppet.at != where and worker in self.workers:
            self._go_on(worker)
        return worker if worker in self.workers else None

    def carry(self, worker):
        self.workers.append(worker)
        self._go_on(worker, through=True)

    def _out_for(self, place):
        """Where its messages are in the queue."""
        queued = self.stage.broker.queued
        return [n for n, each in enumerate(queued) if self.beliefs.of(each.reminder_id).place == place]

    def scan_at_next_wake(self):
        self.clock.forward(self.stage.seconds_to_next_wake())
        ModelScanner(self.stage).once()

    def carry_all(self, answer):
        """Every message, and what comes of it."""
        while self.stage.broker.queued:
            self.carry(ModelWorker(self.stage, self.stage.broker.take(0), answer, None))

    def deliver_all(self):
        """Every message, to receivers that take it."""
        self.carry_all(DELIVERED)

    def _kill(self, worker):
        worker.puppet.kill()
        self.workers.remove(worker)

    def _go_on(self, worker, *, through=False):
        if worker.puppet.resume(through=through) != "end":
            return
        self.workers.remove(worker)
        error = worker.puppet.error
        if isinstance(error, DATABASE_FAULTS):
            # Before a claim was had: the task is run again.
            self.stage.broker.acknowledge(worker.message)
            self.stage.broker.queued.append(worker.message)
            return
        if error is not None:
            raise error
        if (breach := breach_of_acknowledging(self.stage, worker)) is not None:
            self.beliefs.breach("G6", breach)
        self.stage.broker.acknowledge(worker.message)

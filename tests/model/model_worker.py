"""A worker: the real `Deliver`, standing still at each boundary at which it may be killed or frozen."""

from __future__ import annotations

from typing import Any

import psycopg2

from model.model_receiver import Answer
from model.model_stage import CLAIM, DELAYS, HTTP_DEADLINE, MAX_ATTEMPTS, MAX_WAIT, Stage
from model.puppet import Puppet
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.look_ups import Absent, Found, Undecided
from reminders.domain.outcomes import Unknown
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import LockNotAvailable
from reminders.ledger.finalizing import PostgresFinalize
from reminders.pipeline.deliver import Deliver, DeliverPolicy
from reminders.pipeline.finalize import Finalize, RetryPolicy
from reminders.pipeline.ports import Claim, Message

SETTLE = 12.0
"""Seconds for which the far side would not know what became of a call."""
FAULTS = (None, None, None, "claim not sent", "claim reply lost", "end not sent", "end reply lost")
"""What the connection to Postgres may do, once, to one delivery."""


class ModelWorker:
    """Carries one message through. It stands still when it has `claimed`, `called`, learnt the `answer`, `finalized`."""

    def __init__(self, stage: Stage, message: Message, answer: Answer, fault: str | None) -> None:
        self.stage, self.message, self.answer = stage, message, answer
        self.claim: Claim | None = None
        self.call: Claim | None = None
        self._fault = fault
        policy = RetryPolicy(MAX_ATTEMPTS, DELAYS, MAX_WAIT)
        self.looks_up = stage.looks_up
        provider = _Provider(self)
        deliver = Deliver(
            claims=_Claims(self),
            providers=lambda _: provider,
            finalize=Finalize(_Ends(self), policy, DATABASE_FAULTS, pause=self._wait, jitter=lambda: 0.5),
            policy=DeliverPolicy(CLAIM, HTTP_DEADLINE),
            faults=DATABASE_FAULTS,
            clock=stage.clock.seconds,
            pause=lambda _: None,
        )
        self.puppet = Puppet(lambda _: deliver(message.reminder_id, message.delivery_key))

    def meets(self, fault: str) -> None:
        if self._fault == fault:
            self._fault = None
            raise psycopg2.OperationalError(fault)

    def _wait(self, _seconds: float) -> None:
        # Only an application's transaction keeps an outcome out for longer than a moment.
        if self.stage.transactions:
            self.puppet.pause("database away", always=True)


class _Claims:
    """The real claims, watched."""

    def __init__(self, worker: ModelWorker) -> None:
        self._worker = worker
        formats, look_ups = {"log": worker.stage.body_format}, ["log"] if worker.looks_up else []
        self._real = PostgresClaims(worker.stage.database, worker="w", formats=formats, look_ups=look_ups)

    def claim(self, *given: Any) -> Claim | None:
        worker = self._worker
        worker.meets("claim not sent")
        try:
            claim = self._real.claim(*given)
        except LockNotAvailable:
            worker.stage.beliefs.breach("G9", f"a claim on {worker.message.delivery_key} waits for somebody's lock")
            raise
        if claim is not None:
            worker.claim = claim
            worker.stage.beliefs.claimed(claim, claim.claimed_at, CLAIM, looks_up=worker.looks_up)
            worker.meets("claim reply lost")
            worker.puppet.pause("claimed")
        return claim

    def claimed_with(self, *given: Any) -> Claim | None:
        claim = self._real.claimed_with(*given)
        if claim is not None:
            self._worker.puppet.pause("claimed")
        return claim

    def refusal(self, *given: Any) -> str:
        return self._real.refusal(*given)


_OPEN_CLAIM = """
SELECT 1 FROM reminders.due d JOIN reminders.notification_deliveries n ON n.delivery_key = d.delivery_key
WHERE d.id = %s AND n.delivery_key = %s AND n.claim_number = %s AND d.status = 'sending' AND n.status = 'sending'"""


class _Provider:
    """The channel of every reminder here."""

    channel = "log"
    deduplicates = True
    body_format = 1

    def __init__(self, worker: ModelWorker) -> None:
        self._worker = worker
        self.looks_up, self.settle = worker.looks_up, SETTLE

    def ready(self) -> None: ...

    def check_destination(self, destination: str) -> None: ...

    def render(self, delivery: Any) -> bytes:
        worn = " garbled" if self._worker.stage.garbled else ""
        return f"{delivery.body_format} {delivery.reference} {delivery.data}{worn}".encode()

    def send(self, delivery: Any, body: bytes, deadline: float) -> Any:
        worker, stage = self._worker, self._worker.stage
        key, answer = delivery.delivery_key, worker.answer
        worker.call = worker.claim
        if not stage.sql(_OPEN_CLAIM, str(delivery.reminder_id), key, delivery.attempt):
            stage.beliefs.breach("G3", f"call {delivery.attempt} on {key} without an open claim in the ledger")
        stage.beliefs.called(delivery.attempt, key, body, answer.outcome)
        place = stage.beliefs.of(delivery.reminder_id).place
        stage.receiver.receive(key, stage.clock.now, answer, deduplicates=stage.beliefs.deduplicates[place])
        worker.puppet.pause("called")
        return answer.outcome

    def look_up(self, delivery: Any, deadline: float) -> Any:
        """The truth; or nothing that decides, where a call would have come to something unknown."""
        worker, stage = self._worker, self._worker.stage
        if worker.claim is None or not worker.claim.asks:
            stage.beliefs.breach("G4", f"{delivery.delivery_key} was asked for under a claim that sends")
        worker.puppet.pause("called")
        outcome = worker.answer.outcome
        if isinstance(outcome, Unknown):
            return Undecided(outcome.error_class, outcome.reason, timed_out=outcome.timed_out)
        return Found("asked") if stage.receiver.effects(delivery.delivery_key) else Absent()


class _Ends:
    """The real ends of a claim, watched."""

    def __init__(self, worker: ModelWorker) -> None:
        self._worker = worker
        self._real = PostgresFinalize(worker.stage.database, worker="w")

    def finalize_delivered_if_sending(self, *given: Any) -> str:
        return self._end("delivered", self._real.finalize_delivered_if_sending, *given)

    def finalize_parked_if_sending(self, *given: Any) -> str:
        return self._end("parked", self._real.finalize_parked_if_sending, *given)

    def finalize_waiting_if_sending(self, *given: Any) -> str:
        return self._end("waiting", self._real.finalize_waiting_if_sending, *given)

    def finalize_buried_if_sending(self, *given: Any) -> str:
        return self._end("buried", self._real.finalize_buried_if_sending, *given)

    def finalize_cancelled_if_sending(self, *given: Any) -> str:
        return self._end("cancelled", self._real.finalize_cancelled_if_sending, *given)

    def finalize_confirmed_if_sending(self, *given: Any) -> str:
        return self._end("confirmed", self._real.finalize_confirmed_if_sending, *given)

    def release_not_called_if_sending(self, claim: Claim, seconds: float) -> bool:
        worker = self._worker
        worker.meets("end not sent")
        released = self._real.release_not_called_if_sending(claim, seconds)
        if released:
            worker.stage.beliefs.given_back(claim)
        worker.meets("end reply lost")
        worker.puppet.pause("finalized")
        return released

    def record_late(self, claim: Claim, report: Any) -> None:
        self._real.record_late(claim, report)
        if report.outcome.name == "delivered":
            beliefs = self._worker.stage.beliefs
            beliefs.known(claim.delivery.delivery_key).delivered = True
            beliefs.recovered(claim)

    def _end(self, move: str, real: Any, claim: Claim, report: Any, *decision: Any) -> str:
        worker = self._worker
        if report.outcome.error_class == "body_changed" and not worker.stage.ever_garbled:
            worker.stage.beliefs.breach(
                "G4", f"another body for {claim.delivery.delivery_key}, and no release was at fault"
            )
        worker.puppet.pause("answered")
        worker.meets("end not sent")
        state = real(claim, report, *decision)
        if state == "done":
            worker.stage.beliefs.finalized(claim, report, move)
            if move == "confirmed":
                worker.stage.beliefs.recovered(claim)
            else:
                worker.stage.beliefs.said(claim, report, worker.stage.clock.now)
            worker.meets("end reply lost")
            worker.puppet.pause("finalized")
        elif state == "lapsed":
            worker.stage.beliefs.lapsed(claim, worker.stage.clock.now)
        return state

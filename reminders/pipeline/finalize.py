"""Finalize: decide what follows from an outcome, and commit both. Retried here until it is done; never by the queue."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from reminders.domain.breaker import BreakerPolicy, Samples
from reminders.domain.look_ups import LookUp, as_outcome, decide_after_look_up
from reminders.domain.outcomes import Rejected, Unknown
from reminders.domain.pipeline_faults import PipelineFault
from reminders.domain.retry_policy import Bury, Decision, Deliver, Park, Wait, as_known, decide
from reminders.pipeline.ports import Claim, FinalizeLedger, Report
from reminders.pipeline.trail import trail

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 2.0
"""Seconds between two offers of an outcome; the scan waits longer before it repairs what an outage left behind."""
KEEP_TRYING = 120.0
"""Seconds for which an outcome that Postgres does not take is offered again; then it is in the log alone."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Counts and seconds from the settings."""

    max_attempts: int
    delays: Sequence[float]
    max_wait: float


@dataclass(frozen=True, slots=True)
class Finalize:
    """Records outcomes for one worker process. `faults` are the errors that mean the database is away."""

    ledger: FinalizeLedger
    policy: RetryPolicy
    faults: tuple[type[Exception], ...]
    samples: Samples = field(default_factory=lambda: Samples(BreakerPolicy()))
    """By which this process judges when a destination's breaker opens."""
    pause: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random

    def __call__(self, claim: Claim, report: Report) -> str:
        """Commit the outcome and what follows from it; return in one word what the reminder has become."""
        known = as_known(report.outcome, uncertain=claim.uncertain)
        report = replace(report, outcome=known, trips=self.samples.note(claim.delivery.destination_id, known))
        decision = decide(
            report.outcome,
            attempts_used=claim.attempts + 1,
            uncertain=claim.uncertain,
            on_unknown=claim.on_unknown,
            max_attempts=self.policy.max_attempts,
            delays=claim.delays or self.policy.delays,
            waited=claim.waited,
            max_wait=self.policy.max_wait,
            jitter=self.jitter(),
        )
        return self._commit(claim, report, decision)

    def looked_up(self, claim: Claim, answer: LookUp, duration_ms: int) -> str:
        """Commit what a look-up came to, and what follows from it, as an attempt that did not send."""
        decision = decide_after_look_up(
            answer,
            attempts_used=claim.attempts + 1,
            max_attempts=self.policy.max_attempts,
            delays=claim.delays or self.policy.delays,
            waited=claim.waited,
            max_wait=self.policy.max_wait,
            jitter=self.jitter(),
        )
        return self._commit(claim, Report(as_outcome(answer), duration_ms, None, looked_up=True), decision)

    def pipeline_fault(self, claim: Claim, error_class: PipelineFault, reason: str) -> str:
        """Nothing was sent and the fault is ours: a dead letter for our own operators, not a storm of retries."""
        report = Report(Rejected(error_class=error_class, reason=reason, blameless=True), duration_ms=0, body_hash=None)
        return self._commit(claim, report, Bury("unknown" if claim.uncertain else "pipeline"))

    def give_back(self, claim: Claim, seconds: float) -> str:
        """The provider was not called: the claim goes back and burns nothing."""

        def once() -> str:
            return "given_back" if self.ledger.release_not_called_if_sending(claim, seconds) else "lapsed"

        became = self._insist(once, claim, "not_called")
        at = (claim.delivery.reminder_id, claim.delivery.delivery_key, claim.claim_number)
        trail.info("finalize.given_back reminder=%s key=%s claim=%d again_in=%.1f", *at, seconds)
        return became

    def _commit(self, claim: Claim, report: Report, decision: Decision) -> str:
        what = f"{report.outcome.name} error_class={report.outcome.error_class}"
        became = self._insist(lambda: self._commit_once(claim, report, decision), claim, what)
        at = (claim.delivery.reminder_id, claim.delivery.delivery_key, claim.claim_number)
        if became == "dead":
            code = report.outcome.error_class or report.outcome.name
            logger.info("finalize.dead reminder=%s key=%s claim=%d error_class=%s", *at, code)
        trail.info("finalize.recorded reminder=%s key=%s claim=%d became=%s", *at, became)
        return became

    def _insist(self, once: Callable[[], str], claim: Claim, what: str) -> str:
        """Do `once` until Postgres takes it; after `KEEP_TRYING`, log `what` is lost. The claim's end repairs the rest."""
        end = time.monotonic() + KEEP_TRYING
        wait = 0.1
        while True:
            try:
                return once()
            except self.faults as error:
                if time.monotonic() > end:
                    logger.critical("finalize.not_recorded key=%s outcome=%s", claim.delivery.delivery_key, what)
                    return "not_recorded"
                logger.warning(
                    "finalize.database_away key=%s error=%s", claim.delivery.delivery_key, type(error).__name__
                )
                self.pause(wait)
                wait = min(wait * 2, LONGEST_PAUSE)

    def _commit_once(self, claim: Claim, report: Report, decision: Decision) -> str:
        match decision:
            case Deliver():
                state, answer = self.ledger.finalize_delivered_if_sending(claim, report), "delivered"
            case Park():
                state, answer = self.ledger.finalize_parked_if_sending(claim, report, decision), "parked"
            case Wait():
                state, answer = self.ledger.finalize_waiting_if_sending(claim, report, decision), "held"
            case Bury():
                state, answer = self.ledger.finalize_buried_if_sending(claim, report, decision), "dead"
        if state == "confirmed late":
            state, answer = self.ledger.finalize_confirmed_if_sending(claim, report), "delivered"
        elif state == "cancel requested":
            state, answer = self._end_as_cancelled(claim, report)
        if state != "done":
            self.ledger.record_late(claim, report)
            logger.warning("finalize.lapsed key=%s outcome=%s", claim.delivery.delivery_key, report.outcome.name)
            return "lapsed"
        return answer

    def _end_as_cancelled(self, claim: Claim, report: Report) -> tuple[str, str]:
        if (claim.uncertain and not report.certain) or isinstance(report.outcome, Unknown):
            return self.ledger.finalize_buried_if_sending(claim, report, Bury("unknown")), "dead"
        return self.ledger.finalize_cancelled_if_sending(claim, report), "cancelled"

"""Deliver: claim, call the provider, finalize. Acknowledging the message is the task's last step.

No transaction is open during the call, and nothing here holds a reminder in memory that the ledger does not have.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from reminders.domain.answers import well_formed, well_formed_answer
from reminders.domain.errors import SecretUnreadable
from reminders.domain.identity import uuid7
from reminders.domain.look_ups import LookUp, Undecided
from reminders.domain.outcomes import Outcome, Unknown
from reminders.domain.template import Template
from reminders.pipeline.finalize import Finalize
from reminders.pipeline.open_calls import OpenCalls
from reminders.pipeline.ports import Claim, ClaimLedger, Report
from reminders.pipeline.provider import LooksUp, Provider, can_look_up
from reminders.pipeline.tally import REFUSED, events
from reminders.pipeline.tracing import origin
from reminders.pipeline.trail import trail
from reminders.pipeline.writing import NotWritten, with_template, written
from reminders.settings import FINALIZE_BUDGET

logger = logging.getLogger(__name__)

BUSY_PAUSES = (0.02, 0.06, 0.12)
"""Seconds to wait before asking again for a row that somebody has locked for a moment."""
LOST_REPLY_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between questions whether a claim was taken whose reply was lost; together well within the claim."""
CALL_AGAIN_AFTER = 1.0
CROWDED_AGAIN_AFTER = 3.0
"""Seconds after which a claim that found no room, because so many calls hang, is tried again."""
NO_PROVIDER_AGAIN_AFTER = 60.0
OVERRUN = 1.0
"""Seconds beyond the deadline after which a call that has returned is called late, in the log."""
NO_SECRET_AGAIN_AFTER = 60.0
_RUNS_THROUGH_SUSPENSION = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """A clock that goes on while the machine is suspended, where the system has one (Linux)."""
    return time.clock_gettime(_RUNS_THROUGH_SUSPENSION)


@dataclass(frozen=True, slots=True)
class DeliverPolicy:
    """Seconds from the settings."""

    claim: float
    http_deadline: float


def without_secrets(claim: Claim) -> tuple[bytes, ...]:
    """For what has no source of secrets: only what the derived secret signs alone can be delivered."""
    if claim.secret_mark is not None:
        raise SecretUnreadable("", "there is no source of secrets")
    return ()


def _no_shadow(_reminder_id: UUID, _delivery_key: str) -> str:
    return "busy"


def _no_templates(_version: UUID) -> Template | None:
    return None


@dataclass(frozen=True, slots=True)
class Deliver:
    """One worker process's way of delivering."""

    claims: ClaimLedger
    providers: Callable[[str], Provider | None]
    finalize: Finalize
    policy: DeliverPolicy
    faults: tuple[type[Exception], ...] = ()
    """Errors that mean the database is away."""
    secrets: Callable[[Claim], tuple[bytes, ...]] = without_secrets
    """What a claim's delivery is signed with; raises `SecretUnreadable`."""
    templates: Callable[[UUID], Template | None] = _no_templates
    """The version of a template by its id. May raise `faults`."""
    shadow: Callable[[UUID, str], str] = _no_shadow
    """What becomes of a message whose tenant is in shadow. May raise `faults`."""
    calls: OpenCalls = field(default_factory=OpenCalls)
    clock: Callable[[], float] = seconds_since_boot
    pause: Callable[[float], None] = time.sleep

    def __call__(self, reminder_id: UUID, delivery_key: str, claimed: Callable[[], None] | None = None) -> str:
        """Carry one message through; return in one word what became of it. Raises only before a claim commits.

        `claimed` is called as soon as there is a claim.
        """
        asked_at = self.clock()
        claim = self._claim(reminder_id, delivery_key)
        if isinstance(claim, str):
            return claim
        if claimed is not None:
            claimed()
        at = (reminder_id, delivery_key, claim.claim_number)
        trail.info("deliver.claimed reminder=%s key=%s claim=%d", *at)
        # Crash here: `sending` under this claim, provider not called. The claim's end repeats it or puts it to review.
        provider = self._provider(claim.delivery.channel)
        if provider is None:
            return self.finalize.give_back(claim, NO_PROVIDER_AGAIN_AFTER)
        if claim.secret_mark is not None:
            signed = self._with_secrets(claim)
            if not isinstance(signed, Claim):
                return self.finalize.give_back(claim, signed)
            claim = signed
        if claim.template_id is not None or not claim.asks:
            try:
                templated = with_template(provider, claim.delivery, claim.template_id, self.templates)
            except self.faults:
                return self.finalize.give_back(claim, CALL_AGAIN_AFTER)
            if isinstance(templated, NotWritten):
                return self.finalize.pipeline_fault(claim, templated.error_class, templated.reason)
            claim = replace(claim, delivery=templated)
        if claim.asks:
            return self._look_up(provider, claim, asked_at)
        body = written(provider, claim.delivery, claim.body_hash)
        if isinstance(body, NotWritten):
            return self.finalize.pipeline_fault(claim, body.error_class, body.reason)
        if not self._still_fits(asked_at):
            return self.finalize.give_back(claim, CALL_AGAIN_AFTER)
        place = self.calls.place(claim.delivery.destination_id)
        if place is None:
            return self._crowded(claim)
        started = time.monotonic()
        with place:
            outcome = self._call(provider, claim, body.body)
        # Crash here: `sending`, the provider was called. Repeated only where the destination deduplicates.
        duration_ms = self._duration_ms(started, claim)
        said = (outcome.name, outcome.error_class or "-", outcome.status_code, duration_ms)
        trail.info("deliver.called reminder=%s key=%s claim=%d outcome=%s error_class=%s status=%s ms=%d", *at, *said)
        # Crash here, after the commit inside: final, message unacknowledged. It comes again and finds the reminder done.
        return self.finalize(claim, Report(outcome, duration_ms, body.body_hash))

    def _with_secrets(self, claim: Claim) -> Claim | float:
        """The claim with what its delivery is signed with; or, where that cannot be had, in how many seconds to ask again.

        Signed with another secret it would be refused, and for good.
        """
        try:
            return replace(claim, delivery=replace(claim.delivery, secrets=self.secrets(claim)))
        except SecretUnreadable:
            # Whoever raised it has logged what to do.
            return NO_SECRET_AGAIN_AFTER
        except self.faults:
            return CALL_AGAIN_AFTER
        except Exception:
            logger.exception("deliver.no_secret key=%s", claim.delivery.delivery_key)
            return NO_SECRET_AGAIN_AFTER

    def _look_up(self, provider: Provider, claim: Claim, asked_at: float) -> str:
        """Ask the far side whether an earlier attempt took effect. Nothing is sent under this claim."""
        looking = can_look_up(provider)
        if looking is None:
            return self.finalize.give_back(claim, NO_PROVIDER_AGAIN_AFTER)
        unsettled = claim.unsettled(looking.settle)
        if unsettled > 0:
            return self.finalize.give_back(claim, unsettled)
        if not self._still_fits(asked_at):
            return self.finalize.give_back(claim, CALL_AGAIN_AFTER)
        place = self.calls.place(claim.delivery.destination_id)
        if place is None:
            return self._crowded(claim)
        started = time.monotonic()
        with place:
            answer = self._ask_far_side(looking, claim)
        # Crash here: `sending`, nothing was sent. The claim's end asks again.
        duration_ms = self._duration_ms(started, claim)
        return self.finalize.looked_up(claim, answer, duration_ms)

    def _crowded(self, claim: Claim) -> str:
        logger.info("deliver.crowded key=%s: so many calls hang", claim.delivery.delivery_key)
        return self.finalize.give_back(claim, CROWDED_AGAIN_AFTER)

    def _ask_far_side(self, looking: LooksUp, claim: Claim) -> LookUp:
        key = claim.delivery.delivery_key
        try:
            answer: object = looking.look_up(claim.delivery, self.policy.http_deadline)
            if isinstance(answer, LookUp):
                return well_formed_answer(answer)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (another package's)
            at = (claim.delivery.channel, key, origin(error))
            logger.error("deliver.look_up_raised channel=%s key=%s: %s", *at)  # noqa: TRY400 (not its text)
            return Undecided(error_class="look_up_raised", reason=type(error).__name__)
        logger.error("deliver.no_answer channel=%s key=%s type=%s", claim.delivery.channel, key, type(answer).__name__)
        return Undecided(error_class="no_answer", reason=f"the provider returned {type(answer).__name__}")

    def _duration_ms(self, started: float, claim: Claim) -> int:
        seconds = time.monotonic() - started
        if seconds > self.policy.http_deadline + OVERRUN:
            logger.error(
                "deliver.overran channel=%s key=%s seconds=%.1f deadline=%.1f",
                claim.delivery.channel, claim.delivery.delivery_key, seconds, self.policy.http_deadline,
            )  # fmt: skip
        return round(seconds * 1000)

    def _still_fits(self, asked_at: float) -> bool:
        """Whether a whole call and its record still fit into the claim; not so when suspended or starved since."""
        left = self.policy.claim - (self.clock() - asked_at)
        return left >= self.policy.http_deadline + FINALIZE_BUDGET

    def _claim(self, reminder_id: UUID, delivery_key: str) -> Claim | str:
        token = uuid7()
        for pause in (*BUSY_PAUSES, None):
            claim = self._ask(reminder_id, delivery_key, token)
            if claim is not None:
                return claim
            reason = self.claims.refusal(reminder_id, delivery_key)
            if reason == "shadow":
                reason = self.shadow(reminder_id, delivery_key)
            if reason != "busy" or pause is None:
                logger.info("deliver.no_claim reason=%s key=%s", reason, delivery_key)
                events.add(f"{REFUSED}{reason}")
                return reason
            self.pause(pause)
        raise AssertionError("the last pause is None")

    def _ask(self, reminder_id: UUID, delivery_key: str, token: UUID) -> Claim | None:
        try:
            return self.claims.claim(reminder_id, delivery_key, token, self.policy.claim)
        except self.faults:
            # Crash here: perhaps `sending`, and nobody knows. The claim may have committed before its reply was lost.
            for pause in LOST_REPLY_PAUSES:
                self.pause(pause)
                try:
                    claim = self.claims.claimed_with(reminder_id, delivery_key, token)
                except self.faults:
                    continue
                if claim is not None:
                    return claim
                break
            raise

    def _provider(self, channel: str) -> Provider | None:
        try:
            provider = self.providers(channel)
        except Exception:
            logger.exception("deliver.no_provider channel=%s: it cannot be set up in this worker", channel)
            return None
        if provider is None:
            logger.error("deliver.no_provider channel=%s: this worker lacks it", channel)
        return provider

    def _call(self, provider: Provider, claim: Claim, body: bytes) -> Outcome:
        # A provider must not raise and must return an outcome; one that does otherwise may have sent.
        try:
            outcome: object = provider.send(claim.delivery, body, self.policy.http_deadline)
            if isinstance(outcome, Outcome):
                return well_formed(outcome)
        except (Exception, SystemExit) as error:  # noqa: BLE001 (another package's)
            at = (claim.delivery.channel, claim.delivery.delivery_key, origin(error))
            logger.error("deliver.provider_raised channel=%s key=%s: %s", *at)  # noqa: TRY400 (not its text)
            return Unknown(error_class="provider_raised", reason=type(error).__name__, blameless=True)
        logger.error(
            "deliver.no_outcome channel=%s key=%s type=%s",
            claim.delivery.channel, claim.delivery.delivery_key, type(outcome).__name__,
        )  # fmt: skip
        what = f"the provider returned {type(outcome).__name__}"
        return Unknown(error_class="no_outcome", reason=what, blameless=True)

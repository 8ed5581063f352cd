"""Why a reminder that is due has not been sent yet, and whose doing that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reminders.domain.pipeline_faults import PIPELINE_FAULTS

Verdict = Literal["us", "them", "wanted"]
"""`us`: this installation. `them`: the destination. `wanted`: somebody has asked for it, an operator or the user."""

OUR_FAULTS = (
    *PIPELINE_FAULTS, "worker_lost", "worker_shut_down", "internal", "not_configured", "allowance_unknown",
    "provider_raised", "no_outcome", "look_up_raised", "no_answer",
)  # fmt: skip
"""Error classes of attempts that say nothing against the destination."""


@dataclass(frozen=True, slots=True)
class LateReason:
    """One reason. `words` say it in one line, `to_do` what comes next; in braces is what it is done to, as `step` fills it in."""

    verdict: Verdict
    words: str
    to_do: str

    def step(self, *, tenant: str, reminder: object, destination: object, hold: object) -> str:
        """What comes next, for reminders of a tenant of which one is `reminder`; `hold` is the pause, drain or cap."""
        return self.to_do.format(tenant=tenant, reminder=reminder, destination=destination, hold=hold)


_STATUS = "`reminders status`"
_MENDED = "once it is mended: `reminders destination release {destination}`"
_STOP_THERE = "to stop it: `reminders pause --destination {destination} --reason ...`"

LATE_REASONS: dict[str, LateReason] = {
    "no_dispatcher": LateReason(
        "us", "no scanner has looked for its tenant of late", f"do its scanner and Redis run? {_STATUS}"
    ),
    "not_leased": LateReason("us", "no scan has taken it yet", f"is there room in flight? {_STATUS}"),
    "leased": LateReason("us", "a scan has taken it and not published it", f"does Redis take it? {_STATUS}"),
    "lease_ended": LateReason("us", "the scan that had taken it ended", f"the next scan takes it: {_STATUS}"),
    "published": LateReason("us", "its message waits for a worker", f"do workers run? {_STATUS}"),
    "message_late": LateReason("us", "no worker took its message in time", f"do workers run? {_STATUS}"),
    "claim_ended": LateReason("us", "its worker was lost in the call", f"the next scan repairs it: {_STATUS}"),
    "retry_ours": LateReason(
        "us", "an attempt failed by our own fault", "`reminders show {reminder}`, and the workers' log"
    ),
    "given_back": LateReason(
        "us", "a worker took it and could not send it", "`reminders doctor`, and the workers' log"
    ),
    "channel_held": LateReason("us", "our credentials were refused", "`reminders tenant show {tenant}`"),
    "put_off": LateReason("us", "put off for some seconds, for lack of room", f"it comes again; {_STATUS}"),
    "calling": LateReason("them", "called, and there is no answer yet", _STOP_THERE),
    "behind_slow": LateReason("them", "calls there hang, and it waits for them", _STOP_THERE),
    "times_out": LateReason("them", "calls there time out: a few at a time", _STOP_THERE),
    "retry": LateReason("them", "an attempt failed; it waits for the next", "`reminders show {reminder}`"),
    "breaker": LateReason("them", "its destination's breaker is open", _MENDED),
    "asked_to_wait": LateReason("them", "its destination asked for a pause", _MENDED),
    "paused": LateReason("wanted", "paused", "`reminders resume {hold} --rate 50/s`"),
    "resumed": LateReason("wanted", "resumed, and let go in its turn", "faster: `reminders resume {hold} --rate ...`"),
    "tenant_off": LateReason("wanted", "its tenant is off", "`reminders tenant set {tenant} --mode live --reason ...`"),
    "draining": LateReason("wanted", "drained, and let go in its turn", "`reminders drain --list`"),
    "drain_stopped": LateReason("wanted", "its drain was stopped", "`reminders resume {hold} --rate 50/s`"),
    "cap": LateReason("wanted", "waits for its turn under a cap", "`reminders rate list`"),
    "quiet_hours": LateReason(
        "wanted", "its user has quiet hours", "it is sent when they end: `reminders show {reminder}`"
    ),
}
"""By the name that `reminders late --json` gives. A reminder has one: the first that holds of those that the ledger asks."""

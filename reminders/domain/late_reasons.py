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
    """One reason. `words` say it in one line, `to_do` which command comes next."""

    verdict: Verdict
    words: str
    to_do: str


LATE_REASONS: dict[str, LateReason] = {
    "no_dispatcher": LateReason("us", "no scanner runs for its tenant", "start the scanner line: `reminders status`"),
    "not_leased": LateReason("us", "no scan has taken it yet", "is there room in flight? `reminders status`"),
    "leased": LateReason("us", "a scan has taken it and not published it", "does Redis take it? `reminders status`"),
    "lease_ended": LateReason("us", "the scan that had taken it ended", "the next scan takes it: `reminders status`"),
    "published": LateReason("us", "its message waits for a worker", "do workers run? `reminders status`"),
    "message_late": LateReason("us", "no worker took its message in time", "do workers run? `reminders status`"),
    "claim_ended": LateReason("us", "its worker was lost in the call", "the next scan repairs it: `reminders status`"),
    "retry_ours": LateReason("us", "an attempt failed by our own fault", "the workers' log; `reminders show ID`"),
    "channel_held": LateReason("us", "our credentials were refused", "`reminders tenant show TENANT`"),
    "put_off": LateReason("us", "put off for some seconds, for lack of room", "`reminders status`"),
    "calling": LateReason("them", "called, and there is no answer yet", "`reminders destination show ID`"),
    "behind_slow": LateReason("them", "calls there hang, and it waits for them", "`reminders destination show ID`"),
    "times_out": LateReason("them", "calls there time out: a few at a time", "`reminders destination show ID`"),
    "retry": LateReason("them", "an attempt failed; it waits for the next", "`reminders show ID`"),
    "breaker": LateReason("them", "its destination's breaker is open", "`reminders destination show ID`"),
    "asked_to_wait": LateReason("them", "its destination asked for a pause", "`reminders destination show ID`"),
    "paused": LateReason("wanted", "paused", "`reminders resume PAUSE --rate 50/s`"),
    "resumed": LateReason("wanted", "resumed, and let go in its turn", "`reminders pause list`"),
    "tenant_off": LateReason("wanted", "its tenant is off", "`reminders tenant set TENANT --mode live`"),
    "draining": LateReason("wanted", "drained, and let go in its turn", "`reminders drain --list`"),
    "drain_stopped": LateReason("wanted", "its drain was stopped", "`reminders drain --list`"),
    "cap": LateReason("wanted", "waits for its turn under a cap", "`reminders rate list`"),
    "quiet_hours": LateReason("wanted", "its user has quiet hours", "`reminders recipient show`"),
}
"""By the name that `reminders late --json` gives. A reminder has one: the first that holds of those that the ledger asks."""

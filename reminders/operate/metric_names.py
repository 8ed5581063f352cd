"""Every metric there is: name, kind, labels, meaning. Labels are bounded: no tenant, user, address, key, host or process."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `meaning` is one sentence; `counter` names end in `_total`, ages and spans are seconds."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    meaning: str
    labels: tuple[str, ...] = ()


DEFINITIONS = (
    # -- the observer itself
    Definition("reminders_source_up", "gauge", "Whether the ledger, or the broker, answered this scrape.", ("source",)),
    Definition("reminders_scrape_seconds", "gauge", "How long this scrape has taken."),
    Definition("reminders_build_info", "gauge", "Always 1; the release that answers.", ("version",)),
    # -- lateness and throughput, from the ledger's record
    Definition("reminders_called_late_seconds", "histogram", "First calls, by how long after they could be made (due, and neither held nor waiting for a turn) they were made.", ("channel",)),
    Definition("reminders_delivered_late_seconds", "histogram", "Deliveries, by how long after the due time they were confirmed, whatever the reason.", ("channel",)),
    Definition("reminders_attempts_total", "counter", "Attempts on record, by what they came to.", ("channel", "outcome")),
    Definition("reminders_retries_total", "counter", "Attempts that were not a reminder's first.", ("channel",)),
    Definition("reminders_look_ups_total", "counter", "Questions to the far side whether an earlier attempt took effect.", ("channel", "outcome")),
    Definition("reminders_counted_lag_seconds", "gauge", "Up to how long ago attempts are counted in the metrics above; +Inf if they never were."),
    # -- where reminders are now
    Definition("reminders_oldest_due_age_seconds", "gauge", "For how long the reminder has been due that waits longest to be called; not what is held."),
    Definition("reminders_due", "gauge", "Reminders past the time at which they are looked at again, by status.", ("status",)),
    Definition("reminders_in_flight", "gauge", "Reminders on their way to a worker, or under a claim.", ("status",)),
    Definition("reminders_leases_past_end", "gauge", "Leases that have ended without a message: a scanner died, or the broker refused."),
    Definition("reminders_claims_past_end", "gauge", "Claims that have ended without an outcome and wait to be repaired."),
    Definition("reminders_parked", "gauge", "Reminders that wait for a retry."),
    Definition("reminders_held", "gauge", "Reminders that are held, by why; of those that wait for the end of a destination's or channel's hold, up to 10,000.", ("reason",)),
    # -- what is in doubt, or needs a person
    Definition("reminders_review_open", "gauge", "Dead letters that are open, by kind.", ("kind",)),
    Definition("reminders_review_oldest_age_seconds", "gauge", "For how long the oldest open dead letter has been.", ("kind",)),
    Definition("reminders_unknown", "gauge", "Live reminders of which an earlier attempt's outcome is unknown."),
    Definition("reminders_unknown_oldest_age_seconds", "gauge", "For how long the oldest outcome has been unknown, live or in review."),
    Definition("reminders_notices_open", "gauge", "Notices that nobody has seen."),
    Definition("reminders_breakers", "gauge", "Destinations whose breaker is not closed.", ("state",)),
    # -- the processes
    Definition("reminders_beat_tick_age_seconds", "gauge", "Since beat's last tick that a scanner took; +Inf if there was none."),
    Definition("reminders_beat_period_seconds", "gauge", "REMINDERS_SCAN_EVERY of this process."),
    Definition("reminders_ticks_total", "counter", "Wake-ups of the scan, by who sent them.", ("by",)),
    Definition("reminders_ticks_dropped_total", "counter", "Wake-ups that no scanner took in time, by who sent them.", ("by",)),
    Definition("reminders_processes", "gauge", "Worker processes alive, by queue; one of several queues counts in each.", ("queue",)),
    Definition("reminders_progress_age_seconds", "gauge", "By queue, for how long that process has not got on which has got on least lately: finished a task, looked, or been idle and asked for work.", ("queue",)),
    Definition("reminders_processes_silent", "gauge", "Worker processes that fell silent without having signed off and were not replaced, by queue: frozen, or killed. Known for an hour.", ("queue",)),
    Definition("reminders_silence_seconds", "gauge", "By queue, for how long that one of them has been silent that has been for longest.", ("queue",)),
    Definition("reminders_queue_messages", "gauge", "Messages that wait on the broker.", ("queue",)),
    Definition("reminders_unacknowledged_messages", "gauge", "Messages that workers have taken and not acknowledged, a killed one's included."),
    # -- counted by the processes, kept on the broker
    Definition("reminders_publish_failures_total", "counter", "Messages that the broker did not surely take; their leases' ends bring them back."),
    Definition("reminders_claims_refused_total", "counter", "Messages that got no claim, by why.", ("reason",)),
    Definition("reminders_duplicates_suppressed_total", "counter", "Of these, messages of what had been claimed before: they would have been a second call."),
    Definition("reminders_given_up_total", "counter", "Reminders that the scan ended since they had waited too long, by what they became.", ("status",)),
    Definition("reminders_foreign_messages_total", "counter", "Messages that were dropped because they are not ours."),
    # -- the database
    Definition("reminders_clock_skew_seconds", "gauge", "How far the database's clock is ahead of the clock of the host that answers."),
    Definition("reminders_oldest_transaction_age_seconds", "gauge", "Age of the oldest open transaction in the database, prepared ones included."),
    Definition("reminders_transactions_unseen", "gauge", "Sessions of other roles whose transactions this role may not see."),
)  # fmt: skip

BY_NAME = {each.name: each for each in DEFINITIONS}

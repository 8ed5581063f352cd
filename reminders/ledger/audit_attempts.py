"""What must hold of the attempts on record, and of claims against cancellation, expiry, review and uncertainty."""

from __future__ import annotations

from reminders.domain.pipeline_faults import PIPELINE_FAULTS
from reminders.ledger.audit_check import Check

# The first claim after a redrive opens a new budget, and an operator's word has settled what was unknown before; so has
# a look-up that found the key absent.
_UNKNOWN_IN_BUDGET = """{s}.notification_deliveries n
JOIN {s}.delivery_attempts u ON u.delivery_key = n.delivery_key AND u.outcome = 'unknown' AND u.claimed_at >= n.budget_started_at
 AND NOT EXISTS (SELECT 1 FROM {s}.delivery_attempts l WHERE l.delivery_key = u.delivery_key
                 AND l.claim_number > u.claim_number AND l.error_class = 'looked_up_absent')"""
_LATE = "'late: %'"
"""How the decision of an attempt begins that reported after its claim had lapsed."""
_BURNT_NOTHING = "(a.error_class = 'worker_shut_down' OR a.decision LIKE 'late: %in a shutdown')"
"""An attempt whose worker was told to stop and ended during it: on record, and not counted."""
_NOTHING_SENT = ", ".join(f"'{each}'" for each in ("worker_lost", "worker_shut_down", *PIPELINE_FAULTS))
"""Error classes of attempts of which no body is known: the worker died, or the fault was ours and nothing was sent."""
_ASK = "Ask the receiver how often it got the key (`webhook-id`, `Idempotency-Key`) "

ATTEMPTS: tuple[Check, ...] = (
    Check(
        "attempt_without_claim",
        "Every attempt belongs to a claim: its key has a delivery of the same reminder that has got as far as its number.",
        "claimed",
        """
SELECT a.reminder_id, a.delivery_key, 'attempt ' || a.claim_number || ' at ' || a.claimed_at || ', and the delivery ' ||
       CASE WHEN n.delivery_key IS NULL THEN 'is missing' WHEN n.reminder_id <> a.reminder_id THEN 'is another reminder''s'
            ELSE 'is at claim ' || n.claim_number END
FROM {s}.delivery_attempts a LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = a.delivery_key
WHERE a.claimed_at >= :since
  AND (n.delivery_key IS NULL OR n.reminder_id <> a.reminder_id OR a.claim_number > n.claim_number)""",
        f"A provider was called without the right to it, or rows were deleted by hand. {_ASK}and keep the rows as evidence.",
    ),
    Check(
        "attempt_off_its_claim",
        "A claim has one attempt on record at most, and it bears the claim's own time.",
        "claimed",
        """
SELECT a.reminder_id, a.delivery_key, 'attempt ' || a.claim_number || ' at ' || a.claimed_at || ' is a second one or not the claim''s'
FROM {s}.delivery_attempts a JOIN {s}.notification_deliveries n ON n.delivery_key = a.delivery_key
WHERE a.claimed_at >= :since AND a.claim_number <= n.claim_number
  AND CASE WHEN a.claim_number = n.claim_number THEN a.claimed_at <> n.claimed_at
           ELSE EXISTS (SELECT 1 FROM {s}.delivery_attempts b WHERE b.delivery_key = a.delivery_key
                        AND b.claim_number = a.claim_number AND b.claimed_at < a.claimed_at) END""",
        "Repair and a late outcome have not met on one row: keep the rows as evidence, and report it as a fault of reminders.",
    ),
    Check(
        "attempts_overlap",
        "Attempts at one key do not overlap: a claim begins after the outcome of every earlier one was recorded.",
        "claimed",
        """
SELECT a.reminder_id, a.delivery_key, 'claim ' || b.claim_number || ' began at ' || b.claimed_at || ', attempt ' ||
       a.claim_number || ' was recorded at ' || a.recorded_at
FROM (SELECT delivery_key, claim_number, claimed_at FROM {s}.delivery_attempts WHERE claim_number > 1 AND claimed_at >= :since
      UNION
      SELECT delivery_key, claim_number, claimed_at FROM {s}.notification_deliveries WHERE claim_number > 1 AND status = 'sending') b
JOIN {s}.delivery_attempts a ON a.delivery_key = b.delivery_key AND a.claim_number < b.claim_number AND a.recorded_at > b.claimed_at
 AND a.claimed_at >= :since - interval '1 day'""",
        f"Two claims were open at once, or the database's clock was set back. {_ASK}and look for a restore or failover at "
        "that time.",
    ),
    Check(
        "attempts_missing",
        "Of what is live or in review, the attempts that the ledger has counted since the last redrive are those on record. "
        "(One that its worker's shutdown cut off is not counted.)",
        "live",
        f"""
SELECT c.reminder_id, c.delivery_key, c.counted || ' attempts counted, ' || count(DISTINCT a.claim_number) || ' on record'
FROM (SELECT d.id AS reminder_id, d.delivery_key, d.attempts AS counted, n.budget_started_at,
             n.claim_number - CASE d.status WHEN 'sending' THEN 1 ELSE 0 END AS ended
      FROM {{s}}.due d LEFT JOIN {{s}}.notification_deliveries n ON n.delivery_key = d.delivery_key
      WHERE d.attempts > 0 OR n.delivery_key IS NOT NULL
      UNION ALL
      SELECT l.reminder_id, l.delivery_key, l.attempts, n.budget_started_at, n.claim_number
      FROM {{s}}.dead_letters l JOIN {{s}}.notification_deliveries n ON n.delivery_key = l.delivery_key
      JOIN {{s}}.reminders r ON r.id = l.reminder_id
      WHERE l.state = 'open' AND r.status = 'dead') c
LEFT JOIN {{s}}.delivery_attempts a
       ON a.delivery_key = c.delivery_key AND a.claimed_at >= c.budget_started_at AND a.claim_number <= c.ended
      AND (a.outcome <> 'blocked' OR a.decision LIKE {_LATE}) AND NOT {_BURNT_NOTHING}
GROUP BY c.reminder_id, c.delivery_key, c.counted
HAVING count(DISTINCT a.claim_number) <> c.counted""",
        f"Attempts were made that nobody can account for, or rows were changed by hand. {_ASK}before it is sent again.",
    ),
    Check(
        "claims_unaccounted",
        "Every claim that has ended has its attempt on record, or was counted as given back uncalled.",
        "claimed",
        """
SELECT n.reminder_id, n.delivery_key, n.ended || ' claims ended, ' || n.given_back || ' of them given back, and ' ||
       count(DISTINCT a.claim_number) || ' attempts are on record'
FROM (SELECT reminder_id, delivery_key, given_back, claim_number - CASE status WHEN 'sending' THEN 1 ELSE 0 END AS ended
      FROM {s}.notification_deliveries WHERE claimed_at >= :since AND given_back IS NOT NULL) n
LEFT JOIN {s}.delivery_attempts a ON a.delivery_key = n.delivery_key AND a.claim_number <= n.ended
GROUP BY n.reminder_id, n.delivery_key, n.ended, n.given_back
HAVING count(DISTINCT a.claim_number) <> n.ended - n.given_back""",
        f"A provider may have been called without a record, or attempts were deleted. {_ASK}and keep the rows as evidence.",
    ),
    Check(
        "open_claim_with_outcome",
        "An open claim has no outcome yet.",
        "live",
        """
SELECT n.reminder_id, n.delivery_key, 'claim ' || n.claim_number || ' is open, and has ended as ' || a.outcome
FROM {s}.due d JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
JOIN {s}.delivery_attempts a
  ON a.delivery_key = n.delivery_key AND a.claim_number = n.claim_number AND a.claimed_at = n.claimed_at
WHERE d.status = 'sending' AND n.status = 'sending'""",
        "The claim's end would repeat what is known: end the delivery by hand as its attempt says.",
    ),
    Check(
        "claim_after_cancel",
        "No claim is taken after a cancellation was answered, or requested.",
        "claimed",
        """
SELECT r.id, r.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', cancelled at ' ||
       LEAST(r.cancel_requested_at, CASE r.status WHEN 'cancelled' THEN r.finished_at END)
FROM {s}.reminders r JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE n.claimed_at >= :since AND (r.status = 'cancelled' OR r.cancel_requested_at IS NOT NULL)
  AND n.claimed_at > LEAST(r.cancel_requested_at, CASE r.status WHEN 'cancelled' THEN r.finished_at END)""",
        "It was sent, or nearly so, after somebody was told that it would not be: tell them what `reminders show ID` says. "
        "A database clock that was set back shows the same.",
    ),
    Check(
        "claim_after_expiry",
        "No claim is taken after the reminder's expiry, save after a redrive.",
        "claimed",
        """
SELECT r.id, r.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', expired at ' || r.expires_at
FROM {s}.reminders r JOIN {s}.notification_deliveries n ON n.delivery_key = r.delivery_key
WHERE n.claimed_at >= :since AND n.claimed_at >= r.expires_at
  AND NOT EXISTS (SELECT 1 FROM {s}.dead_letters l WHERE l.reminder_id = r.id AND l.delivery_key = r.delivery_key
                  AND l.state = 'redriven')""",
        "It came too late to be of use. If nobody changed `expires_at` by hand, report it as a fault of reminders.",
    ),
    Check(
        "claim_under_review",
        "While a dead letter is open no claim is taken under its key.",
        "letters",
        """
SELECT l.reminder_id, l.delivery_key, 'claim ' || c.claim_number || ' at ' || c.claimed_at || ', letter ' || l.id ||
       ' was open from ' || l.opened_at || COALESCE(' to ' || l.closed_at, '')
FROM {s}.dead_letters l CROSS JOIN LATERAL (
    SELECT claim_number, claimed_at FROM {s}.delivery_attempts a WHERE a.delivery_key = l.delivery_key
    UNION
    SELECT claim_number, claimed_at FROM {s}.notification_deliveries n WHERE n.delivery_key = l.delivery_key) c
WHERE (l.state = 'open' OR l.opened_at >= :since) AND c.claimed_at > l.opened_at
  AND c.claimed_at < COALESCE(l.closed_at, 'infinity')""",
        f"It was sent again without a person's word. {_ASK}and close the letter by what it says.",
    ),
    Check(
        "claim_after_success",
        "After an attempt that delivered no claim is taken. (What reported its success late is exempt.)",
        "claimed",
        f"""
SELECT a.reminder_id, a.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', and attempt ' || a.claim_number ||
       ' had delivered'
FROM {{s}}.delivery_attempts a JOIN {{s}}.notification_deliveries n ON n.delivery_key = a.delivery_key
WHERE a.claimed_at >= :since AND a.outcome = 'delivered' AND a.decision NOT LIKE {_LATE} AND n.claim_number > a.claim_number""",
        f"The receiver got it twice, and must have recognised the key. {_ASK}and tell whoever got two.",
    ),
    Check(
        "success_forgotten",
        "An attempt that delivered has ended its delivery, or is noted on it as late.",
        "claimed",
        """
SELECT a.reminder_id, a.delivery_key, 'attempt ' || a.claim_number || ' delivered, and the delivery is ' || n.status
FROM {s}.delivery_attempts a JOIN {s}.notification_deliveries n ON n.delivery_key = a.delivery_key
WHERE a.claimed_at >= :since AND a.outcome = 'delivered' AND n.status <> 'delivered' AND n.confirmed_late_at IS NULL""",
        "It may be sent a second time: set `confirmed_late_at` of the delivery, and the next claim, repair or redrive ends "
        "it as delivered.",
    ),
    Check(
        "unknown_repeated",
        "Where the destination does not deduplicate (the claim's stamp is `review`) no claim follows an unknown outcome "
        "before a redrive.",
        "claimed",
        f"""
SELECT n.reminder_id, n.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', and attempt ' || u.claim_number ||
       ' had ended unknown'
FROM {_UNKNOWN_IN_BUDGET}
WHERE u.claimed_at >= :since AND n.on_unknown = 'review' AND n.claim_number > u.claim_number""",
        f"It may have taken effect twice. {_ASK}and tell whoever got two.",
    ),
    Check(
        "repeated_beyond_window",
        "An attempt whose outcome is unknown is repeated within `REMINDERS_DEDUP_WINDOW` only, or after a redrive. (To look "
        "its key up repeats nothing.)",
        "claimed",
        f"""
SELECT n.reminder_id, n.delivery_key, 'claim ' || n.claim_number || ' at ' || n.claimed_at || ', and attempt ' || u.claim_number ||
       ' had ended unknown at ' || u.recorded_at
FROM {_UNKNOWN_IN_BUDGET}
WHERE u.claimed_at >= :since AND n.claim_number > u.claim_number AND n.on_unknown <> 'look_up'
  AND n.claimed_at > u.recorded_at + make_interval(secs => :window)""",
        f"The receiver may have forgotten the key. {_ASK}and tell whoever got two. If REMINDERS_DEDUP_WINDOW was lowered "
        "meanwhile, it may stand.",
    ),
    Check(
        "uncertainty_forgotten",
        "What may yet be tried again is marked uncertain from its first unknown outcome on.",
        "claimed",
        f"""
SELECT DISTINCT n.reminder_id, n.delivery_key, n.status || ', and an attempt ended unknown; uncertain_since is not set'
FROM {_UNKNOWN_IN_BUDGET}
WHERE u.claimed_at >= :since AND n.status IN ('sending', 'retrying') AND n.uncertain_since IS NULL""",
        "A later refusal would pass for certain: set `uncertain_since` of the delivery to the time of the first unknown "
        "attempt.",
    ),
    Check(
        "body_not_pinned",
        "Once an attempt that had a body has an outcome, the body's hash is kept, so that every later body must match it.",
        "claimed",
        f"""
SELECT DISTINCT a.reminder_id, a.delivery_key, n.status || ', and no body hash is kept'
FROM {{s}}.delivery_attempts a JOIN {{s}}.notification_deliveries n ON n.delivery_key = a.delivery_key
WHERE a.claimed_at >= :since AND n.body_hash IS NULL AND a.decision NOT LIKE {_LATE}
  AND a.decision NOT LIKE 'look-up: %' AND a.error_class NOT IN ({_NOTHING_SENT})""",
        "A next attempt could carry another body under the same key: cancel or discard it if it is not yet delivered.",
    ),
    Check(
        "default_partition_grows",
        "No attempt of the last day lies in the DEFAULT partition: its month's own partition was made ahead.",
        "everything",
        """
SELECT NULL::uuid, NULL::text, count(*) || ' attempts of the last day, the newest claimed at ' || max(claimed_at)
FROM {s}.delivery_attempts_default WHERE claimed_at >= :now - interval '1 day' HAVING count(*) > 0""",
        "Does the maintenance worker run? `reminders migrate` makes what is missing; a month of which attempts already lie "
        "in DEFAULT needs them moved by hand.",
    ),
)
"""Checks of what was called, when, and with whose right."""

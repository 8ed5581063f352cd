"""What a quarantine does to the reminders of a restored ledger: a verdict on each, and one statement that carries out a page.

The ledger does not know what was sent after the backup. Whatever may have been under its key is uncertain from then on: where
its destination deduplicates it is repeated with the very same key, elsewhere a person decides. Every version moves to a new
epoch, so that no key that is made from now on is one of those that the lost part of the ledger has made.
"""

from __future__ import annotations

from reminders.ledger.claim_rules import ON_UNKNOWN, PLACE
from reminders.ledger.consent_rules import SUPPRESSED
from reminders.ledger.statement import Statement

VERDICTS = {
    "review": "may have been sent, and is for review",
    "repeat": "may have been sent, and is repeated under the same key",
    "open_claim": "had a claim open, and are judged at its end",
    "unsent": "end without a call, or have been delivered",
    "asleep": "waited beyond now for a retry or the end of quiet hours",
    "ahead": "are due later, and have a new key",
    "letter": "dead letters that may have been redriven",
    "ended": "had ended",
}
"""What is decided of a reminder that is not delivered. Names are columns of `quarantines`."""

PAGE = Statement(
    "quarantine_page",
    """
WITH page AS MATERIALIZED (SELECT id FROM {s}.reminders WHERE id > :after ORDER BY id LIMIT :size)
SELECT (SELECT id::text FROM page ORDER BY id DESC LIMIT 1),
       ARRAY(SELECT r.id::text FROM page JOIN {s}.reminders r ON r.id = page.id
             WHERE r.status <> 'delivered' AND r.version < :base AND r.created_at <= :cutoff ORDER BY r.id)
""",
    {"after": "uuid", "size": "integer", "base": "integer", "cutoff": "timestamptz"},
)

LOCK_DUE = Statement(
    "quarantine_lock_due",
    "SELECT 1 FROM {s}.due WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE",
    {"ids": "uuid[]"},
)

LOCK_REMINDERS = Statement(
    "quarantine_lock_reminders",
    "SELECT 1 FROM {s}.reminders WHERE id = ANY(:ids) ORDER BY id FOR NO KEY UPDATE",
    {"ids": "uuid[]"},
)

# A pending row that wakes later than now slept from before the backup until now, unless it could be woken early: what a hold
# or a cap keeps waiting may have been let go. A call under a key is never made before the reminder is due.
_ASLEEP = """d.status = 'pending' AND d.wake_at > :cutoff
     AND (d.quiet_until = d.wake_at OR n.retry_at > :cutoff AND r.last_outcome IS DISTINCT FROM 'blocked')"""

# As of the backup these end without a call: nobody is called for what had expired, is suppressed, or is in shadow.
_UNSENT = f"n.confirmed_late_at IS NOT NULL OR r.expires_at <= :since OR qt.mode = 'shadow' OR {SUPPRESSED}"

_SEEN = f"""
WITH t AS MATERIALIZED (SELECT :cutoff AS now),
seen AS MATERIALIZED (
    SELECT r.id, r.channel, r.identity_key, r.version, r.key_version, r.delivery_key, d.attempts, l.id AS letter_id,
           first.possible_at,
           CASE
               WHEN d.id IS NULL AND r.status = 'dead' AND :letters AND n.uncertain_since IS NULL
                    AND (l.state = 'open' OR l.resolution = 'not_sent') THEN 'letter'
               WHEN d.id IS NULL THEN 'ended'
               WHEN d.status = 'sending' THEN 'open_claim'
               WHEN {_UNSENT} THEN 'unsent'
               WHEN d.status = 'pending' AND d.wake_at > :cutoff AND r.due_at > :cutoff AND n.delivery_key IS NULL THEN 'ahead'
               WHEN d.status = 'pending' AND d.wake_at > :cutoff AND r.due_at > :cutoff OR {_ASLEEP} THEN 'asleep'
               WHEN {ON_UNKNOWN} = 'repeat' AND p.disabled_at IS NULL
                    AND first.possible_at > :cutoff - make_interval(secs => :window) THEN 'repeat'
               ELSE 'review' END AS verdict
    FROM {{s}}.reminders r
    LEFT JOIN {{s}}.due d ON d.id = r.id
    {PLACE.replace("d.delivery_key", "r.delivery_key")}
    LEFT JOIN LATERAL (
        SELECT * FROM {{s}}.dead_letters x WHERE x.reminder_id = r.id AND x.delivery_key = r.delivery_key AND r.status = 'dead'
        ORDER BY x.opened_at DESC, x.id DESC LIMIT 1
    ) l ON true
    CROSS JOIN LATERAL (
        SELECT LEAST(n.uncertain_since, GREATEST(:since, r.due_at), :cutoff) AS possible_at
    ) first
    WHERE r.id = ANY(:ids)
)"""
_SEEN_TYPES = {
    "ids": "uuid[]", "since": "timestamptz", "cutoff": "timestamptz", "window": "float8", "letters": "boolean", "look_ups": "text[]",
}  # fmt: skip

COUNT = Statement("quarantine_count", f"{_SEEN} SELECT verdict, count(*) FROM seen GROUP BY verdict", _SEEN_TYPES)

# A delivery that the ledger knows nothing of gets a row to be uncertain by: its claim is none of ours, and counts as given back.
_NO_CLAIM = "'1970-01-01Z'::timestamptz"
_SUM = ", ".join(f"{name} = q.{name} + (SELECT count(*) FROM seen WHERE verdict = '{name}')" for name in VERDICTS)
WORKER = "quarantine"
"""Who has the claim of a delivery that a quarantine has begun: nobody."""
RESTORED = "restored"
"""The error class of letters that a quarantine opens."""

MOVE = Statement(
    "quarantine_move",
    f"""{_SEEN}, words AS MATERIALIZED (
    SELECT 'the ledger was restored from a backup; after ' || {{s}}.instant_text(:since) || ' it may have been sent' AS said
), marked AS (
    INSERT INTO {{s}}.notification_deliveries AS n
        (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at, claimed_until, worker, on_unknown, body_format,
         given_back, uncertain_since, retry_at, letter_kind, finished_at)
    SELECT delivery_key, id, CASE verdict WHEN 'repeat' THEN 'retrying' ELSE 'unknown' END, 1, gen_random_uuid(),
           {_NO_CLAIM}, {_NO_CLAIM} + interval '1 second', '{WORKER}', CASE verdict WHEN 'repeat' THEN 'repeat' ELSE 'review' END,
           COALESCE((:formats ->> channel)::integer, 0), 1, possible_at, CASE verdict WHEN 'repeat' THEN :cutoff END,
           CASE verdict WHEN 'repeat' THEN NULL ELSE 'unknown' END, CASE verdict WHEN 'repeat' THEN NULL ELSE clock_timestamp() END
    FROM seen WHERE verdict IN ('repeat', 'review', 'letter')
    ON CONFLICT (delivery_key) DO UPDATE
    SET status = EXCLUDED.status, uncertain_since = EXCLUDED.uncertain_since, letter_kind = EXCLUDED.letter_kind,
        finished_at = EXCLUDED.finished_at
), stamped AS (
    UPDATE {{s}}.notification_deliveries n
    SET on_unknown = CASE n.on_unknown WHEN 'look_up' THEN 'review' ELSE n.on_unknown END,
        uncertain_since = CASE n.status WHEN 'retrying' THEN seen.possible_at ELSE n.uncertain_since END
    FROM seen WHERE seen.verdict = 'open_claim' AND n.delivery_key = seen.delivery_key AND n.status IN ('sending', 'retrying')
), gone AS (
    DELETE FROM {{s}}.due d USING seen WHERE d.id = seen.id AND seen.verdict = 'review'
), rekeyed AS (
    UPDATE {{s}}.due d SET delivery_key = {{s}}.delivery_key(seen.identity_key, :base)
    FROM seen WHERE d.id = seen.id AND seen.verdict = 'ahead'
), opened AS (
    INSERT INTO {{s}}.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
    SELECT {{s}}.uuid7(), id, delivery_key, 'unknown', '{RESTORED}', said, attempts FROM seen CROSS JOIN words WHERE verdict = 'review'
    ON CONFLICT (reminder_id) WHERE state = 'open' DO NOTHING
), reopened AS (
    UPDATE {{s}}.dead_letters l SET kind = 'unknown', reason = left(said || '; before that: ' || l.reason, 500)
    FROM seen CROSS JOIN words WHERE l.id = seen.letter_id AND seen.verdict = 'letter' AND l.state = 'open'
), moved AS (
    UPDATE {{s}}.reminders r
    SET version = :base, delivery_key = k.new_key,
        key_version = CASE WHEN seen.verdict = 'ahead' THEN NULL
                           WHEN {{s}}.delivery_key(seen.identity_key, seen.version) = seen.delivery_key THEN seen.version
                           ELSE seen.key_version END,
        status = CASE seen.verdict WHEN 'review' THEN 'dead' ELSE r.status END,
        finished_at = CASE seen.verdict WHEN 'review' THEN clock_timestamp() ELSE r.finished_at END
    FROM seen CROSS JOIN LATERAL (
        SELECT CASE seen.verdict WHEN 'ahead' THEN {{s}}.delivery_key(seen.identity_key, :base) ELSE seen.delivery_key END AS new_key
    ) k
    WHERE r.id = seen.id
)
UPDATE {{s}}.quarantines q SET reached = :reached, {_SUM} WHERE q.id = :quarantine RETURNING 1
""",
    {**_SEEN_TYPES, "formats": "jsonb", "base": "integer", "reached": "uuid", "quarantine": "uuid"},
)

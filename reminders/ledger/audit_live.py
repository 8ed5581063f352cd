"""What must hold of everything that is live: it has its row in `due`, and something will wake it in time."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from reminders.domain.identity import delivery_key, destination_id, identity_key
from reminders.ledger.audit_check import Check

# A backlog that is being worked off is late, not stuck: the scan has no room for more, or none for what goes to queue
# `retry`, which may use a quarter of it, or none for a destination that holds its tenth of it (half of that is tolerated).
_ROOM = """(SELECT count(*) FROM {s}.due WHERE status IN ('published', 'sending') AND wake_at > :now) < GREATEST(1, :in_flight / 4)
  AND (d.destination_id IS NULL OR d.destination_id NOT IN (
      SELECT destination_id FROM {s}.due
      WHERE status IN ('published', 'sending') AND wake_at > :now AND destination_id IS NOT NULL
      GROUP BY destination_id HAVING count(*) >= GREATEST(1, :in_flight / 20)))"""


def _key_fault(row: tuple[Any, ...]) -> str | None:
    (
        _,
        key,
        tenant,
        user,
        reference,
        kind,
        channel,
        slot,
        due_at,
        version,
        identity,
        address,
        place,
        series,
        turn,
        before,
    ) = row
    identity = bytes(identity)
    reference = reference if series is None else series
    # Moved without a reference, its identity is still that of the instant it was first scheduled for.
    known = reference is not None or version == 1
    parts = {
        "tenant_id": tenant,
        "user_id": user,
        "kind": kind,
        "channel": channel,
        "slot": slot,
        "recurrence_id": turn or "",
    }
    if known and identity_key(**parts, reference=reference, due_at=due_at) != identity:
        return "identity_key is not that of its tenant, user, reference, kind, channel and slot"
    # What may have been sent before a restore keeps the key of the version that it had then.
    if key not in {delivery_key(identity, each) for each in (version, before) if each is not None}:
        return f"delivery_key is not that of its identity and version {version}"
    if destination_id(tenant, channel, address) != UUID(place):
        return "destination_id is not that of its tenant, channel and destination"
    return None


LIVE: tuple[Check, ...] = (
    Check(
        "live_without_due",
        "A live reminder has a row in `due`.",
        "everything",
        """
SELECT r.id, r.delivery_key, 'live since ' || r.created_at || ', due at ' || r.due_at || ', and no scan will find it'
FROM {s}.reminders r WHERE r.status = 'live' AND NOT EXISTS (SELECT 1 FROM {s}.due d WHERE d.id = r.id)""",
        "It is lost as it stands. If `reminders show ID` has no attempt that may have been sent, "
        "`reminders reschedule ID --due-at +1m` brings it back.",
    ),
    Check(
        "ended_but_due",
        "A reminder that has ended has no row in `due`.",
        "live",
        """
SELECT d.id, d.delivery_key, 'ended as ' || r.status || ', and still ' || d.status || ' in due'
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id WHERE r.status <> 'live'""",
        "A claim would still succeed: delete its row from `due` at once, then read in `reminders show ID` whether it was "
        "sent after its end.",
    ),
    Check(
        "due_under_another_key",
        "The key in `due` is the reminder's.",
        "live",
        """
SELECT d.id, d.delivery_key, 'the reminder has ' || r.delivery_key
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id WHERE r.status = 'live' AND d.delivery_key <> r.delivery_key""",
        "It would be sent under a key that its receiver cannot match: set the reminder's key in `due` while the row is "
        "pending.",
    ),
    Check(
        "sending_without_claim",
        "What is `sending` in `due` has a delivery with a claim, open or just ended.",
        "live",
        """
SELECT d.id, d.delivery_key, 'sending, and its delivery is ' || COALESCE(n.status, 'missing')
FROM {s}.due d LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
WHERE d.status = 'sending' AND (n.status IS NULL OR n.status IN ('expired', 'superseded'))""",
        "Repair cannot judge it. Find out from the receiver whether the key arrived, then end it or set it to pending by "
        "hand.",
    ),
    Check(
        "claim_without_sending",
        "An open claim belongs to a reminder that is `sending` in `due` under its key, so one reminder has one open claim "
        "at most.",
        "everything",
        """
SELECT n.reminder_id, n.delivery_key, 'claim ' || n.claim_number || ' by ' || n.worker || ' until ' || n.claimed_until ||
       ' is open, and due has ' || COALESCE(d.status || ' under ' || d.delivery_key, 'no row')
FROM {s}.notification_deliveries n LEFT JOIN {s}.due d ON d.id = n.reminder_id
WHERE n.status = 'sending' AND (d.id IS NULL OR d.status <> 'sending' OR d.delivery_key <> n.delivery_key)""",
        "Nothing will end this claim, and another one may be taken beside it. Find out from the receiver whether the key "
        "arrived, then end the delivery by hand.",
    ),
    Check(
        "claim_end_not_watched",
        "What is `sending` wakes at the end of its claim.",
        "live",
        """
SELECT d.id, d.delivery_key, 'wakes at ' || d.wake_at || ', and its claim ends at ' || n.claimed_until
FROM {s}.due d JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
WHERE d.status = 'sending' AND d.wake_at <> n.claimed_until""",
        "Set `wake_at` in `due` to the claim's end; the next look repairs it.",
    ),
    Check(
        "claim_not_repaired",
        "A claim is ended, or repaired, within the grace after its time.",
        "live",
        """
SELECT d.id, d.delivery_key, 'the claim ended at ' || d.wake_at || ', and nobody has repaired it'
FROM {s}.due d WHERE d.status = 'sending' AND d.wake_at <= :stale""",
        "Is a scanner running (`reminders status`)? If so, somebody's open transaction holds the row: look for it in "
        "`pg_stat_activity` and end it.",
    ),
    Check(
        "overdue",
        "What is due is taken within the grace, while there is room for it in flight.",
        "live",
        f"""
SELECT d.id, d.delivery_key, 'pending, due since ' || GREATEST(d.wake_at, r.created_at)
FROM {{s}}.due d JOIN {{s}}.reminders r ON r.id = d.id
WHERE d.status = 'pending' AND d.wake_at <= :stale AND r.created_at <= :stale AND {_ROOM}""",
        "Do beat, a scanner and Redis run (`reminders status`)? `reminders scan` takes it now; if it does not, somebody's "
        "open transaction holds the row (`pg_stat_activity`).",
    ),
    Check(
        "message_overdue",
        "What was leased or published is claimed, or taken again, within the grace after its deadline, while there is "
        "room for it in flight.",
        "live",
        f"""
SELECT d.id, d.delivery_key, d.status || ' until ' || d.wake_at
FROM {{s}}.due d WHERE d.status IN ('leased', 'published') AND d.wake_at <= :stale AND {_ROOM}""",
        "Do workers consume its queue, and do a scanner and Redis run (`reminders status`)? `reminders scan` publishes it "
        "again.",
    ),
    Check(
        "waits_beyond_bound",
        "Nothing waits longer than `REMINDERS_MAX_WAIT` beyond its time, and no lease, message or claim lasts over a day. "
        "(What a redrive has spread out, or waits for the end of quiet hours, is exempt.)",
        "live",
        """
SELECT d.id, d.delivery_key, d.status || ', wakes at ' || d.wake_at
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
WHERE d.wake_at > CASE d.status WHEN 'pending' THEN GREATEST(r.due_at, :now) + make_interval(secs => :max_wait)
                                ELSE :now + interval '25 hours' END
  AND (d.status <> 'pending' OR d.quiet_until IS DISTINCT FROM d.wake_at)
  AND NOT (d.status = 'pending' AND n.budget_started_at IS NULL AND EXISTS (
      SELECT 1 FROM {s}.dead_letters l WHERE l.reminder_id = d.id AND l.delivery_key = d.delivery_key AND l.state = 'redriven'))""",
        "Set `wake_at` in `due` to an earlier time, or reschedule it. If REMINDERS_MAX_WAIT was lowered meanwhile, it may "
        "stand.",
    ),
    Check(
        "waits_beyond_its_end",
        "Nothing waits beyond the time at which it is to be given up, save under an open claim.",
        "live",
        """
SELECT d.id, d.delivery_key, d.status || ', wakes at ' || d.wake_at || ', to be given up at ' || d.give_up_at
FROM {s}.due d WHERE d.status <> 'sending' AND d.wake_at > d.give_up_at""",
        "It is ended in time all the same. Report it as a fault of reminders.",
    ),
    Check(
        "not_given_up",
        "What has expired, or has waited as long as it may, is ended within the grace.",
        "live",
        """
SELECT d.id, d.delivery_key, d.status || ', to be given up at ' || d.give_up_at
FROM {s}.due d WHERE d.status <> 'sending' AND d.give_up_at <= :stale""",
        "No claim can succeed any more, but nobody is told. Does a scanner run (`reminders status`)? If so, somebody's open "
        "transaction holds the row (`pg_stat_activity`).",
    ),
    Check(
        "due_of_another",
        "A row of `due` is in a lane of its reminder's tenant, names its destination, and is given up at its expiry at the "
        "latest.",
        "live",
        """
SELECT d.id, d.delivery_key, 'lane, destination or end in due are not those of its reminder'
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
WHERE d.lane NOT IN (r.tenant_id, r.tenant_id || chr(31) || r.destination_id)
   OR d.destination_id <> r.destination_id OR d.give_up_at > r.expires_at""",
        "Fairness, or its end, goes by what is true of another: correct the row of `due` while it is pending.",
    ),
    Check(
        "too_many_attempts",
        "What is live has attempts left.",
        "live",
        """
SELECT d.id, d.delivery_key, d.attempts || ' attempts used'
FROM {s}.due d WHERE d.attempts >= :max_attempts""",
        "It ends with its next attempt. If REMINDERS_MAX_ATTEMPTS was lowered meanwhile, that is all; if not, something "
        "has bypassed the retry policy: read `reminders show ID`.",
    ),
    Check(
        "cancel_not_noted",
        "A cancellation that was requested of a live reminder is in `due` too, where the claim's end finds it. (Not if an "
        "earlier success came late.)",
        "live",
        """
SELECT d.id, d.delivery_key, d.status || ', cancellation requested at ' || r.cancel_requested_at
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id
LEFT JOIN {s}.notification_deliveries n ON n.delivery_key = d.delivery_key
WHERE r.status = 'live' AND r.cancel_requested_at IS NOT NULL AND d.cancel_requested_at IS NULL AND n.confirmed_late_at IS NULL""",
        "Cancel it again: `reminders cancel ID`.",
    ),
    Check(
        "destination_of_another",
        "What an operator said about a live reminder's destination was said about its own tenant, channel and address.",
        "live",
        """
SELECT d.id, d.delivery_key, 'destination ' || r.destination_id || ' is described as of another tenant, channel or address'
FROM {s}.due d JOIN {s}.reminders r ON r.id = d.id JOIN {s}.destinations p ON p.id = r.destination_id
WHERE p.tenant_id <> r.tenant_id OR p.channel <> r.channel OR p.address <> r.destination""",
        "Its claims go by what is true of somebody else: correct the row of `destinations`, and say it again with "
        "`reminders destination set`.",
    ),
    Check(
        "key_not_of_its_parts",
        "Identity key, delivery key and destination id are those of the reminder's parts.",
        "sample",
        """
SELECT r.id::text, r.delivery_key, r.tenant_id, r.user_id, r.reference, r.kind, r.channel, r.slot, r.due_at, r.version,
       r.identity_key, r.destination, r.destination_id::text, r.series_id::text, r.recurrence_id, r.key_version
FROM {s}.reminders r
WHERE r.created_at >= :since AND r.erased_at IS NULL AND r.id IN (
    (SELECT id FROM {s}.reminders ORDER BY id DESC LIMIT 1000)
    UNION
    (SELECT id FROM {s}.reminders TABLESAMPLE SYSTEM (
        (SELECT 100 * 1000 / GREATEST(reltuples, 1000) FROM pg_class WHERE oid = '{s}.reminders'::regclass)) LIMIT 1000))""",
        "Somebody has changed the row by hand: scheduling the same again would make a second reminder. Put its parts "
        "back, or cancel one of the two.",
        judge=_key_fault,
    ),
)
"""Checks of `due` against `reminders` and the deliveries that are under way."""

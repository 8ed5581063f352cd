"""What must hold after every step: the moves that Postgres saw, and the ledger against what is believed."""

from __future__ import annotations

from integration.ledger import audit
from model.model_stage import Stage
from reminders.domain.states import TERMINAL

_MOVES = "SELECT transaction, sent_at, place, thing, old, new FROM audit.moves ORDER BY number"
_SHOWN = """
SELECT r.id::text, COALESCE(d.status, r.status), r.delivery_key, n.status, n.uncertain_since IS NOT NULL, n.claim_number,
       d.id IS NOT NULL AND d.wake_at IS NULL,
       d.attempts
FROM reminders.reminders r
LEFT JOIN reminders.due d ON d.id = r.id
LEFT JOIN reminders.notification_deliveries n ON n.delivery_key = r.delivery_key"""

WAITING = {"pending", "leased", "published", "held"}
"""What these show will be attempted."""


def check(stage: Stage) -> None:
    """Raise `AssertionError` with every breach that the last step brought."""
    beliefs = stage.beliefs
    rows = stage.sql(_MOVES)
    if len(rows) != stage.checked_moves:
        stage.checked_moves = len(rows)
        for stray in audit.strays(rows):
            beliefs.breach("states", f"a move that no table lists: {stray}")
    for key in stage.receiver.repeated():
        beliefs.breach("G4", f"{key} took effect {stage.receiver.effects(key)} times")
    shown = {row[0]: row[1:] for row in stage.sql(_SHOWN)}
    if set(shown) != {str(each.id) for each in beliefs.reminders if not each.purged}:
        beliefs.breach("G1", "the ledger has other reminders than were scheduled")
    for reminder in beliefs.reminders:
        if str(reminder.id) in shown:
            _compare(stage, reminder, shown[str(reminder.id)])
    assert not beliefs.breaches, "\n".join(beliefs.breaches)


def _compare(stage, reminder, shown):
    status, key, delivery, uncertain, claim_number, sleeps, attempts = shown
    beliefs = stage.beliefs
    sent, now = beliefs.known(key), stage.clock.now
    if key != reminder.key:
        beliefs.breach("states", f"the ledger knows {key}, and {reminder.key} was the last answer")
        return
    if (status == "held") != sleeps:
        beliefs.breach("G2", f"{key} is {status}, and {'never wakes' if sleeps else 'wakes by itself'}")
    if status == "held" and not any(each.covers(reminder) for each in beliefs.pauses):
        beliefs.breach("G2", f"{key} is held, and no pause has ever covered it")
    if reminder.ended is not None and status != reminder.ended and not (status == "delivered" and sent.delivered):
        beliefs.breach("states", f"{key} was {reminder.ended} and is {status}, without a person's word")
    if status in TERMINAL:
        reminder.ended = status
    elif not reminder.held:
        # A cancellation dates from when it was asked for, however late its transaction commits.
        reminder.over_after = now
    if (claim_number or 0) != len(sent.turns):
        beliefs.breach("G3", f"{key} is at claim {claim_number}, and {len(sent.turns)} were seen")
    counting = [turn for turn in sent.turns if turn.ended not in {"waiting", "given back"}]
    if (attempts or 0) > len(counting):
        beliefs.breach("G2", f"{key} counts {attempts} attempts, and {len(counting)} were made")
    if status == "delivered" and not sent.delivered:
        beliefs.breach("G2", f"{key} is delivered, and nobody has said so")
    open_claim = status == "sending" and delivery == "sending"
    earlier = sent.turns[sent.settled : -1] if open_claim else sent.turns[sent.settled :]
    unknown = [turn.number for turn in earlier if turn.unknown or turn.ended is None]
    if unknown and not uncertain and not sent.delivered:
        beliefs.breach("G4", f"{key} is {status} and certain, though attempts {unknown} are unknown")
    if unknown and not sent.delivered and status in {"cancelled", "expired", "delivered"}:
        beliefs.breach("G4", f"{key} ended {status}, though attempts {unknown} are unknown")
    if status in WAITING and not sent.delivered:
        if reminder.answer is not None:
            beliefs.breach(
                "G5", f"{key} is {status}, waiting for an attempt, and cancel had answered {reminder.answer}"
            )
        if any(sent.turn(each).on_unknown == "review" for each in unknown):
            beliefs.breach("G4", f"{key} is {status}, waiting for an attempt, though an unknown one is for review")
    if uncertain and not unknown and not sent.delivered:
        beliefs.breach("states", f"{key} counts as uncertain, and every attempt is known")
    if open_claim and sent.turns[-1].until > now and sent.turns[-1].ended is not None:
        beliefs.breach("G6", f"{key} is still being sent, though claim {claim_number} was ended")

"""G6: when a worker is through with a message, its outcome is committed, or there is a standing reason for none."""

from __future__ import annotations

from model.model_stage import Stage
from model.model_worker import ModelWorker

_SHOWN = """
SELECT d.status, d.delivery_key, n.status, n.claim_number,
       (SELECT a.outcome FROM reminders.delivery_attempts a
        WHERE a.delivery_key = %(key)s AND a.claim_number = %(number)s AND a.error_class <> 'worker_lost')
FROM reminders.reminders r
LEFT JOIN reminders.due d ON d.id = r.id
LEFT JOIN reminders.notification_deliveries n ON n.delivery_key = %(key)s
WHERE r.id = %(id)s"""


def breach_of_acknowledging(stage: Stage, worker: ModelWorker) -> str | None:
    """What is wrong with acknowledging the worker's message now."""
    message, claim = worker.message, worker.claim
    number = None if claim is None else claim.claim_number
    given = {"key": message.delivery_key, "number": number, "id": str(message.reminder_id)}
    if stage.beliefs.of(message.reminder_id).purged:
        return None
    live, key, delivery, claim_number, outcome = stage.base.sql(_SHOWN, given)[0]
    what = f"{message.delivery_key} claim {number}: {worker.puppet.result}"
    if claim is None:
        held = stage.beliefs.of(message.reminder_id).held
        if live in {"leased", "published"} and key == message.delivery_key and not held:
            return f"{what}, and the reminder is still {live} with nobody holding it"
        return None
    if delivery == "sending" and claim_number == number:
        return f"{what}, and its claim is open"
    if worker.call is not None:
        told = worker.answer.outcome.name
        if outcome != told:
            return f"{what}, called with {told}, and on record is {outcome}"
    return None

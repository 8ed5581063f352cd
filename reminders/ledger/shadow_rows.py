"""What is written to the ledger of shadows: of a reminder `r`, by whoever ends it while its tenant is in shadow."""

from __future__ import annotations

from reminders.ledger.consent_rules import reason_of

# Another decision about the same key, after a redrive, takes the place of the former one. What is written is what a report
# compares; the address, the data and the message itself are not.
_INTO = """INSERT INTO {s}.shadow_deliveries AS w
        (delivery_key, reminder_id, tenant_id, user_id, kind, channel, reference, slot, destination_id, decision, why, body_hash,
         template_id, due_at, decided_at, lateness, worker)"""
_OF_REMINDER = "r.delivery_key, r.id, r.tenant_id, r.user_id, r.kind, r.channel, r.reference, r.slot, r.destination_id"
_WHEN = "r.due_at, (SELECT now FROM t), (SELECT now FROM t) - r.due_at"
_AGAIN = """ON CONFLICT (delivery_key) DO UPDATE
    SET decision = EXCLUDED.decision, why = EXCLUDED.why, body_hash = EXCLUDED.body_hash, template_id = EXCLUDED.template_id,
        due_at = EXCLUDED.due_at, decided_at = EXCLUDED.decided_at, lateness = EXCLUDED.lateness, worker = EXCLUDED.worker"""

SHADOW_ROW = f"""{_INTO}
    SELECT {_OF_REMINDER}, :decision, :why, :body_hash, :template, {_WHEN}, :worker
    FROM mine JOIN {{s}}.reminders r ON r.id = mine.id
    {_AGAIN}"""
"""Of the rows `mine`: what a worker has decided."""


def shadow_of_ended() -> str:
    """A CTE after `ended`: what ends without a call is noted as a decision too, where no earlier attempt is in it."""
    return f"""shadow AS (
    {_INTO}
    SELECT {_OF_REMINDER},
           CASE ended.status WHEN 'expired' THEN 'expired' WHEN 'suppressed' THEN 'suppressed' ELSE 'undeliverable' END,
           CASE ended.status WHEN 'expired' THEN 'it had expired' WHEN 'suppressed' THEN {reason_of("ended.suppressed_by")} ELSE ended.why END,
           NULL, NULL, {_WHEN}, NULL
    FROM ended JOIN {{s}}.reminders r ON r.id = ended.id
    WHERE ended.shadow AND ended.status IN ('expired', 'suppressed', 'shadowed')
    {_AGAIN}
)"""

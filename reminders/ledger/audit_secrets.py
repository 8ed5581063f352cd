"""What must hold of secrets of one's own. Which destination, by its id; never a secret."""

from __future__ import annotations

from reminders.ledger.audit_check import Check

# A place is a destination, or a tenant's channel; the mark of either is what claims are told.
_PLACES = """(
    SELECT tenant_id, channel, id AS destination_id, secret_mark FROM {s}.destinations WHERE secret_mark IS NOT NULL
    UNION ALL
    SELECT tenant_id, channel, NULL, secret_mark FROM {s}.tenant_policies WHERE secret_mark IS NOT NULL
)"""
_SAME_PLACE = (
    """x.tenant_id = p.tenant_id AND x.channel = p.channel AND x.destination_id IS NOT DISTINCT FROM p.destination_id"""
)


def _whose(row: str) -> str:
    return f"COALESCE('destination ' || {row}.destination_id, 'channel ' || {row}.channel || ' of tenant ' || {row}.tenant_id)"


SECRETS: tuple[Check, ...] = (
    Check(
        "mark_without_secret",
        "Where a mark says that there is a secret of its own, there is one that signs without end, and a record of the change.",
        "everything",
        f"""
SELECT NULL::uuid, NULL::text, {_whose("p")} || CASE WHEN c.id IS NULL THEN ' has a mark of no change' ELSE ' has no newest secret' END
FROM {_PLACES} p LEFT JOIN {{s}}.secret_changes c ON c.id = p.secret_mark
WHERE c.id IS NULL OR NOT EXISTS (SELECT 1 FROM {{s}}.secrets x WHERE {_SAME_PLACE} AND x.retires_at IS NULL)""",
        "Without a secret its reminders wait, and nothing is signed with another one: put its rows of `secrets` back, or make a "
        "new secret with `reminders secret rotate --grace 0s` and give it to the receiver.",
    ),
    Check(
        "secret_without_mark",
        "A secret that signs is announced by the mark of its destination, or of its tenant's channel.",
        "everything",
        f"""
SELECT NULL::uuid, NULL::text, {_whose("x")} || ' has a secret and no mark'
FROM {{s}}.secrets x
WHERE x.retires_at IS NULL AND NOT EXISTS (SELECT 1 FROM {_PLACES} p WHERE {_SAME_PLACE})""",
        "Claims sign with the derived secret, which the receiver may refuse by now: set `secret_mark` to the id of the latest "
        "row of `secret_changes`, or rotate again.",
    ),
    Check(
        "secret_key_missing",
        "Every secret that still signs is encrypted with a key of `REMINDERS_KEYS`.",
        "everything",
        f"""
SELECT NULL::uuid, NULL::text, {_whose("x")} || ': secret ' || x.id || ' is under key ' || x.key_fingerprint
FROM {{s}}.secrets x
WHERE (x.retires_at IS NULL OR x.retires_at > :now) AND x.key_fingerprint IS NOT NULL AND NOT x.key_fingerprint = ANY(:keys)""",
        "Its reminders wait. Add that key to `REMINDERS_KEYS` of the workers and of this command; if it is lost, make a new "
        "secret with `reminders secret rotate --grace 0s` and give it to the receiver.",
    ),
)
"""Checks of secrets of one's own."""

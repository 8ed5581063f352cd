"""Secrets of one's own, as deliveries need them: read by mark, and decrypted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.errors import SecretUnreadable
from reminders.ledger.database import Database, Row
from reminders.ledger.keyring import Keyring
from reminders.ledger.statement import Statement
from reminders.pipeline.own_secrets import OwnSecret, SecretsOfMark

_OF_LEVEL = """
SELECT id::text, destination_id::text, inherited, ciphertext, key_fingerprint,
       extract(epoch FROM retires_at - (SELECT now FROM t))::float8 AS seconds, created_at
FROM {s}.secrets
WHERE tenant_id = :tenant AND channel = :channel AND (retires_at IS NULL OR retires_at > (SELECT now FROM t))
  AND destination_id"""

# A level that the mark does not name is not read: what is remembered under a mark must not have come after it from
# another place.
IN_FORCE = Statement(
    "secrets_in_force",
    f"""
WITH t AS MATERIALIZED (SELECT COALESCE(:now, clock_timestamp()) AS now),
found AS ({_OF_LEVEL} = :destination UNION ALL {_OF_LEVEL} IS NULL AND :of_tenant)
SELECT id, destination_id, inherited, ciphertext, key_fingerprint, seconds
FROM found ORDER BY destination_id NULLS LAST, seconds IS NOT NULL, created_at DESC
""",
    {"now": "timestamptz", "tenant": "text", "channel": "text", "destination": "uuid", "of_tenant": "boolean"},
)


def belongs_to(secret_id: str, tenant: str, channel: str, destination_id: str | None) -> bytes:
    """What a ciphertext is bound to: its row's id, and whose secret it is."""
    parts = [part.encode() for part in (secret_id, tenant, channel, destination_id or "")]
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


class PostgresSecrets:
    """Reads what secret marks stand for. `now` replaces the database's clock in tests."""

    def __init__(self, database: Database, keyring: Keyring, *, now: datetime | None = None) -> None:
        self._db = database
        self._keyring = keyring
        self._now = now

    def of_mark(self, delivery: Delivery, mark: str) -> SecretsOfMark:
        """What `mark` stands for at this delivery's destination.

        Raises `SecretUnreadable` if anything of it cannot be decrypted, also a former secret: receivers may know no other.
        """
        of_place, _, of_tenant = mark.partition("/")
        rows = self._db.fetch(
            IN_FORCE,
            now=self._now,
            tenant=delivery.tenant_id,
            channel=delivery.channel,
            destination=str(delivery.destination_id) if of_place else None,
            of_tenant=bool(of_tenant),
        )
        own: list[OwnSecret] = []
        # For how long what is below still signs: without end, until a level has secrets of its own.
        below = float("inf")
        for marked, level in (
            (of_place, [row for row in rows if row[1] is not None]),
            (of_tenant, [row for row in rows if row[1] is None]),
        ):
            if not marked:
                continue
            self._check(level, delivery)
            own += [self._decrypted(row, delivery, below) for row in level if not row[2]]
            below = min(below, next((row[5] for row in level if row[2]), 0.0))
            if below == 0.0:
                break
        return SecretsOfMark(tuple(own), below)

    def _check(self, level: Sequence[Row], delivery: Delivery) -> None:
        if not any(row[5] is None for row in level):
            raise SecretUnreadable(
                "",
                f"the secret of destination {delivery.destination_id}, or of its tenant's channel, is gone from the ledger\n"
                "`reminders audit` says which; `reminders secret rotate --grace 0s` makes another one",
            )

    def _decrypted(self, row: Row, delivery: Delivery, below: float) -> OwnSecret:
        secret_id, destination_id, _, ciphertext, key, seconds = row
        left = min(below, float("inf") if seconds is None else seconds)
        bound = belongs_to(secret_id, delivery.tenant_id, delivery.channel, destination_id)
        try:
            secret = self._keyring.decrypt(ciphertext, key, bound)
        except SecretUnreadable as error:
            raise SecretUnreadable(
                key,
                f"secret {secret_id} of {_whose(destination_id)} cannot be decrypted here: {error}\n"
                "Add its key to REMINDERS_KEYS of the workers, or, if it is lost, `reminders secret rotate --grace 0s`",
            ) from None
        return OwnSecret(secret, None if left == float("inf") else left)


def _whose(destination_id: str | None) -> str:
    return "a tenant's channel" if destination_id is None else f"destination {UUID(destination_id)}"

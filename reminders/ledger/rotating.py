"""Giving a destination, or all of a tenant's channel, a new secret of its own; and dropping the former ones."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import Refused
from reminders.domain.identity import destination_id, uuid7
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database
from reminders.ledger.keyring import Keyring, secret_fingerprint
from reminders.ledger.own_secrets import belongs_to
from reminders.ledger.review import checked_words
from reminders.ledger.statement import Statement

SECRET_BYTES = 32
MOST_IN_FORCE = 5
"""Secrets of one place that may sign at once: each is a signature more, and receivers look at a number of them only."""
PATIENCE_MS = 10_000
"""How long to wait for another rotation of the same place, or for whatever else holds its row."""
_PLACE = {"tenant": "text", "channel": "text", "destination": "uuid"}
_OF_PLACE = "tenant_id = :tenant AND channel = :channel AND destination_id IS NOT DISTINCT FROM :destination"
_IN_FORCE = "(retires_at IS NULL OR retires_at > clock_timestamp())"

# Both also lock the place's row: what follows in the transaction sees every earlier change of the place.
MARK_DESTINATION = Statement(
    "secret_mark_destination",
    """
INSERT INTO {s}.destinations (id, tenant_id, channel, address, secret_mark)
VALUES (:destination, :tenant, :channel, :address, :mark)
ON CONFLICT (id) DO UPDATE SET secret_mark = EXCLUDED.secret_mark
RETURNING 1
""",
    {**_PLACE, "address": "text", "mark": "uuid"},
)

MARK_TENANT = Statement(
    "secret_mark_tenant",
    """
INSERT INTO {s}.tenant_policies (tenant_id, channel, secret_mark) VALUES (:tenant, :channel, :mark)
ON CONFLICT (tenant_id, channel) DO UPDATE SET secret_mark = EXCLUDED.secret_mark
RETURNING 1
""",
    {"tenant": "text", "channel": "text", "mark": "uuid"},
)

STANDING = Statement(
    "secrets_standing",
    f"""
SELECT fingerprint, key_fingerprint, retires_at IS NULL FROM {{s}}.secrets
WHERE {_OF_PLACE} AND {_IN_FORCE} ORDER BY created_at DESC, id DESC
""",
    _PLACE,
)

# What has signed so far, derived or the tenant's, is only there as a row while it goes on signing.
RETIRE = Statement(
    "secret_retire",
    f"""
WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
ends AS MATERIALIZED (SELECT now, now + make_interval(secs => :grace) AS at FROM t),
newest AS (
    UPDATE {{s}}.secrets SET retires_at = GREATEST(created_at, (SELECT at FROM ends)) WHERE {_OF_PLACE} AND retires_at IS NULL
), inherited AS (
    INSERT INTO {{s}}.secrets (id, tenant_id, channel, destination_id, inherited, created_at, retires_at)
    SELECT :inherited_id, :tenant, :channel, :destination, true, now, at FROM ends
    WHERE :grace > 0 AND NOT EXISTS (SELECT 1 FROM {{s}}.secrets WHERE {_OF_PLACE})
)
SELECT at FROM ends
""",
    {**_PLACE, "grace": "float8", "inherited_id": "uuid"},
)

ADD = Statement(
    "secret_add",
    """
INSERT INTO {s}.secrets (id, tenant_id, channel, destination_id, ciphertext, key_fingerprint, fingerprint)
VALUES (:id, :tenant, :channel, :destination, :ciphertext, :key, :fingerprint)
RETURNING created_at
""",
    {**_PLACE, "id": "uuid", "ciphertext": "text", "key": "text", "fingerprint": "text"},
)

DROP_FORMER = Statement(
    "secret_drop_former",
    f"""
UPDATE {{s}}.secrets SET retires_at = GREATEST(created_at, clock_timestamp())
WHERE {_OF_PLACE} AND retires_at > clock_timestamp()
RETURNING COALESCE(fingerprint, 'inherited')
""",
    _PLACE,
)

# Only within a place: `reencrypt` does it everywhere.
ERASE_RETIRED = Statement(
    "secret_erase_retired",
    f"""
UPDATE {{s}}.secrets SET ciphertext = NULL, key_fingerprint = NULL
WHERE {_OF_PLACE} AND ciphertext IS NOT NULL AND retires_at <= clock_timestamp()
RETURNING 1
""",
    _PLACE,
)

RECORD = Statement(
    "secret_change",
    """
INSERT INTO {s}.secret_changes
    (id, tenant_id, channel, destination_id, action, fingerprints, former_until, reason, actor, host)
VALUES (:id, :tenant, :channel, :destination, :action, :fingerprints, :former_until, :reason, :actor, :host)
RETURNING changed_at
""",
    {
        **_PLACE, "id": "uuid", "action": "text", "fingerprints": "text[]", "former_until": "timestamptz", "reason": "text",
        "actor": "text", "host": "text",
    },
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SecretPlace:
    """Whose secret: one destination's, or, without an address, that of all a tenant's destinations of a channel."""

    tenant_id: str
    channel: str
    address: str | None = field(default=None, repr=False)

    @property
    def destination_id(self) -> UUID | None:
        return None if self.address is None else destination_id(self.tenant_id, self.channel, self.address)

    def named(self) -> dict[str, str | None]:
        """As parameters of a statement."""
        wanted = self.destination_id
        return {
            "tenant": self.tenant_id,
            "channel": self.channel,
            "destination": None if wanted is None else str(wanted),
        }

    def words(self) -> str:
        wanted = self.destination_id
        whose = f"channel {self.channel} of tenant {self.tenant_id}"
        return whose if wanted is None else f"destination {wanted} ({whose})"


@dataclass(frozen=True, slots=True)
class Said:
    """Who changes a secret, and why."""

    actor: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class Rotated:
    """A new secret, which can be read here and never again. Until `former_until` the former one signs too. UTC."""

    id: UUID
    secret: bytes = field(repr=False)
    fingerprint: str
    key_fingerprint: str
    created_at: datetime
    former_until: datetime


def rotate(database: Database, keyring: Keyring, place: SecretPlace, *, grace: float, said: Said) -> Rotated:
    """Make a new secret for the place; what has signed so far goes on beside it for `grace` seconds.

    Claims taken from now on sign with it. Raises `SettingsError` without a key, `Refused` if too many secrets would sign,
    or if a former one cannot go on signing because its key is missing, and `InvalidInput` without an actor.
    """
    given = _checked(said)
    new_id = str(uuid7())
    secret = secrets.token_bytes(SECRET_BYTES)
    named = place.named()
    bound = belongs_to(new_id, place.tenant_id, place.channel, named["destination"])
    ciphertext, key = keyring.encrypt(secret, bound)
    fingerprint = secret_fingerprint(secret)
    with _changing(database, place, new_id) as connection:
        schema = database.schema
        standing = fetch(connection, schema, STANDING, **named)
        _refuse_unfit(standing, keyring, grace, place)
        ((ends,),) = fetch(connection, schema, RETIRE, **named, grace=grace, inherited_id=str(uuid7()))
        ((created_at,),) = fetch(
            connection, schema, ADD, **named, id=new_id, ciphertext=ciphertext, key=key, fingerprint=fingerprint
        )
        fetch(connection, schema, ERASE_RETIRED, **named)
        change = {"id": new_id, "action": "rotate", "fingerprints": [fingerprint], "former_until": ends}
        fetch(connection, schema, RECORD, **named, **change, **given)
    # Crash here: the new secret signs and nobody has seen it. The former one goes on until its grace ends; rotate again.
    return Rotated(UUID(new_id), secret, fingerprint, key, created_at.astimezone(UTC), ends.astimezone(UTC))


def revoke(database: Database, place: SecretPlace, *, said: Said) -> list[str]:
    """Let nothing but the newest secret of the place sign from now on; the fingerprints of what no longer does.

    `inherited` among them stands for the derived secret, or the tenant's. Claims that were taken before may still sign
    with them. Raises `Refused` if there is nothing to drop, `InvalidInput` without an actor or a reason.
    """
    given = _checked(Said(said.actor, checked_words("reason", said.reason)))
    mark, named = str(uuid7()), place.named()
    with _changing(database, place, mark) as connection:
        schema = database.schema
        if not fetch(connection, schema, STANDING, **named):
            raise Refused(
                f"{place.words()} has no secret of its own\n`reminders secret rotate --grace 0s` gives it one, and ends the derived one at once"
            )
        dropped = sorted(row[0] for row in fetch(connection, schema, DROP_FORMER, **named))
        if not dropped:
            raise Refused(
                f"only the newest secret of {place.words()} signs\nIf that one has leaked: `reminders secret rotate --grace 0s`"
            )
        fetch(connection, schema, ERASE_RETIRED, **named)
        fetch(connection, schema, RECORD, **named, id=mark, action="revoke", fingerprints=dropped, **given)
    return dropped


@contextmanager
def _changing(database: Database, place: SecretPlace, mark: str) -> Iterator[DriverConnection]:
    """A transaction that has set the place's mark; nobody else changes the place's secrets meanwhile."""
    named = place.named()
    with database.transaction() as connection:
        with connection.cursor() as cursor:
            # Each statement must see what was committed before the place's row was locked.
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {PATIENCE_MS}")
        if place.address is None:
            given = {"tenant": place.tenant_id, "channel": place.channel}
            fetch(connection, database.schema, MARK_TENANT, **given, mark=mark)
        else:
            fetch(connection, database.schema, MARK_DESTINATION, **named, address=place.address, mark=mark)
        yield connection


def _refuse_unfit(standing: list[tuple[Any, ...]], keyring: Keyring, grace: float, place: SecretPlace) -> None:
    if len(standing) >= MOST_IN_FORCE:
        raise Refused(
            f"{len(standing)} secrets of {place.words()} sign already\n"
            "Wait until a grace has ended (`reminders secret list`), or drop the former ones: `reminders secret revoke`"
        )
    for fingerprint, key, newest in standing:
        if key is None or key in keyring.fingerprints or (newest and grace == 0):
            continue
        raise Refused(
            f"secret {fingerprint} of {place.words()} cannot go on signing: REMINDERS_KEYS has no key with the fingerprint {key}\n"
            "Add that key; or, if it is lost, say --grace 0s (for former ones, `reminders secret revoke` first)"
        )


def _checked(said: Said) -> dict[str, str | None]:
    return {
        "actor": checked_words("actor", said.actor),
        "reason": None if said.reason is None else checked_words("reason", said.reason),
        "host": socket.gethostname(),
    }

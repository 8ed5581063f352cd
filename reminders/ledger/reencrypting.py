"""Bringing every secret under the newest key, so that an older one can be taken out of `REMINDERS_KEYS`."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from reminders.domain.errors import SecretUnreadable
from reminders.ledger.database import Database
from reminders.ledger.keyring import Keyring
from reminders.ledger.own_secrets import belongs_to
from reminders.ledger.statement import Statement

BATCH = 500
"""Secrets in one transaction, of milliseconds."""
_FIRST = str(UUID(int=0))

# What has retired is never needed again.
ERASE_RETIRED = Statement(
    "secrets_erase_retired",
    """
UPDATE {s}.secrets SET ciphertext = NULL, key_fingerprint = NULL
WHERE ciphertext IS NOT NULL AND retires_at <= clock_timestamp()
RETURNING 1
""",
    {},
)

UNDER_OTHER_KEYS = Statement(
    "secrets_under_other_keys",
    """
SELECT id::text, tenant_id, channel, destination_id::text, ciphertext, key_fingerprint FROM {s}.secrets
WHERE id > :after AND key_fingerprint <> :newest ORDER BY id LIMIT :batch
""",
    {"after": "uuid", "newest": "text", "batch": "integer"},
)

# Whoever else does the same meanwhile has won where the ciphertext is another one by now.
REPLACE_IF_UNCHANGED = Statement(
    "secrets_replace",
    """
UPDATE {s}.secrets x SET ciphertext = new.ciphertext, key_fingerprint = :newest
FROM unnest(:ids, :former, :ciphertexts) AS new (id, former, ciphertext)
WHERE x.id = new.id AND x.ciphertext = new.former
RETURNING 1
""",
    {"ids": "uuid[]", "former": "text[]", "ciphertexts": "text[]", "newest": "text"},
)

KEYS_IN_USE = Statement(
    "secrets_keys_in_use",
    "SELECT key_fingerprint, count(*) FROM {s}.secrets WHERE key_fingerprint IS NOT NULL GROUP BY 1 ORDER BY 1",
    {},
)


@dataclass(frozen=True, slots=True)
class KeyInUse:
    """A key by its fingerprint: how many secrets it encrypts, and whether it is in `REMINDERS_KEYS`, and the newest there."""

    fingerprint: str
    secrets: int
    known: bool
    newest: bool


@dataclass(frozen=True, slots=True)
class Reencrypted:
    """What one run did. `unreadable` counts secrets that this process's keys do not decrypt; they stay as they are."""

    reencrypted: int
    unreadable: int
    erased: int
    keys: list[KeyInUse]


def reencrypt(database: Database, keyring: Keyring, *, batch: int = BATCH) -> Reencrypted:
    """Encrypt with the newest key whatever is not, and erase what has retired. Raises `SettingsError` without a key.

    It may be broken off and run again at any time, also beside rotations: what is done is not done again.
    """
    newest = keyring.newest
    erased = len(database.fetch(ERASE_RETIRED))
    done, unreadable, after = 0, 0, _FIRST
    while rows := database.fetch(UNDER_OTHER_KEYS, after=after, newest=newest, batch=batch):
        after = rows[-1][0]
        replaced: list[tuple[str, str, str]] = []
        for secret_id, tenant, channel, place, ciphertext, key in rows:
            bound = belongs_to(secret_id, tenant, channel, place)
            try:
                secret = keyring.decrypt(ciphertext, key, bound)
            except SecretUnreadable:
                unreadable += 1
            else:
                replaced.append((secret_id, ciphertext, keyring.encrypt(secret, bound)[0]))
        if replaced:
            ids, former, ciphertexts = (list(column) for column in zip(*replaced, strict=True))
            given = {"ids": ids, "former": former, "ciphertexts": ciphertexts}
            done += len(database.fetch(REPLACE_IF_UNCHANGED, **given, newest=newest))
            # Crash here: these are under the newest key. The next run goes on with the rest.
    return Reencrypted(done, unreadable, erased, keys_in_use(database, keyring))


def keys_in_use(database: Database, keyring: Keyring) -> list[KeyInUse]:
    """Every key that encrypts something or is in `REMINDERS_KEYS`: those first, newest first."""
    counts: dict[str, int] = dict(database.fetch(KEYS_IN_USE))
    known = keyring.fingerprints
    names = (*known, *(each for each in counts if each not in known))
    return [KeyInUse(each, counts.get(each, 0), each in known, known[:1] == (each,)) for each in names]

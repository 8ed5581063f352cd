"""Erasing what is on record of destinations that nobody has any more, now that a user's reminders are erased."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from reminders.domain.identity import NOWHERE, destination_id
from reminders.ledger.database import Database
from reminders.ledger.erasure_records import Erasure, note, step
from reminders.ledger.statement import Statement

_ON_RECORD = ("secrets", "secret_changes", "notices", "rates", "pauses", "suppressions")

CHANNELS = Statement(
    "erasure_channels",
    """
SELECT name FROM {s}.known_channels WHERE :channel IS NULL OR name = :channel
UNION SELECT channel FROM {s}.destinations WHERE tenant_id = :tenant AND (:channel IS NULL OR channel = :channel)
""",
    {"tenant": "text", "channel": "text"},
)

# In another spelling too, where one is on record.
NAMED = Statement(
    "erasure_named_places",
    """
UPDATE {s}.erasures
SET destination_ids = ARRAY(SELECT unnest(destination_ids) UNION SELECT unnest(:ids) UNION
                            SELECT id FROM {s}.destinations
                            WHERE tenant_id = :tenant AND lower(address) = ANY(:addresses) AND (:channel IS NULL OR channel = :channel))
WHERE id = :erasure RETURNING 1
""",
    {"erasure": "uuid", "ids": "uuid[]", "addresses": "text[]", "tenant": "text", "channel": "text"},
)

# Most have nothing on record.
UNUSED = Statement(
    "erasure_unused_places",
    f"""
SELECT w.id::text FROM {{s}}.erasures e CROSS JOIN LATERAL unnest(e.destination_ids) AS w (id)
WHERE e.id = :erasure
  AND (EXISTS (SELECT 1 FROM {{s}}.destinations x WHERE x.id = w.id)
       OR {" OR ".join(f"EXISTS (SELECT 1 FROM {{s}}.{table} x WHERE x.destination_id = w.id)" for table in _ON_RECORD)})
  AND NOT EXISTS (SELECT 1 FROM {{s}}.reminders r WHERE r.destination_id = w.id)
  AND NOT EXISTS (SELECT 1 FROM {{s}}.series s WHERE s.destination_id = w.id)
""",
    {"erasure": "uuid"},
)

# A suppression of the address stays in force by its id alone, which is a hash. What operators did stays, without the place.
ERASE = Statement(
    "erasure_places",
    """
WITH places AS (
    DELETE FROM {s}.destinations WHERE id = ANY(:ids) RETURNING 1
), keys AS (
    DELETE FROM {s}.secrets WHERE destination_id = ANY(:ids) RETURNING 1
), told AS (
    DELETE FROM {s}.notices WHERE destination_id = ANY(:ids) RETURNING 1
), changed AS (
    UPDATE {s}.secret_changes SET destination_id = :nowhere, fingerprints = '{}' WHERE destination_id = ANY(:ids) RETURNING 1
), capped AS (
    UPDATE {s}.rates
    SET destination_id = :nowhere, removed_at = COALESCE(removed_at, clock_timestamp()), removed_by = COALESCE(removed_by, :actor),
        removed_host = COALESCE(removed_host, :host), removed_reason = COALESCE(removed_reason, 'erased')
    WHERE destination_id = ANY(:ids) RETURNING 1
), paused AS (
    UPDATE {s}.pauses
    SET destination_id = :nowhere, ended_at = COALESCE(ended_at, clock_timestamp()), ended_by = COALESCE(ended_by, :actor),
        ended_host = COALESCE(ended_host, :host)
    WHERE destination_id = ANY(:ids) RETURNING 1
), refused AS (
    UPDATE {s}.suppressions
    SET reason = 'erased', lifted_reason = CASE WHEN lifted_reason IS NOT NULL THEN 'erased' END
    WHERE destination_id = ANY(:ids) RETURNING 1
)
SELECT (SELECT count(*) FROM places), (SELECT count(*) FROM keys), (SELECT count(*) FROM told), (SELECT count(*) FROM changed),
       (SELECT count(*) FROM capped), (SELECT count(*) FROM paused), (SELECT count(*) FROM refused)
""",
    {"ids": "uuid[]", "nowhere": "uuid", "actor": "text", "host": "text"},
)
TABLES = ("destinations", "secrets", "notices", "secret_changes", "rates", "pauses", "suppressions")


def name_places(database: Database, of: Erasure, addresses: Sequence[str], channel: str | None) -> None:
    """Have these addresses erased too, on one channel or on all: the ledger need not know that the user had them."""
    if not addresses:
        return
    given = {"tenant": of.tenant, "channel": channel}
    with step(database, by_index=False) as run:
        channels = [row[0] for row in run(CHANNELS, **given)]
        ids = {str(destination_id(of.tenant, each, address)) for each in channels for address in addresses}
        run(NAMED, erasure=str(of.id), ids=sorted(ids), addresses=[each.lower() for each in addresses], **given)
    # Crash here: they are noted, by hashes; their words are looked for again only if they are named again.


def erase_places(database: Database, of: Erasure) -> None:
    """Erase what is on record of destinations that the erased reminders had and no reminder or series has now."""
    with step(database, by_index=False) as run:
        ids = [row[0] for row in run(UNUSED, erasure=str(of.id))]
        if ids:
            (counts,) = run(ERASE, ids=ids, nowhere=str(NOWHERE), actor=of.actor, host=socket.gethostname())
            note(run, of, dict(zip(TABLES, counts, strict=True)))

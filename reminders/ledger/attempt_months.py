"""Months of attempts that nothing is left of: their partitions are dropped."""

from __future__ import annotations

import logging
from datetime import datetime

from psycopg2.errors import UndefinedTable

from reminders.ledger.database import Database, LockNotAvailable
from reminders.ledger.statement import Statement

logger = logging.getLogger(__name__)

LOCK_TIMEOUT_MS = 50
"""How long dropping a month waits for the lock on all attempts: those who want to record one wait behind it meanwhile."""

# A file of no length is certainly empty, and that is known at once; autovacuum shortens what was emptied.
EMPTY_MONTHS = Statement(
    "empty_months",
    """
SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = '{s}.delivery_attempts'::regclass AND c.relname ~ '^delivery_attempts_[0-9]{4}_[0-9]{2}$'
  AND to_timestamp(right(c.relname, 7) || ' +00', 'YYYY_MM TZH') + interval '1 month' <= :before
  AND pg_relation_size(c.oid) = 0
ORDER BY c.relname
""",
    {"before": "timestamptz"},
)


def drop_empty_months(database: Database, before: datetime) -> list[str]:
    """Drop the partitions of months that were over by `before` and hold nothing; returns their names.

    One that is in use, or has got a row meanwhile, stays for the next time.
    """
    dropped = []
    for (name,) in database.fetch(EMPTY_MONTHS, before=before):
        try:
            with database.transaction() as connection, connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS}")
                cursor.execute(f"LOCK TABLE ONLY {database.schema}.delivery_attempts IN ACCESS EXCLUSIVE MODE")
                cursor.execute(f"LOCK TABLE ONLY {database.schema}.{name} IN ACCESS EXCLUSIVE MODE")
                cursor.execute("SELECT pg_relation_size(%s::regclass)", (f"{database.schema}.{name}",))
                if cursor.fetchone() == (0,):
                    cursor.execute(f"DROP TABLE {database.schema}.{name}")
                    dropped.append(name)
        except UndefinedTable:
            logger.info("purge.month_gone name=%s: another purge has dropped it meanwhile", name)
        except LockNotAvailable:
            logger.info("purge.month_in_use name=%s: it is dropped another time", name)
    return dropped

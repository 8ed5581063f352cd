"""How much a purge would find. Nothing is changed or locked."""

from __future__ import annotations

from datetime import datetime

from reminders.ledger.database import Database
from reminders.ledger.purging import BEFORE_ALL, LATEST_CUTOFF, LONG_ENDED, STANDING, page
from reminders.ledger.statement import Statement

COUNT = Statement(
    "purge_count",
    f"""
WITH {page()}, standing AS ({STANDING}
    WHERE r.id = ANY(ARRAY(SELECT id FROM page WHERE old)) AND {LONG_ENDED})
SELECT (SELECT id::text FROM page ORDER BY id DESC LIMIT 1), (SELECT count(*) = :size AND bool_or(old) FROM page),
       count(*) FILTER (WHERE NOT marked), count(*) FILTER (WHERE marked)
FROM standing
""",
    {"after": "uuid", "cutoff": "timestamptz", "newest": "timestamptz", "age": "float8", "size": "integer"},
)

NEWEST = Statement(
    "purge_newest",
    f"SELECT {LATEST_CUTOFF.format(':age', ':cutoff')}",
    {"age": "float8", "cutoff": "timestamptz"},
)


def count(database: Database, older_than: float, cutoff: datetime, size: int) -> tuple[int, int]:
    """How many reminders have long ended: not marked yet, and marked. Nothing is locked."""
    after, more, unmarked, marked = BEFORE_ALL, True, 0, 0
    age = {"cutoff": cutoff, "age": older_than}
    newest = database.fetch(NEWEST, **age)[0][0]
    while more:
        after, more, new, known = database.fetch(COUNT, after=after, **age, newest=newest, size=size)[0]
        unmarked, marked = unmarked + new, marked + known
    return unmarked, marked

"""What a check of the audit is: one invariant of the ledger, as a query for whatever breaks it."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from reminders.ledger.statement import Statement

GRACE = 300.0
"""Seconds by which something may be late before it counts as stuck rather than as under way."""

Scope = Literal["everything", "live", "claimed", "ended", "letters", "sample", "turns"]
"""What a check looks at under `--since`: `everything` and `live` are read whole, whatever it says; `claimed` means
claims taken since, `ended` reminders that ended since, `letters` dead letters that are open or were opened since, and
`sample` the newest thousand reminders and about a thousand others, as far as they were scheduled since, and `turns` those
that were due since (without `--since`, in the last 31 days)."""

_TYPES = {
    "since": "timestamptz",
    "now": "timestamptz",
    "stale": "timestamptz",
    "max_attempts": "integer",
    "max_wait": "float8",
    "window": "float8",
    "in_flight": "integer",
    "keys": "text[]",
    "limit": "integer",
}
"""What a query may name. `stale` is `GRACE` before `now`; without `--since`, `since` is before everything."""


@dataclass(frozen=True, slots=True)
class Check:
    """One invariant.

    `sql` selects what breaks it, as rows of reminder's id, delivery key (either may be null) and a detail that carries
    ids, states and times only. With a `judge`, it selects candidates, and the judge says of each what is wrong with it,
    or None. `meaning` says what must hold, `remedy` what to do about a row that was found.
    """

    name: str
    meaning: str
    scope: Scope
    sql: str
    remedy: str
    judge: Callable[[tuple[Any, ...]], str | None] | None = None

    def statement(self) -> Statement:
        """Candidates as they are; otherwise at most `:limit` of what was found, each with the number of all."""
        sql = self.sql
        if self.judge is None:
            sql = f"""
WITH found (reminder_id, delivery_key, detail) AS MATERIALIZED ({sql})
SELECT reminder_id::text, delivery_key, detail, (SELECT count(*) FROM found) FROM found ORDER BY 1, 2, 3 LIMIT :limit"""
        used = re.findall(r"(?<![:\w]):([a-z_]+)", sql)
        return Statement(f"audit_{self.name}", sql, {name: _TYPES[name] for name in used})

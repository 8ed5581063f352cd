"""A world whose time passes by moving everything it has recorded into the past: all stays as real clocks would have it."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

from integration.ledger.world import CLAIM, MAX_ATTEMPTS, MAX_WAIT, ScriptedProvider, World
from own_keys import KEYRING
from reminders.domain.outcomes import Rejected, Retry, Unknown
from reminders.ledger.audit import Audit, AuditPolicy, audit
from reminders.pipeline.ports import Claim, Report

AGAIN = Retry("busy", "try later", status_code=503)
LOST = Unknown("timeout", "no answer", timed_out=True)
NO = Rejected("gone", "refused", status_code=404)
POLICY = AuditPolicy(MAX_ATTEMPTS, MAX_WAIT, 7 * 86400.0, 256, KEYRING.fingerprints)
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
HASH = b"\x01" * 32

_AGE = """
SELECT format('UPDATE reminders.%I SET %s', table_name, string_agg(format('%1$I = %1$I - $1', column_name), ', '))
FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
WHERE table_schema = 'reminders' AND data_type = 'timestamp with time zone' AND table_type = 'BASE TABLE'
  AND table_name NOT LIKE 'delivery\\_attempts\\_%'
GROUP BY table_name"""


class AgingWorld(World):
    """`age` lets time pass; claims that are still in somebody's hands go with it through `aged`."""

    def age(self, seconds: float) -> None:
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(_AGE)
            for (statement,) in cursor.fetchall():
                cursor.execute(statement.replace("$1", "%s"), [timedelta(seconds=seconds)] * statement.count("$1"))

    def aged(self, claim: Claim, seconds: float) -> Claim:
        """`age`, and the claim as its holder would have it had it been taken that much earlier."""
        self.age(seconds)
        return dataclasses.replace(claim, claimed_at=claim.claimed_at - timedelta(seconds=seconds))

    def run(self, made: Any, *outcomes: Any) -> str:
        """Publish what is due and let a worker carry this one's message through."""
        self.published()
        return self.deliver(ScriptedProvider(*outcomes))(made.id, made.delivery_key)

    def ended(self, *outcomes: Any, **wanted: Any) -> Any:
        """A reminder whose attempts came to these, one after another, each when its time had come."""
        made = self.schedule(**wanted)
        for number, outcome in enumerate(outcomes):
            if number:
                self.age(10 * MINUTE)
            self.run(made, outcome)
        return made

    def finish(self, claim: Claim, outcome: Any) -> str:
        return self.finalizing()(claim, Report(outcome, 3, HASH))

    def died(self, made: Any) -> Claim:
        """Claimed by a worker that then stops; repaired. The claim, in its hands."""
        claim = self.aged(self.opened(made), CLAIM + 1)
        assert self.repair(0.0) == 1
        return claim

    def audit(self, *, since: datetime | timedelta | None = None, limit: int = 5, **policy: Any) -> Audit:
        return audit(self.database, dataclasses.replace(POLICY, **policy), since=since, limit=limit)

    def violations(self, **given: Any) -> list[tuple[str, str | None]]:
        """Check and reminder of each."""
        return [
            (result.check.name, each.reminder_id) for result in self.audit(**given).results for each in result.shown
        ]

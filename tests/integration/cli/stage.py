"""Reminders brought into every state that commands meet, and what commands printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from click.testing import Result

from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Outcome
from reminders.domain.retry_policy import Bury, Decision, Deliver, Park, Wait
from reminders.ledger import scheduling
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import Database
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.scheduling import ScheduledReminder
from reminders.pipeline.ports import Claim, Report
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

ADDRESS = "https://hooks.example/private-path"
WORKER = "host:1"


class Stage:
    """A ledger, and hands to move its reminders the way scan and workers do."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self._settings = settings
        self._made = 0

    def schedule(self, **changed: Any) -> ScheduledReminder:
        """One reminder that is due, unless `changed` says otherwise."""
        self._made += 1
        given = {
            "tenant_id": "acme",
            "user_id": f"user-{self._made}",
            "kind": "invoice-due",
            "channel": "webhook",
            "destination": ADDRESS,
            "due_at": datetime.now(UTC) - timedelta(seconds=5),
            "reference": f"invoice-{self._made}",
            "data": {"note": "forty-two"},
            **changed,
        }
        request = to_request(lambda channel: registry.load(channel, self._settings), **given)
        with self.database.transaction() as connection:
            (answer,) = scheduling.insert(connection, self.database.schema, [request], {request.channel: True})
        assert isinstance(answer, ScheduledReminder)
        return answer

    def lease(self) -> tuple[list[UUID], UUID]:
        token = uuid7()
        return [message.reminder_id for message in PostgresScan(self.database).lease(100, 60.0, token).messages], token

    def publish(self) -> list[UUID]:
        leased, token = self.lease()
        return PostgresScan(self.database).mark_published_if_leased(leased, token, 120.0)

    def claim(self, reminder: ScheduledReminder) -> Claim:
        self.publish()
        claims = PostgresClaims(self.database, worker=WORKER, formats={"webhook": 1})
        claim = claims.claim(reminder.id, reminder.delivery_key, uuid7(), 30.0)
        assert claim is not None
        return claim

    def finish(self, claim: Claim, outcome: Outcome, decision: Decision) -> None:
        finalize = PostgresFinalize(self.database, worker=WORKER)
        report = Report(outcome, duration_ms=12, body_hash=b"\0" * 32)
        match decision:
            case Deliver():
                answer = finalize.finalize_delivered_if_sending(claim, report)
            case Park():
                answer = finalize.finalize_parked_if_sending(claim, report, decision)
            case Wait():
                answer = finalize.finalize_waiting_if_sending(claim, report, decision)
            case Bury():
                answer = finalize.finalize_buried_if_sending(claim, report, decision)
        assert answer == "done"

    def deliver(self, reminder: ScheduledReminder, outcome: Outcome, decision: Decision) -> None:
        self.finish(self.claim(reminder), outcome, decision)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of a query; tables are found without their schema."""
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL search_path = {self.database.schema}")
            cursor.execute(sql)
            return cursor.fetchall()

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT count(*) FROM {table}")[0][0])


def lines(result: Result) -> list[dict[str, Any]]:
    """The JSON objects printed, each on its line."""
    return [json.loads(line) for line in result.stdout.splitlines()]


def only(result: Result) -> dict[str, Any]:
    """The one JSON object printed."""
    (found,) = lines(result)
    return found

"""Series under a clock of the test's own: the moves of the ledger with `now` given, and what stands afterwards."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from integration.ledger.world import World
from reminders.ledger import planning, series_changing, series_rows
from reminders.ledger.caller import fetch
from reminders.ledger.scanning import PostgresScan
from reminders.pipeline.series_request import to_series_request
from reminders.providers import registry
from reminders.settings import Settings

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
START = datetime(2030, 5, 1, 9)
"""A Wednesday; in Berlin 07:00 UTC."""
NOON = datetime(2030, 5, 1, 12, tzinfo=UTC)
SETTINGS = Settings(allow_private=True)


def provider(name: str):
    return registry.load(name, SETTINGS)


def at(day: int, hour: int, minute: int = 0, *, month: int = 5) -> datetime:
    return datetime(2030, month, day, hour, minute, tzinfo=UTC)


def wanted(**changed: Any) -> dict[str, Any]:
    """Arguments of `schedule_series`: every day at nine in Berlin."""
    given = {
        "tenant_id": "tenant-a", "user_id": "user-1", "kind": "note", "channel": "log", "destination": "somewhere",
        "start": START, "zone": "Europe/Berlin", "rule": "FREQ=DAILY", "reference": "pills",
    }  # fmt: skip
    return {**given, **changed}


class SeriesStage:
    """A ledger whose planner believes what the test says about the time."""

    def __init__(self, world: World) -> None:
        self.world = world

    def request(self, **changed: Any):
        return to_series_request(provider, **wanted(**changed))

    def schedule(self, now: datetime = NOON, **changed: Any) -> series_rows.Series:
        made, created = self.committed(series_changing.schedule, self.request(**changed), now=now)
        assert created
        return made

    def edit(self, series, now: datetime, **changed: Any):
        return self.committed(series_changing.edit, series.id, changed, provider, now=now)

    def committed(self, call, *arguments: Any, **named: Any):
        with self.world.database.transaction() as connection:
            return call(connection, "reminders", *arguments, **named)

    def plan(self, now: datetime, limit: int = 200) -> int:
        return planning.plan_due(self.world.database, limit, now)

    def scan(self, now: datetime) -> PostgresScan:
        return PostgresScan(self.world.database, now)

    def get(self, series) -> series_rows.Series:
        with self.world.database.transaction() as connection:
            return series_rows.get_series(partial(fetch, connection, "reminders"), series.id)

    def rows(self, series) -> list[tuple[str, datetime, str]]:
        """Turn, instant and state of each occurrence; `withdrawn` for what its series has taken back."""
        query = """SELECT r.recurrence_id, r.due_at,
                          CASE WHEN r.withdrawn_at IS NOT NULL THEN 'withdrawn' ELSE COALESCE(d.status, r.status) END
                   FROM reminders.reminders r LEFT JOIN reminders.due d ON d.id = r.id
                   WHERE r.series_id = %s ORDER BY r.due_at, r.recurrence_id"""
        return [(turn, due.astimezone(UTC), status) for turn, due, status in self.world.sql(query, str(series.id))]

    def live(self, series) -> list[tuple[str, datetime]]:
        return [(turn, due) for turn, due, status in self.rows(series) if status == "pending"]

    def skips(self, series) -> list[tuple[str, str, timedelta, int]]:
        query = """SELECT recurrence_id, reason, lateness, count FROM reminders.series_skips WHERE series_id = %s ORDER BY due_at"""
        return self.world.sql(query, str(series.id))

    def id_of(self, series, turn: str):
        query = "SELECT id::text FROM reminders.reminders WHERE series_id = %s AND recurrence_id = %s"
        return self.world.sql(query, str(series.id), turn)[0][0]

    def expires_at(self, series, turn: str) -> datetime | None:
        query = "SELECT expires_at FROM reminders.reminders WHERE series_id = %s AND recurrence_id = %s"
        found = self.world.sql(query, str(series.id), turn)[0][0]
        return found and found.astimezone(UTC)

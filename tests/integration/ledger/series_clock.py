"""A ledger whose clock a test turns on, while a call waits for a lock that somebody holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from integration.ledger.series_stage import NOON, SeriesStage
from reminders.ledger import planning, series_changing
from reminders.ledger.database import Database
from reminders.ledger.series_rows import Series

# Found before Postgres's own. A function that is volatile sees what was committed before each call of it.
_CLOCK = """
CREATE SCHEMA turned;
CREATE TABLE turned.clock (now timestamptz NOT NULL, hurry interval NOT NULL);
CREATE SEQUENCE turned.readings MINVALUE 0;
CREATE FUNCTION turned.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS
    'DECLARE found timestamptz; BEGIN SELECT now + hurry * nextval(''turned.readings'') INTO found FROM turned.clock; RETURN found; END'"""
_PATH = "-c search_path=turned,pg_catalog -c statement_timeout=20s"


class SeriesClock(SeriesStage):
    """Series under a clock that stands still until it is turned. No call is told the time: all ask Postgres."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        url = world.database.url.update_query_dict({"options": _PATH})
        self.database = Database(url.render_as_string(hide_password=False), schema="reminders", pool_size=5)

    def turn(self, now: datetime) -> None:
        self.world.sql("UPDATE turned.clock SET now = %s, hurry = '0'", now)

    def hurry(self, step: timedelta) -> None:
        """Go on by so much with every reading."""
        self.world.sql("SELECT setval('turned.readings', 0, false)")
        self.world.sql("UPDATE turned.clock SET hurry = %s", step)

    def stop(self) -> datetime:
        """Stand still from now on; the time that it shows."""
        ((now,),) = self.world.sql(
            "UPDATE turned.clock SET now = now + hurry * nextval('turned.readings'), hurry = '0' RETURNING now"
        )
        return now.astimezone(UTC)

    def call(self, move: Any, *arguments: Any, **named: Any) -> Any:
        with self.database.transaction() as connection:
            return move(connection, "reminders", *arguments, **named)

    def schedule_now(self, **changed: Any) -> Series:
        made, created = self.call(series_changing.schedule, self.request(**changed))
        assert created
        return made

    def plan_all(self) -> None:
        while planning.plan_due(self.database, 200, None):
            pass

    def accounted(self, series: Series) -> list[str]:
        """The turns that are reminders, on record as skipped, or left out by a person; none is two of these."""
        made = [turn for turn, _, status in self.rows(series) if status not in {"withdrawn", "cancelled"}]
        return sorted([*made, *(turn for turn, *_ in self.skips(series)), *self.get(series).skipped])

    @contextmanager
    def held(self, statement: str, *given: Any) -> Iterator[Any]:
        """An application has run this in a transaction that stays open meanwhile, and is rolled back unless it commits."""
        application = self.world.connect()
        with application.cursor() as cursor:
            cursor.execute(statement, given)
            yield application
        application.rollback()

    def waits(self, turned_to: datetime, *call: Any, **named: Any) -> Any:
        """A call in a thread; by the time it has come to wait for a lock the clock is turned on."""
        answer = self.world.start(self.call, *call, **named)
        self.world.waiting_for_a_lock()
        self.turn(turned_to)
        return answer


@contextmanager
def turned(world: Any) -> Iterator[SeriesClock]:
    """The clock shows noon."""
    world.sql(_CLOCK)
    world.sql("INSERT INTO turned.clock VALUES (%s, '0')", NOON)
    clock = SeriesClock(world)
    try:
        yield clock
    finally:
        clock.database.close()
        world.sql("DROP SCHEMA turned CASCADE")

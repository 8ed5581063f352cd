"""A ledger whose clock a test turns on, while a call waits for a lock that somebody holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

from integration.ledger.series_stage import NOON, SeriesStage
from reminders.ledger.caller import fetch
from reminders.ledger.database import Database

# Found before Postgres's own. A function that is volatile sees what was committed before each call of it.
_CLOCK = """
CREATE SCHEMA turned;
CREATE TABLE turned.clock (now timestamptz NOT NULL);
CREATE FUNCTION turned.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS
    'DECLARE found timestamptz; BEGIN SELECT now INTO found FROM turned.clock; RETURN found; END'"""
_PATH = "-c search_path=turned,pg_catalog -c statement_timeout=20s"


class SeriesClock(SeriesStage):
    """Series under a clock that stands still until it is turned. No call is told the time: all ask Postgres."""

    def __init__(self, world: Any) -> None:
        super().__init__(world)
        url = world.database.url.update_query_dict({"options": _PATH})
        self.database = Database(url.render_as_string(hide_password=False), schema="reminders", pool_size=5)

    def turn(self, now: datetime) -> None:
        self.world.sql("UPDATE turned.clock SET now = %s", now)

    def call(self, move: Any, *arguments: Any, **named: Any) -> Any:
        with self.database.transaction() as connection:
            return move(connection, "reminders", *arguments, **named)

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

    def run(self, statement: Any, **named: Any) -> Any:
        with self.database.transaction() as connection:
            return partial(fetch, connection, "reminders")(statement, **named)


@contextmanager
def turned(world: Any) -> Iterator[SeriesClock]:
    """The clock shows noon."""
    world.sql(_CLOCK)
    world.sql("INSERT INTO turned.clock VALUES (%s)", NOON)
    clock = SeriesClock(world)
    try:
        yield clock
    finally:
        clock.database.close()
        world.sql("DROP SCHEMA turned CASCADE")

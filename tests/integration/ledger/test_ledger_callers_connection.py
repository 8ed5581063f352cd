"""The caller's connection stays the caller's: nothing is committed, no session state is left, no error breaks it (G1)."""

from __future__ import annotations

from datetime import timedelta

import psycopg2
import psycopg2.errors
import psycopg2.extras
import pytest
from psycopg2.extensions import TRANSACTION_STATUS_IDLE, TRANSACTION_STATUS_INTRANS
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError, ProgrammingError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

import reminders
from reminders import Conflict, InvalidInput

SESSION_STATE = """SELECT (SELECT json_agg(s ORDER BY name) FROM (SELECT name, setting FROM pg_settings WHERE source = 'session') s)::text,
    (SELECT count(*) FROM pg_prepared_statements), (SELECT count(*) FROM pg_cursors WHERE NOT name = ''),
    (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')"""


@pytest.fixture
def engine(world):
    engine = create_engine(world.database.url)
    yield engine
    engine.dispose()


def every_call(connection, world):
    """Use everything the API has, once."""
    made = reminders.schedule(connection, **world.wanted())
    reminders.schedule_many(connection, [world.wanted(), world.wanted()])
    moved = reminders.reschedule(connection, made.id, due_at=world.now + timedelta(days=1))
    assert reminders.get(connection, made.id).due_at == moved.due_at == world.now + timedelta(days=1)
    assert reminders.cancel(connection, made.id) == "cancelled"
    return made


@pytest.mark.parametrize("kind", ["session", "scoped session", "connection", "psycopg2", "pooled psycopg2"])
def test_each_kind_of_connection_works_and_stays_in_the_callers_transaction(world, engine, kind):
    opened = {
        "session": lambda: Session(engine),
        "scoped session": lambda: scoped_session(sessionmaker(engine)),
        "connection": engine.connect,
        "psycopg2": world.connect,
        "pooled psycopg2": engine.raw_connection,
    }[kind]()
    made = every_call(opened, world)
    assert world.sql("SELECT count(*) FROM reminders.reminders")[0][0] == 0
    opened.rollback()
    with pytest.raises(reminders.NotFound):
        reminders.get(opened, made.id)
    made = every_call(opened, world)
    opened.commit()
    assert world.status(made.id)[0] == "cancelled"
    opened.close()


@pytest.mark.parametrize("kind", ["session", "connection", "psycopg2"])
def test_a_conflict_or_a_bad_value_leaves_the_transaction_usable(world, engine, kind):
    wanted = world.wanted()
    world.committed(reminders.schedule, **wanted)
    opened = {"session": lambda: Session(engine), "connection": engine.connect, "psycopg2": world.connect}[kind]()
    first = reminders.schedule(opened, **world.wanted())
    with pytest.raises(Conflict):
        reminders.schedule(opened, **{**wanted, "data": {"other": True}})
    with pytest.raises(InvalidInput):
        reminders.schedule(opened, **world.wanted(user_id="\x00"))
    with pytest.raises(reminders.NotFound):
        reminders.cancel(opened, "00000000-0000-7000-8000-000000000000")
    last = reminders.schedule(opened, **world.wanted())
    opened.commit()
    opened.close()
    assert [world.status(each.id)[0] for each in (first, last)] == ["pending", "pending"]


def test_no_call_leaves_session_state(world):
    connection = world.connect()
    with connection.cursor() as cursor:
        cursor.execute(SESSION_STATE)
        before = cursor.fetchone()
        every_call(connection, world)
        cursor.execute(SESSION_STATE)
        assert cursor.fetchone() == before
    assert connection.info.transaction_status == TRANSACTION_STATUS_INTRANS
    connection.rollback()


def test_autocommit_stays_the_callers_choice(world):
    connection = world.connect()
    connection.autocommit = True
    made = reminders.schedule(connection, **world.wanted())
    assert connection.info.transaction_status == TRANSACTION_STATUS_IDLE
    assert world.status(made.id)[0] == "pending"


@pytest.mark.parametrize(
    "factory", [psycopg2.extras.RealDictCursor, psycopg2.extras.DictCursor, psycopg2.extras.NamedTupleCursor]
)
def test_the_callers_cursor_factory_does_not_matter(world, factory):
    connection = world.connect(cursor_factory=factory)
    wanted = world.wanted()
    made = reminders.schedule(connection, **wanted)
    assert reminders.schedule(connection, **wanted).id == made.id
    assert reminders.get(connection, made.id).status == "pending"
    assert reminders.reschedule(connection, made.id, due_at=world.now + timedelta(days=1)).version == 2
    assert reminders.cancel(connection, made.id) == "cancelled"


def test_something_that_is_no_connection_is_named(world):
    with pytest.raises(InvalidInput) as caught:
        reminders.schedule(object(), **world.wanted())
    assert caught.value.field == "connection"


def test_savepoints_of_the_caller_take_a_reminder_back(world):
    with world.connect() as connection, connection.cursor() as cursor:
        kept = reminders.schedule(connection, **world.wanted())
        cursor.execute("SAVEPOINT here")
        dropped = reminders.schedule(connection, **world.wanted())
        cursor.execute("ROLLBACK TO here")
    assert world.status(kept.id)[0] == "pending"
    with pytest.raises(reminders.NotFound):
        world.committed(reminders.get, dropped.id)


def test_under_repeatable_read_a_concurrent_twin_is_a_serialization_failure(world, engine):
    """Postgres cannot show the other's row to this snapshot; the caller retries its transaction, as that level asks."""
    wanted = world.wanted()
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as late:
        late.execute(text("SELECT 1"))
        made = world.committed(reminders.schedule, **wanted)
        with pytest.raises(OperationalError) as caught:
            reminders.schedule(late, **wanted)
        assert isinstance(caught.value.orig, psycopg2.errors.SerializationFailure)
        late.rollback()
        again = reminders.schedule(late, **wanted)
        late.commit()
    assert (again.id, again.created) == (made.id, False)


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_stricter_levels_work_when_nobody_interferes(world, engine, level):
    with engine.connect().execution_options(isolation_level=level) as connection:
        made = every_call(connection, world)
        wanted = world.wanted()
        assert reminders.schedule(connection, **wanted).id == reminders.schedule(connection, **wanted).id
        connection.commit()
    assert world.status(made.id)[0] == "cancelled"


def test_under_repeatable_read_cancel_never_believes_an_old_snapshot(world, engine):
    """A claim taken after the snapshot must not be overlooked: the cancel fails instead of answering `cancelled`."""
    made = world.schedule()
    world.published()
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as late:
        late.execute(text("SELECT 1"))
        assert world.claim(made) is not None
        with pytest.raises(OperationalError) as caught:
            reminders.cancel(late, made.id)
        assert isinstance(caught.value.orig, psycopg2.errors.SerializationFailure)
        late.rollback()
        assert reminders.cancel(late, made.id) == "requested"
        late.commit()


@pytest.mark.parametrize("kind", ["session", "psycopg2"])
def test_a_database_without_the_ledger_is_told_what_is_missing(world, kind):
    elsewhere = make_url(world.database.url).set(database="postgres")
    other = create_engine(elsewhere)
    connection = Session(other) if kind == "session" else other.raw_connection()
    with pytest.raises((ProgrammingError, psycopg2.errors.InvalidSchemaName)) as raised:
        reminders.schedule(connection, **world.wanted())
    assert "run `reminders migrate`" in "".join(raised.value.__notes__)
    connection.close()
    other.dispose()

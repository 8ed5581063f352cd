"""Migrations go up, down and up again, one at a time, in any schema, and leave the application's own things alone."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy.exc import OperationalError

import reminders
from reminders import api
from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.database import Database
from reminders.ledger.migrations import migrate, upgrade_script
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.schema_version import head, require_head, scripts_folder

HEAD = ScriptDirectory(str(scripts_folder())).get_current_head()
SHAPE = """
SELECT 'column', table_name || '.' || column_name, data_type || ' ' || is_nullable || ' ' || COALESCE(column_default, '')
FROM information_schema.columns WHERE table_schema = '{s}'
UNION ALL SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = '{s}'
UNION ALL SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = '{s}'::regnamespace
UNION ALL SELECT 'view', viewname, definition FROM pg_views WHERE schemaname = '{s}'
ORDER BY 1, 2, 3"""
TABLES = "SELECT table_name FROM information_schema.tables WHERE table_schema = '{s}' ORDER BY 1"
REFUSING = """
CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM information_schema.columns WHERE column_name = 'give_up_at') THEN
        RAISE 'no column of that name here';
    END IF;
END $$"""
STATE_COLUMNS = """SELECT table_name || '.' || column_name FROM information_schema.columns
WHERE table_schema = 'reminders' AND data_type = '{kind}'"""


def test_up_down_and_up_again_gives_the_same_shape(empty_database, query):
    assert migrate(empty_database, "reminders") == (None, HEAD)
    first = query(empty_database, SHAPE.format(s="reminders"))
    assert len(first) > 80
    assert migrate(empty_database, "reminders") == (HEAD, HEAD)
    assert migrate(empty_database, "reminders", "base") == (HEAD, None)
    assert query(empty_database, TABLES.format(s="reminders")) == [("schema_version",)]
    assert migrate(empty_database, "reminders") == (None, HEAD)
    assert query(empty_database, SHAPE.format(s="reminders")) == first


def test_two_at_once_make_one_ledger(live):
    """Two hosts deploy together: the second waits for the first and finds nothing left to do."""
    holder = live.application()
    with holder.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('reminders-migrate'))")
    both = [live.migrator() for _ in range(2)]
    live.until_asking(2)
    assert live.query("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == [(0,)]
    assert live.query("SELECT to_regnamespace('reminders')") == [(None,)]
    holder.close()
    assert [each.communicate(timeout=60) for each in both] == [(f"{HEAD}\n", "")] * 2
    assert live.query("SELECT version_num FROM reminders.schema_version") == [(HEAD,)]


@pytest.mark.parametrize("schema", ["notices", "_x9", "a" * 31])
def test_another_schema_holds_a_whole_ledger(empty_database, query, schema, monkeypatch):
    migrate(empty_database, schema)
    assert query(empty_database, TABLES.format(s="reminders")) == []
    assert query(empty_database, f"SELECT count(*) FROM {schema}.schema_version") == [(1,)]
    monkeypatch.setenv("REMINDERS_SCHEMA", schema)
    api._settings.cache_clear()
    database = Database(empty_database, schema=schema)
    with database.transaction() as connection:
        made = reminders.schedule(
            connection, tenant_id="t", user_id="u", kind="k", channel="log", destination="d",
            due_at=datetime.now(UTC) - timedelta(minutes=1),
        )  # fmt: skip
    (message,) = PostgresScan(database).lease(10, 60.0, made.id).messages
    assert message.reminder_id == made.id
    database.close()


def test_two_schemas_in_one_database_are_two_ledgers(empty_database, query):
    migrate(empty_database, "one")
    migrate(empty_database, "two")
    migrate(empty_database, "one", "base")
    assert len(query(empty_database, TABLES.format(s="two"))) > 7
    assert query(empty_database, TABLES.format(s="one")) == [("schema_version",)]


def test_the_applications_own_tables_and_version_stay_as_they_are(empty_database, query):
    query(empty_database, "CREATE TABLE public.alembic_version (version_num text)")
    query(empty_database, "INSERT INTO public.alembic_version VALUES ('theirs')")
    migrate(empty_database, "reminders")
    migrate(empty_database, "reminders", "base")
    assert query(empty_database, "SELECT version_num FROM public.alembic_version") == [("theirs",)]
    assert query(empty_database, TABLES.format(s="public")) == [("alembic_version",)]


def test_a_schema_that_is_behind_is_refused_with_what_to_do(empty_database):
    with pytest.raises(ServiceUnavailable, match="reminders migrate"):
        require_head(empty_database, "reminders")
    migrate(empty_database, "reminders", "0001")
    with pytest.raises(ServiceUnavailable, match=f"is at version 0001; this release needs {HEAD}"):
        require_head(empty_database, "reminders")
    migrate(empty_database, "reminders")
    require_head(empty_database, "reminders")


def test_the_names_of_the_files_tell_the_version_that_is_needed():
    assert head() == HEAD


def test_it_gives_up_rather_than_queue_before_the_applications_locks(empty_database, query):
    """A waiting migration would make everybody else wait behind it."""
    migrate(empty_database, "reminders", "0001")
    holder = psycopg2.connect(empty_database.replace("postgresql+psycopg2", "postgresql"))
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders")
        with pytest.raises(OperationalError, match="lock timeout"):
            migrate(empty_database, "reminders", "base")
    holder.close()
    assert query(empty_database, "SELECT version_num FROM reminders.schema_version") == [("0001",)]


def test_a_migration_that_fails_leaves_nothing(empty_database, query):
    query(empty_database, "CREATE SCHEMA reminders CREATE TABLE dead_letters (mine int)")
    with pytest.raises(Exception, match="dead_letters"):
        migrate(empty_database, "reminders")
    assert query(empty_database, TABLES.format(s="reminders")) == [("dead_letters",)]


def test_a_migration_that_fails_leaves_the_ones_before_it_and_nothing_of_itself(empty_database, query):
    migrate(empty_database, "reminders", "0001")
    first = query(empty_database, SHAPE.format(s="reminders"))
    migrate(empty_database, "reminders", "base")
    # What the second migration does to `due` is refused at its second statement.
    query(empty_database, REFUSING)
    query(empty_database, "CREATE EVENT TRIGGER refusing ON ddl_command_end EXECUTE FUNCTION public.refuse()")
    with pytest.raises(Exception, match="no column of that name here"):
        migrate(empty_database, "reminders")
    assert query(empty_database, "SELECT version_num FROM reminders.schema_version") == [("0001",)]
    assert query(empty_database, SHAPE.format(s="reminders")) == first
    query(empty_database, "DROP EVENT TRIGGER refusing")
    assert migrate(empty_database, "reminders") == ("0001", HEAD)


def test_the_script_for_reading_creates_the_same_ledger(empty_database, query, psql):
    psql(empty_database, upgrade_script("offline"))
    migrate(empty_database, "online")
    assert [row[1] for row in query(empty_database, SHAPE.format(s="offline"))] == [
        row[1].replace("online.", "offline.") for row in query(empty_database, SHAPE.format(s="online"))
    ]
    assert migrate(empty_database, "offline") == (HEAD, HEAD)


def test_all_times_have_a_zone_and_no_column_is_called_user(empty_database, query):
    migrate(empty_database, "reminders")
    assert query(empty_database, STATE_COLUMNS.format(kind="timestamp without time zone")) == []
    assert (
        query(
            empty_database,
            "SELECT 1 FROM information_schema.columns WHERE column_name = 'user' AND table_schema = 'reminders'",
        )
        == []
    )


IMPOSSIBLE = [
    "UPDATE reminders.reminders SET status = 'sleeping'",
    "UPDATE reminders.reminders SET status = 'delivered'",
    "UPDATE reminders.reminders SET finished_at = now()",
    "UPDATE reminders.reminders SET due_at = 'infinity'",
    "UPDATE reminders.reminders SET due_at = '1969-12-31T23:59:59Z'",
    "UPDATE reminders.reminders SET due_at = '9999-01-01Z'",
    "UPDATE reminders.reminders SET expires_at = due_at",
    "UPDATE reminders.reminders SET expires_at = 'infinity'",
    "UPDATE reminders.reminders SET data = '[]'",
    "UPDATE reminders.reminders SET identity_key = '\\x00'",
    "UPDATE reminders.reminders SET tenant_id = ''",
    "UPDATE reminders.due SET status = 'delivered'",
    "UPDATE reminders.due SET status = 'leased'",
    "UPDATE reminders.due SET status = 'published'",
    "UPDATE reminders.due SET cancel_requested_at = now()",
    "UPDATE reminders.due SET wake_at = NULL",
    "UPDATE reminders.due SET route = 'elsewhere'",
    "INSERT INTO reminders.due (id, lane, wake_at, status, delivery_key) VALUES (gen_random_uuid(), 't', now(), 'pending', 'k')",
]


def test_impossible_rows_are_impossible(empty_database, query):
    migrate(empty_database, "reminders")
    database = Database(empty_database, schema="reminders")
    with database.transaction() as connection:
        reminders.schedule(
            connection, tenant_id="t", user_id="u", kind="k", channel="log", destination="d",
            due_at=datetime.now(UTC), expires_at=datetime.now(UTC) + timedelta(days=1),
        )  # fmt: skip
    database.close()
    accepted = []
    for statement in IMPOSSIBLE:
        with contextlib.suppress(psycopg2.IntegrityError):
            query(empty_database, statement)
            accepted.append(statement)
    assert accepted == []

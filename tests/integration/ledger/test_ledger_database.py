"""Our own connections: prepared statements where the server connection is ours, plain SQL where it is not."""

from __future__ import annotations

from dataclasses import replace

import psycopg2.errors
import pytest

from integration.ledger.world import CLAIM
from reminders.domain.errors import SettingsError
from reminders.domain.identity import uuid7
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import DATABASE_AWAY, Database, driver_url
from reminders.ledger.scanning import LOOK, PostgresScan


@pytest.fixture
def own(world):
    database = Database(world.database.url.render_as_string(hide_password=False), schema="reminders", pool_size=1)
    yield database
    database.close()


def prepared(own) -> set[str]:
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT name FROM pg_prepared_statements")
        return {row[0] for row in cursor.fetchall()}


def test_a_statement_is_prepared_once_on_a_connection(own):
    for _ in range(3):
        PostgresScan(own).look(10)
    assert prepared(own) == {own.bound(LOOK).prepared_name}


def test_behind_a_pooler_that_hands_out_another_server_connection_plain_sql_is_used(world, own):
    """Its prepared statements are gone from one transaction to the next."""
    made = world.schedule()
    scan = PostgresScan(own)
    scan.look(10)
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    assert scan.look(10).due == 1
    assert [message.reminder_id for message in scan.lease(10, 60.0, uuid7()).messages] == [made.id]
    assert PostgresClaims(own, worker="w", formats={}).claim(made.id, made.delivery_key, uuid7(), CLAIM) is not None
    assert prepared(own) == set()


def test_behind_a_pooler_that_still_has_the_statement_of_somebody_else_plain_sql_is_used(world, own):
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute(f"PREPARE {own.bound(LOOK).prepared_name} AS SELECT 1")
    assert PostgresScan(own).look(10).due == 0


def test_behind_a_pooler_what_another_release_or_schema_has_prepared_is_not_run(world, own):
    """A pooler in transaction mode may let each statement go to another server connection, where others have prepared theirs."""
    made = world.schedule()
    scan = PostgresScan(own)
    assert scan.look(10).due == 1
    mine = own.bound(LOOK)
    others = [
        replace(mine, sql=f"{mine.sql} LIMIT 0"),
        LOOK.in_schema("another"),
        replace(mine, sql=f"SELECT 7 {mine.sql[7:]}"),
    ]
    names = {mine.prepared_name, *(each.prepared_name for each in others)}
    assert len(names) == 4
    assert all(each.startswith("look_") and len(each) < 64 for each in names)
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
        cursor.execute("PREPARE look (timestamptz, integer) AS SELECT 1")
    assert scan.look(10).due == 1
    assert made.status == "pending"


def test_no_setting_stays_on_a_connection_of_the_pool(own):
    def settings():
        with own.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT name, setting FROM pg_settings WHERE source = 'session' ORDER BY 1")
            return cursor.fetchall()

    before = settings()
    PostgresScan(own).look(10)
    own.fetch_within(50, LOOK, limit=1)
    assert settings() == before


def test_a_block_that_raises_leaves_nothing_and_the_connection_usable(world, own):
    def fail():
        with own.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("INSERT INTO reminders.ticks VALUES ('x', now())")
            cursor.execute("SELECT 1 / 0")

    with pytest.raises(psycopg2.errors.DivisionByZero):
        fail()
    assert world.sql("SELECT count(*) FROM reminders.ticks") == [(0,)]
    assert PostgresScan(own).look(10).due == 0


def test_columns_added_by_a_newer_release_do_not_disturb_a_worker_that_has_its_statements_prepared(world, own):
    """A rolling deployment migrates while the old workers run."""
    claims = PostgresClaims(own, worker="w", formats={"log": 1})
    first, second = world.schedule(), world.schedule()
    world.published()
    assert claims.claim(first.id, first.delivery_key, uuid7(), CLAIM) is not None
    tables = ("reminders", "due", "notification_deliveries", "destinations")
    try:
        for table in tables:
            world.sql(f"ALTER TABLE reminders.{table} ADD COLUMN newer text")
        assert claims.claim(second.id, second.delivery_key, uuid7(), CLAIM) is not None
    finally:
        for table in tables:
            world.sql(f"ALTER TABLE reminders.{table} DROP COLUMN newer")


@pytest.mark.parametrize(
    "given",
    [
        "postgres://u:p%40ss@h:5433/d?sslmode=require",
        "postgresql://u:p%40ss@h:5433/d?sslmode=require",
        "postgresql+psycopg2://u:p%40ss@h:5433/d?sslmode=require",
    ],
)
def test_every_form_of_address_names_the_driver_and_keeps_the_rest(given):
    url = driver_url(given)
    assert (url.drivername, url.password, url.port, url.database) == ("postgresql+psycopg2", "p@ss", 5433, "d")
    assert url.query == {"sslmode": "require"}


@pytest.mark.parametrize(
    "given", ["", "nonsense", "mysql://u@h/d", "postgresql+psycopg://u@h/d", "postgres:/x", "http://h"]
)
def test_another_address_is_refused_without_being_shown(given):
    with pytest.raises(SettingsError, match="DATABASE_URL"):
        driver_url(given)


def test_a_connection_that_leads_to_a_read_only_node_is_given_up(world, own):
    """After a failover the old address may answer, read-only, for as long as the connection lives."""
    made = world.schedule()
    scan = PostgresScan(own)
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION default_transaction_read_only = on")
    with pytest.raises(DATABASE_AWAY):
        scan.lease(10, 60.0, uuid7())
    assert [message.reminder_id for message in scan.lease(10, 60.0, uuid7()).messages] == [made.id]


def test_a_transaction_of_ours_that_stands_still_is_ended_by_postgres(own):
    """A process frozen inside it must not keep its rows locked."""
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW idle_in_transaction_session_timeout")
        assert cursor.fetchone() == ("30s",)


def test_a_transaction_does_not_fail_for_a_connection_that_died_while_idle(world, own):
    with own.transaction() as connection:
        pid = connection.info.backend_pid
    world.sql("SELECT pg_terminate_backend(%s, 5000)", pid)
    with own.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)

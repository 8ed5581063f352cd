"""`reminders migrate`, on databases of its own; and what commands say where it has not run."""

from contextlib import ExitStack
from uuid import uuid4

import psycopg2
import pytest
from sqlalchemy import make_url

from integration.cli.stage import only
from reminders.calendar.zones import known_zones

KEYS = {"v", "schema", "before", "after", "partitions"}


@pytest.fixture
def empty(services, monkeypatch):
    """The address of a database with nothing in it."""
    name = f"cli_{uuid4().hex[:12]}"
    connection = psycopg2.connect(services.database_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
        yield make_url(services.database_url).set(database=name).render_as_string(hide_password=False)
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")
    connection.close()


@pytest.fixture
def run_there(run, empty, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", empty)
    return run


def tables(url, schema="reminders"):
    with psycopg2.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema])
        return {row[0] for row in cursor.fetchall()}


def test_brings_an_empty_database_to_head_and_may_run_again(run_there, empty):
    first = run_there("migrate", "--json")
    found = only(first)
    assert (first.exit_code, set(found)) == (0, KEYS)
    assert (found["schema"], found["before"]) == ("reminders", None)
    assert len(found["partitions"]) == 4
    assert {"reminders", "due", "schema_version", *found["partitions"]} <= tables(empty)
    again = run_there("migrate", "--json")
    assert (again.exit_code, only(again)) == (0, found | {"before": found["after"], "partitions": []})
    assert run_there("migrate").stdout == f"Schema reminders: {found['after']}, as before\n"


def test_for_people_and_in_a_schema_of_ones_own(run_there, empty, monkeypatch):
    monkeypatch.setenv("REMINDERS_SCHEMA", "told")
    shown = run_there("migrate").stdout
    assert shown.startswith("Schema told: nothing -> ")
    assert shown.count("delivery_attempts_2") == 4
    assert "reminders" in tables(empty, "told")
    assert tables(empty) == set()


def test_prints_the_sql_without_a_database(run, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    result = run("migrate", "--sql")
    assert result.exit_code == 0
    assert "CREATE TABLE reminders.due" in result.stdout


def test_the_printed_sql_is_what_migrate_does(run_there, empty, psql):
    psql(empty, run_there("migrate", "--sql").stdout)
    done = only(run_there("migrate", "--json"))
    assert done["before"] == done["after"] is not None


def test_several_at_once(start, empty):
    with ExitStack() as stack:
        migrating = [stack.enter_context(start("migrate", environ={"DATABASE_URL": empty})) for _ in range(4)]
        ends = [(*each.communicate(timeout=60), each.returncode) for each in migrating]
    assert [(err, code) for _, err, code in ends] == [("", 0)] * 4
    assert "delivery_attempts_default" in tables(empty)


@pytest.mark.parametrize(
    "command", [["list"], ["status", "--json"], ["dlq", "list"], ["scan"], ["destination", "list"]]
)
def test_commands_ask_for_it_where_it_has_not_run(run_there, command):
    result = run_there(*command)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "Run `reminders migrate` first." in result.stderr
    assert len(result.stderr.splitlines()) == 2


def test_a_role_that_may_not_create_is_told_so(run_there, empty, monkeypatch):
    with psycopg2.connect(empty) as connection, connection.cursor() as cursor:
        role = f"reader_{uuid4().hex[:8]}"
        cursor.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'hidden-word'")
    url = make_url(empty).set(username=role, password="hidden-word").render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE_URL", url)
    result = run_there("migrate")
    assert result.exit_code == 1
    assert result.stderr.startswith("Postgres ended or refused the command: permission denied for database")
    assert "hidden-word" not in result.stderr
    with psycopg2.connect(empty) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("command", [["migrate"], ["list"], ["status", "--json"], ["scan"], ["dlq", "list"]])
def test_two_lines_when_postgres_is_away(run, monkeypatch, command):
    monkeypatch.setenv("DATABASE_URL", "postgresql://someone:hidden-word@127.0.0.1:1/nothing")
    result = run(*command)
    assert (result.exit_code, result.stdout) == (1, "")
    first, second = result.stderr.splitlines()
    assert first.startswith("Postgres does not answer at postgresql+psycopg2://someone:***@127.0.0.1:1/nothing: ")
    assert second.startswith("Check DATABASE_URL")


def test_sql_can_schedule_once_it_has_run(run_there, empty):
    """The channels that are installed and the zones of `tzdata` are in the ledger then."""
    assert run_there("migrate").exit_code == 0
    with psycopg2.connect(empty) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT name, deduplicates FROM reminders.known_channels ORDER BY name")
        known = dict(cursor.fetchall())
        assert {"email": False, "log": True, "sms": False, "webhook": True}.items() <= known.items()
        cursor.execute("SELECT count(*) FROM reminders.known_zones")
        assert cursor.fetchone() == (len(known_zones()),)
        cursor.execute("SELECT (reminders.schedule('t', 'u', 'k', 'log', 'd', now(), zone => 'Asia/Tokyo')).created")
        assert cursor.fetchone() == (True,)

"""The kit's `apply_once` on SQLite and on Postgres: a key and its effect together, once, whoever dies or comes at once."""

from __future__ import annotations

import re
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from sqlalchemy import StaticPool, create_engine, text
from sqlalchemy.orm import Session

from reminders.receiver import Applied, KeyConflict, apply_once, create_table

Connect = Callable[..., Any]


@pytest.fixture(params=["sqlite", "sqlite autocommit", "psycopg2", "psycopg2 autocommit"])
def connect(request, tmp_path) -> Iterator[Connect]:
    """Opens connections of one kind to an empty database with a table of keys and one of effects."""
    with ExitStack() as stack:
        autocommit = request.param.endswith("autocommit")
        if request.param.startswith("sqlite"):

            def open_one():
                level = None if autocommit else "DEFERRED"
                # Whoever waits for the others' commits does so with patience, on a busy disk too.
                found = sqlite3.connect(tmp_path / "db", timeout=60, isolation_level=level, check_same_thread=False)
                stack.callback(found.close)
                return found
        else:
            url = request.getfixturevalue("services").database_url
            with closing(psycopg2.connect(url)) as admin:
                admin.autocommit = True
                admin.cursor().execute("DROP SCHEMA IF EXISTS theirs CASCADE; CREATE SCHEMA theirs")

            def open_one():
                found = psycopg2.connect(url, options="-c search_path=theirs -c lock_timeout=10s")
                found.autocommit = autocommit
                stack.callback(found.close)
                return found

        first = open_one()
        create_table(first)
        create_table(first)
        first.cursor().execute("CREATE TABLE effects (what TEXT NOT NULL)")
        first.commit()
        yield open_one


def note(what: str | None, connection: Any) -> None:
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    connection.cursor().execute(f"INSERT INTO effects (what) VALUES ({mark})", (what,))


def found(connect: Connect, question: str = "SELECT what FROM effects ORDER BY what") -> list[Any]:
    """What another connection sees, that is, what was committed."""
    with closing(connect()) as other:
        cursor = other.cursor()
        cursor.execute(question)
        return [row[0] for row in cursor.fetchall()]


def test_a_key_is_applied_now_and_was_applied_before(connect):
    connection = connect()
    assert apply_once(connection, "dk_1", partial(note, "a"), body=b"{}") is Applied.NOW
    assert found(connect) == ["a"]
    assert apply_once(connection, "dk_1", partial(note, "b"), body=b"{}") is Applied.BEFORE
    assert apply_once(connect(), "dk_1", partial(note, "c"), body=b"{}") is Applied.BEFORE
    assert apply_once(connection, "dk_2", partial(note, "d"), body=b"{}") is Applied.NOW
    assert found(connect) == ["a", "d"]


def test_another_body_under_a_known_key_is_a_conflict_and_changes_nothing(connect):
    connection = connect()
    apply_once(connection, "dk_1", partial(note, "a"), body=b"{}")
    with pytest.raises(KeyConflict):
        apply_once(connection, "dk_1", partial(note, "b"), body=b"{} ")
    assert apply_once(connection, "dk_1", partial(note, "c"), body=b"{}") is Applied.BEFORE
    assert found(connect) == ["a"]


def test_without_a_body_nothing_is_compared(connect):
    connection = connect()
    assert apply_once(connection, "dk_1", partial(note, "a")) is Applied.NOW
    assert apply_once(connection, "dk_1", partial(note, "b"), body=b"x") is Applied.BEFORE
    assert apply_once(connection, "dk_2", partial(note, "c"), body=b"x") is Applied.NOW
    assert apply_once(connection, "dk_2", partial(note, "d")) is Applied.BEFORE


def test_a_key_is_its_tenants_alone(connect):
    connection = connect()
    assert apply_once(connection, "dk_1", partial(note, "evil"), body=b"1", tenant_id="evil") is Applied.NOW
    assert apply_once(connection, "dk_1", partial(note, "acme"), body=b"2", tenant_id="acme") is Applied.NOW


def test_an_effect_that_fails_leaves_no_key(connect):
    connection = connect()

    def fail(inner):
        note("half", inner)
        raise LookupError("theirs")

    with pytest.raises(LookupError, match="theirs"):
        apply_once(connection, "dk_1", fail)
    with pytest.raises((sqlite3.IntegrityError, psycopg2.IntegrityError)):
        apply_once(connection, "dk_1", partial(note, None))
    assert found(connect) == []
    assert found(connect, "SELECT key FROM webhook_keys") == []
    assert apply_once(connection, "dk_1", partial(note, "a")) is Applied.NOW
    assert found(connect) == ["a"]


def test_a_connection_that_is_lost_before_the_commit_leaves_neither(connect):
    connection = connect()

    def lose(inner):
        note("a", inner)
        inner.close()
        raise ConnectionError("lost")

    with pytest.raises(ConnectionError, match="lost"):
        apply_once(connection, "dk_1", lose)
    assert apply_once(connect(), "dk_1", partial(note, "b")) is Applied.NOW
    assert found(connect) == ["b"]


def test_what_was_open_on_the_connection_is_committed_with_it_or_rolled_back_with_it(connect):
    connection = connect()
    if getattr(connection, "autocommit", None) is True or getattr(connection, "isolation_level", "") is None:
        connection.cursor().execute("BEGIN")
    note("mine", connection)
    apply_once(connection, "dk_1", partial(note, "a"))
    assert found(connect) == ["a", "mine"]


def test_with_commit_false_the_caller_commits_both(connect):
    connection = connect()
    for key, what in (("dk_1", "a"), ("dk_2", "b")):
        assert apply_once(connection, key, partial(note, what), body=b"1", commit=False) is Applied.NOW
    with pytest.raises(KeyConflict):
        apply_once(connection, "dk_2", partial(note, "c"), body=b"2", commit=False)
    assert found(connect) == []
    connection.cursor().execute("COMMIT")
    assert found(connect) == ["a", "b"]


def test_with_commit_false_an_effect_that_fails_takes_back_itself_alone(connect):
    connection = connect()
    apply_once(connection, "dk_1", partial(note, "a"), commit=False)
    with pytest.raises((sqlite3.IntegrityError, psycopg2.IntegrityError)):
        apply_once(connection, "dk_2", partial(note, None), commit=False)
    assert apply_once(connection, "dk_1", partial(note, "b"), commit=False) is Applied.BEFORE
    connection.cursor().execute("COMMIT")
    assert found(connect) == ["a"]
    assert found(connect, "SELECT key FROM webhook_keys") == ["dk_1"]


def test_whoever_comes_at_once_with_one_key_applies_it_once(connect):
    together = threading.Barrier(8)

    def one(number):
        connection = connect()
        together.wait(30)
        return apply_once(connection, "dk_1", partial(note, str(number)), body=b"{}")

    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(one, range(8)))
    assert results.count(Applied.NOW) == 1
    assert results.count(Applied.BEFORE) == 7
    assert len(found(connect)) == 1


def test_the_second_waits_for_the_first_and_applies_what_that_one_took_back(connect):
    first, second = connect(), connect()
    inside, go_on = threading.Event(), threading.Event()

    def slow(inner):
        note("first", inner)
        inside.set()
        assert go_on.wait(30)
        raise LookupError

    with ThreadPoolExecutor(2) as threads:
        failing = threads.submit(apply_once, first, "dk_1", slow)
        assert inside.wait(30)
        waiting = threads.submit(apply_once, second, "dk_1", partial(note, "second"))
        go_on.set()
        with pytest.raises(LookupError):
            failing.result(30)
        assert waiting.result(30) is Applied.NOW
    assert found(connect) == ["second"]


@pytest.mark.parametrize("table", ["", "keys; DROP TABLE effects", "a.b.c", 'k"', "1k", "k\n"])
def test_a_table_that_is_no_plain_name_is_refused(connect, table):
    connection = connect()
    for use in (partial(apply_once, connection, "dk_1", partial(note, "a")), partial(create_table, connection)):
        with pytest.raises(ValueError, match="plain name"):
            use(table=table)


def test_a_table_in_another_schema(connect):
    connection = connect()
    schema = "main" if isinstance(connection, sqlite3.Connection) else "theirs"
    create_table(connection, table=f"{schema}.other_keys")
    assert apply_once(connection, "dk_1", partial(note, "a"), table=f"{schema}.other_keys") is Applied.NOW
    assert found(connect, "SELECT key FROM other_keys") == ["dk_1"]


@pytest.mark.parametrize("connect", ["psycopg2"], indirect=True)
def test_under_repeatable_read_a_key_taken_meanwhile_is_a_failure_to_be_repeated(connect):
    connection = connect()
    connection.cursor().execute("COMMIT")
    connection.cursor().execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    connection.cursor().execute("SELECT 1 FROM effects")
    apply_once(connect(), "dk_1", partial(note, "a"))
    with pytest.raises(psycopg2.errors.SerializationFailure):
        apply_once(connection, "dk_1", partial(note, "b"))
    assert apply_once(connection, "dk_1", partial(note, "c")) is Applied.BEFORE
    assert found(connect) == ["a"]


@pytest.mark.parametrize("connect", ["sqlite", "psycopg2"], indirect=True)
@pytest.mark.parametrize("ends", ["commit", "rollback"])
def test_on_the_drivers_connection_of_a_sqlalchemy_session(connect, ends):
    driver = connect()
    name = "sqlite" if isinstance(driver, sqlite3.Connection) else "postgresql+psycopg2"
    engine = create_engine(f"{name}://", creator=lambda: driver, poolclass=StaticPool)
    with Session(engine) as session:
        session.execute(text("INSERT INTO effects (what) VALUES ('theirs')"))
        connection = session.connection().connection.driver_connection
        assert apply_once(connection, "dk_1", partial(note, "ours"), commit=False) is Applied.NOW
        getattr(session, ends)()
        assert found(connect) == (["ours", "theirs"] if ends == "commit" else [])


@pytest.mark.parametrize("connect", ["psycopg2"], indirect=True)
def test_old_keys_are_forgotten_as_the_page_says(connect):
    page = (Path(__file__).resolve().parents[2] / "docs" / "receivers.md").read_text()
    (forget,) = re.findall(r"```sql\n(.*?)```", page, re.DOTALL)
    connection = connect()
    for key, age in (("dk_old", "8 days 1 minute"), ("dk_young", "7 days 23 hours")):
        apply_once(connection, key, partial(note, key))
        connection.cursor().execute(
            "UPDATE webhook_keys SET applied_at = now() - %s::interval WHERE key = %s", (age, key)
        )
    connection.cursor().execute(forget)
    connection.commit()
    assert found(connect, "SELECT key FROM webhook_keys") == ["dk_young"]
    assert apply_once(connection, "dk_old", partial(note, "again")) is Applied.NOW

"""The connection that works while we compute: bounded waiting, and a new start after every failure."""

import contextlib
import os
import resource

import psycopg2
import psycopg2.errors
import pytest

from reminders.ledger.background import BackgroundConnection
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.statement import Statement

ECHO = Statement("echo", "SELECT :text, pg_backend_pid()", {"text": "text"})
SLEEP = Statement("sleep", "SELECT pg_sleep(:seconds)", {"seconds": "float8"})
DIVIDE = Statement("divide", "SELECT 1 / :number", {"number": "integer"})


@pytest.fixture
def background(database):
    background = BackgroundConnection(database, patience=60)
    yield background
    background.close()


def test_a_statement_runs_between_send_and_result(background):
    background.send(SLEEP, seconds=0.05)
    assert background.result() == [("",)]


def test_one_connection_serves_all(background):
    (first,) = background.fetch(ECHO, text="ä%s:x")
    (second,) = background.fetch(ECHO, text=None)
    assert (first[0], second[0]) == ("ä%s:x", None)
    assert first[1] == second[1]


def test_an_application_with_more_than_a_thousand_open_files(database):
    """`select` would refuse such a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 3000), hard))
    with contextlib.ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(1100):
            stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        connection = stack.enter_context(contextlib.closing(BackgroundConnection(database, patience=60)))
        assert connection.fetch(ECHO, text="here")[0][0] == "here"


def test_a_statement_larger_than_any_buffer_is_sent_whole(background):
    text = "x" * 20_000_000
    assert background.fetch(ECHO, text=text)[0][0] == text


def test_no_answer_in_time_counts_as_postgres_being_away(database):
    with contextlib.closing(BackgroundConnection(database, patience=4)) as background:
        background.send(SLEEP, seconds=30)
        with pytest.raises(DATABASE_AWAY, match="no answer within 4 s"):
            background.result()
        assert background.fetch(ECHO, text="again")[0][0] == "again"


def test_an_error_of_the_statement_is_raised_as_it_is_and_the_next_one_works(background):
    with pytest.raises(psycopg2.errors.DivisionByZero):
        background.fetch(DIVIDE, number=0)
    assert background.fetch(DIVIDE, number=1) == [(1,)]


def test_a_connection_that_was_cut_is_replaced(background, database):
    pid = background.fetch(ECHO, text="")[0][1]
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(%s, 30000)", (pid,))
        assert cursor.fetchone() == (True,)
    with pytest.raises(DATABASE_AWAY):
        background.fetch(ECHO, text="")
    assert background.fetch(ECHO, text="")[0][1] != pid


def test_nobody_listening_is_an_error_of_the_usual_kind(tmp_path):
    away = Database(f"postgresql:///reminders?host={tmp_path}", schema="reminders")
    with pytest.raises(DATABASE_AWAY):
        BackgroundConnection(away, patience=1).fetch(ECHO, text="")

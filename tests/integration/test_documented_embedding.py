"""The examples of docs/embedding.md, run as they stand there; what its tables name is there."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace

import psycopg2
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

import reminders
from reminders.ledger.database import driver_url

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "embedding.md").read_text()
URL = "https://hooks.example.com/reminders"
DUE_AT = datetime.now(UTC) + timedelta(days=30)


def example(heading):
    """The first code below a heading."""
    return re.search(rf"^### {re.escape(heading)}\n.*?^```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]


@pytest.fixture
def url(database, monkeypatch):
    """A database with the application's own table beside the ledger; public hosts need no look-up here."""
    monkeypatch.delenv("REMINDERS_ALLOW_PRIVATE")
    address = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    connection = psycopg2.connect(address)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE public.orders (id text PRIMARY KEY, paid boolean NOT NULL DEFAULT false)")
    yield address
    with connection.cursor() as cursor:
        cursor.execute("DROP TABLE public.orders")
    connection.close()


@pytest.fixture
def rows(url):
    def query(sql):
        connection = psycopg2.connect(url)
        try:
            with connection.cursor() as cursor:
                cursor.execute(sql)
                return cursor.fetchall()
        finally:
            connection.close()

    return query


STANDING = "SELECT user_id, channel, reference, status FROM reminders.reminders_v1 ORDER BY slot"


def test_sqlalchemy(url, rows):
    def place_order(session):
        session.execute(text("INSERT INTO orders (id) VALUES ('17')"))
        return "17"

    def mark_paid(session, order_id):
        session.execute(text("UPDATE orders SET paid = true WHERE id = :id"), {"id": order_id})

    names = {
        "engine": create_engine(driver_url(url)),
        "Session": Session,
        "place_order": place_order,
        "mark_paid": mark_paid,
    }
    exec(example("SQLAlchemy"), names)
    names["engine"].dispose()
    assert names["answer"].counts == {"cancelled": 2, "requested": 0, "maybe_sent": 0, "too_late": 0}
    assert rows(STANDING) == [("ada", "webhook", "order-17", "cancelled")] * 2
    assert rows("SELECT slot, due_at FROM reminders.reminders ORDER BY due_at") == [
        ("week-before", datetime(2030, 5, 1, 9, 0, tzinfo=UTC)),
        ("day-before", datetime(2030, 5, 7, 7, 0, tzinfo=UTC)),
    ]
    assert rows("SELECT paid FROM orders") == [(True,)]


def test_psycopg2(url, rows):
    with psycopg2.connect(url) as connection:
        made = reminders.schedule(
            connection, tenant_id="shop", user_id="ada", kind="k", channel="log", destination="d", due_at=DUE_AT
        )
    names = {"DATABASE_URL": url, "reminder_id": made.id}
    exec(example("psycopg2"), names)
    assert names["answer"] == "cancelled"
    assert [row[3] for row in rows(STANDING)] == ["cancelled"]


def same_by_python(url, created_by_sql):
    """The package finds what the example scheduled."""
    reminder_id, created = created_by_sql
    with psycopg2.connect(url) as connection:
        found = reminders.schedule(
            connection, tenant_id="shop", user_id="ada", kind="payment_due", channel="webhook", destination=URL,
            due_at=DUE_AT, reference="order-17", data={"order": "17"},
        )  # fmt: skip
    assert (str(found.id), found.created, created) == (str(reminder_id), False, True)


def test_psycopg_3(url, rows):
    def place_order(connection):
        connection.execute("INSERT INTO orders (id) VALUES (%s)", ["17"])
        return "17"

    names = {"DATABASE_URL": url, "place_order": place_order, "due_at": DUE_AT}
    exec(example("psycopg 3"), names)
    assert rows("SELECT id FROM orders") == [("17",)]
    same_by_python(url, (names["reminder_id"], names["created"]))


def test_what_psycopg_3_shows_of_an_error(url):
    import psycopg

    with psycopg.connect(url) as connection:
        with pytest.raises(psycopg.Error) as caught:
            connection.execute(
                "SELECT reminders.schedule('shop', 'ada', 'k', 'log', 'd', %s, zone => 'Mars/Olympus')", [DUE_AT]
            )
        connection.rollback()
        with pytest.raises(psycopg.Error) as missing:
            connection.execute("SELECT reminders.cancel(gen_random_uuid())")
    assert (caught.value.sqlstate, caught.value.diag.column_name) == ("22023", "zone")
    assert missing.value.sqlstate == "RM002"


def test_django(url, monkeypatch):
    """Django's `atomic` and raw cursor, played by psycopg2, which is what it hands statements to."""
    driver = psycopg2.connect(url)

    @contextmanager
    def atomic():
        with driver:
            yield

    def place_order():
        with driver.cursor() as cursor:
            cursor.execute("INSERT INTO orders (id) VALUES ('17')")
        return "17"

    played = ModuleType("django.db")
    played.connection, played.transaction = driver, SimpleNamespace(atomic=atomic)
    monkeypatch.setitem(sys.modules, "django", ModuleType("django"))
    monkeypatch.setitem(sys.modules, "django.db", played)
    names = {"place_order": place_order, "due_at": DUE_AT}
    exec(example("Django"), names)
    driver.close()
    same_by_python(url, (names["reminder_id"], names["created"]))


def test_psql(url, rows, psql):
    psql(url, example("psql, and any other language"))
    assert rows(STANDING) == [("ada", "webhook", "order-17", "cancelled")]
    assert rows("SELECT id, paid FROM orders") == [("17", True)]
    assert rows("SELECT due_at, zone FROM reminders.reminders") == [
        (datetime(2030, 5, 1, 7, tzinfo=UTC), "Europe/Berlin")
    ]


def test_the_pages_signatures_are_the_functions(url, rows):
    documented = dict(re.findall(r"^\| `(\w+)\(([a-z_, ]+)\)`", PAGE[PAGE.index("\n## SQL\n") :], re.MULTILINE))
    assert set(documented) == {"schedule", "cancel", "cancel_where", "reschedule", "snooze"}
    for name, arguments in documented.items():
        ((actual,),) = rows(
            f"SELECT proargnames FROM pg_proc WHERE proname = '{name}' AND pronamespace = 'reminders'::regnamespace"
        )
        assert arguments.split(", ") == actual

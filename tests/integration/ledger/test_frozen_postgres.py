"""A Postgres that is frozen keeps its connections and answers nothing: who observes says so, in bounded time, again and again."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg2
import pytest

from integration.ledger.world import until
from promql import samples
from reminders.cli import status
from reminders.cli.session import Session
from reminders.ledger import measuring
from reminders.ledger.database import Database
from reminders.operate.metrics import Metrics


class Frozen:
    """Passes everything on to Postgres and back, until it is frozen: then nothing, and no connection ends."""

    def __init__(self, folder: str | None, host: str | None, port: int) -> None:
        self._to = f"{folder}/.s.PGSQL.{port}" if folder else (host or "127.0.0.1", port)
        self.thawed = threading.Event()
        self.thawed.set()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._sockets: list[socket.socket] = [self._server]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            if isinstance(self._to, str):
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._to)
            else:
                far = socket.create_connection(self._to)
            self._sockets += [near, far]
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=(one, other), daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                self.thawed.wait()
                other.sendall(data)
        except OSError:
            pass
        finally:
            self.thawed.wait()
            for each in (one, other):
                with_no_fuss(each)

    def close(self) -> None:
        self.thawed.set()
        for each in self._sockets:
            with_no_fuss(each)


def with_no_fuss(each: socket.socket) -> None:
    with suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()


@pytest.fixture
def frozen(world) -> Iterator[tuple[Frozen, Database]]:
    url = world.database.url
    folder = url.query.get("host")
    proxy = Frozen(folder if isinstance(folder, str) else None, url.host, int(url.port or url.query.get("port", 5432)))
    through = (
        url.set(host="127.0.0.1", port=proxy.port)
        .difference_update_query(["host", "port"])
        .render_as_string(hide_password=False)
    )
    database = Database(through, schema="reminders", pool_size=2)
    yield proxy, database
    database.close()
    proxy.close()


@contextmanager
def taking(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds


def up(metrics: Metrics) -> dict[str, float]:
    return {
        dict(labels)["source"]: value
        for labels, value in samples(metrics.text().decode()).items()
        if dict(labels)["__name__"] == "reminders_source_up"
    }


def test_a_scrape_tells_that_the_ledger_is_away_each_time_and_keeps_no_thread(frozen, settings, broker, monkeypatch):
    proxy, database = frozen
    metrics = Metrics(settings, database)
    assert up(metrics) == {"ledger": 1, "broker": 1}
    proxy.thawed.clear()
    with monkeypatch.context() as patch:
        patch.setattr(measuring, "LOOK_SECONDS", 1.0)  # only now: one that answers may need longer
        for _ in range(2):
            with taking(15):
                assert up(metrics) == {"ledger": 0, "broker": 1}
            assert [each for each in threading.enumerate() if each.name == "deadline"] == []
    proxy.thawed.set()
    assert up(metrics) == {"ledger": 1, "broker": 1}
    metrics.close()


def test_so_does_a_status_that_is_watched(frozen, settings, broker, monkeypatch, capsys):
    proxy, database = frozen
    ledger = Session(settings, database)
    status._show_if_it_answers(ledger, as_json=False)
    assert "oldest due" in capsys.readouterr().out
    proxy.thawed.clear()
    monkeypatch.setattr(status, "ANSWERS_WITHIN", 1.0)  # only now: one that answers may need longer
    with taking(15):
        status._show_if_it_answers(ledger, as_json=False)
    told = capsys.readouterr().out
    assert "away: server closed the connection unexpectedly" in told
    assert "with workers" in told


def test_what_is_in_time_is_not_cut_off(frozen, world):
    _, database = frozen
    with database.answering_within(30.0), database.transaction() as connection:
        connection.cursor().execute("SELECT 1")
    # Far longer than any thread waits for its turn; the server's side ends with its connection all the same.
    slow = "SET LOCAL client_connection_check_interval = '100ms'; SELECT pg_sleep(60)"
    with pytest.raises(psycopg2.OperationalError), database.answering_within(0.2), database.transaction() as connection:
        connection.cursor().execute(slow)
    asleep = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    until(lambda: not world.sql(asleep), "no transaction is left open for the next test to meet")

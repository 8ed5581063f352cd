"""A scan that hangs on a connection which will never answer: its worker ends itself, and the parent starts another."""

import reminders
from integration.ledger.world import World
from reminders.ledger.database import driver_url

from .conftest import eventually, worker_argv
from .swallowing_proxy import SwallowingProxy

SCANNER = """
from reminders.broker import watch
from reminders import supervised
watch.STUCK_AFTER = 8.0  # no look of a busy machine takes so long
supervised.main()
"""

QUICK = {"PROBE_STUCK_AFTER": "2", "REMINDERS_HTTP_DEADLINE": "1s", "REMINDERS_GRACE": "7s", "PROBE_SCAN_IDLE": "1"}


def test_a_worker_whose_scan_hangs_is_replaced(probe):
    (probe.folder / "stick").touch()
    probe.parent(("scanner", ["-m", *worker_argv("scan", concurrency=1)]), **QUICK)
    ((_, stuck),) = eventually(lambda: probe.notes("scan"), 20)
    eventually(lambda: "The scan has not looked for" in probe.output(), 10)
    (probe.folder / "stick").unlink()

    eventually(lambda: {note[-1] for note in probe.notes("scan")} - {stuck}, 30)


def test_a_long_scan_that_keeps_looking_is_left_alone(probe):
    (probe.folder / "look").touch()
    probe.parent(("scanner", ["-m", *worker_argv("scan", concurrency=1)]), **QUICK)

    eventually(lambda: len(probe.notes("looked")) >= 2, 30)  # four seconds each, twice the limit

    assert len({note[-1] for note in probe.notes()}) == 1
    assert "ending this worker" not in probe.output()


def test_a_scanner_whose_postgres_goes_silent_is_back_within_the_minute(probe, database, services):
    url = driver_url(services.database_url)
    proxy = SwallowingProxy(f"{url.query['host']}/.s.PGSQL.{url.query.get('port', 5432)}")
    through = url.set(host="127.0.0.1", port=proxy.port, query={}).render_as_string(hide_password=False)
    argv = ["-c", SCANNER, "-A", "reminders", "worker", "--queues", "scan", "--pool", "threads", "--concurrency", "1"]
    probe.parent(("scanner", argv), DATABASE_URL=through, REMINDERS_HTTP_DEADLINE="1s", REMINDERS_GRACE="7s")
    eventually(lambda: ticks_taken(database) == 1, 40)

    proxy.swallow()
    world = World(database)
    with world.connect() as connection:
        reminders.schedule(connection, **world.wanted())

    eventually(lambda: status_of_all(database) == ["published"], 60)
    assert probe.output().count("The scan has not looked for") == 1
    world.close()
    proxy.close()


def status_of_all(database):
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT status FROM reminders.due")
        return [status for (status,) in cursor.fetchall()]


def ticks_taken(database):
    with database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(sum(taken), 0) FROM reminders.ticks")
        return cursor.fetchone()[0]

"""Behind a pooler in transaction mode everything works: migrations, and deliveries while workers are killed.

With pgbouncer where it is installed; and with one as small as can be, which gives a session to whoever begins a transaction.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from acceptance.harness import ROOT, Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from held_ports import held_port
from integration.doctor.pooler import pooler
from reminders.ledger.database import driver_url

CONFIG = """[databases]
* = host={host} port={port} user={user} password={password} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 6
max_client_conn = 300
{runs_as}
"""


@contextmanager
def smallest(stack: Stack, _folder: Path) -> Iterator[int]:
    url = driver_url(stack.services.database_url)
    with pooler(str(Path(str(url.query["host"])) / f".s.PGSQL.{url.query['port']}")) as port:
        yield port


@contextmanager
def pgbouncer(stack: Stack, folder: Path) -> Iterator[int]:
    with held_port() as port:
        yield from pgbouncer_on(port, stack, folder)


def pgbouncer_on(port: int, stack: Stack, folder: Path) -> Iterator[int]:
    program = shutil.which("pgbouncer")
    if program is None:
        pytest.skip("pgbouncer is not installed")
    url = driver_url(stack.services.database_url)
    owner = pwd.getpwuid(Path(stack.query("SHOW data_directory")[0][0]).stat().st_uid).pw_name
    folder.chmod(0o711)
    config = folder / "pgbouncer.ini"
    given = {"host": url.query["host"], "port": url.query["port"], "user": url.username, "password": url.password}
    runs_as = f"user = {owner}" if os.geteuid() == 0 else ""
    config.write_text(CONFIG.format(**given, database=url.database, listen=port, runs_as=runs_as))
    if os.geteuid() == 0:
        shutil.chown(config, owner)
    process = subprocess.Popen([program, "--quiet", str(config)])
    try:
        yield port
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("between", [smallest, pgbouncer], ids=["the smallest", "pgbouncer"])
def test_migrations_and_deliveries_go_through_a_pooler_in_transaction_mode(home, tmp_path, receiver, between) -> None:
    small = {
        "REMINDERS_PROCESSES": "2",
        "REMINDERS_CONCURRENCY": "8",
        "REMINDERS_CLAIM": "20s",
        "REMINDERS_HTTP_DEADLINE": "4s",
    }
    with installation(home, **small) as stack, between(stack, tmp_path) as port:
        deliver_through(stack, receiver, port, between)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def deliver_through(stack: Stack, receiver: ScriptedReceiver, port: int, between: object) -> None:
    url = driver_url(stack.services.database_url).set(drivername="postgres", host="127.0.0.1", port=port, query={})
    pooled = url.render_as_string(hide_password=False)
    wait_until(lambda: listens(port), 30, "the pooler listens")
    environ = {**stack.environ, "DATABASE_URL": f"{pooled}?sslmode=disable"}
    # In another schema, whose statements have the same plain names: on the same server connections, where one migrates and looks
    # through the pooler as well. (The smallest has no session to spare for what holds one and asks for a second.)
    elsewhere = environ if between is pgbouncer else stack.environ
    for command in ("migrate", "migrate", "status"):
        within = {**elsewhere, "REMINDERS_SCHEMA": "behind"}
        told = subprocess.run(
            ["reminders", command], env=within, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
        )
        assert told.returncode == 0, told.stderr
    stack.start("beat", "scanner", "worker", "alone", DATABASE_URL=environ["DATABASE_URL"])
    made = stack.schedule(receiver.url, [f"r{number}" for number in range(300)])
    receiver.wait_for(lambda r: r.calls.total() >= 30, 60, "deliveries are under way")
    stack.lines["worker"].kill_children()
    stack.wait_all("delivered", len(made), 120)
    assert set(receiver.calls) == {each.delivery_key for each in made}
    assert stack.query("SELECT count(*) FROM behind.reminders") == [(0,)]
    stack.stop()
    for name in ("scanner", "worker"):
        assert "Traceback" not in stack.log(name)

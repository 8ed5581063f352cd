"""The embedded installation, found by an application beside it; and what a command says while another one starts it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from reminders.embedded import running
from reminders.embedded.locks import FileLock

APPLICATION = """
import os
from datetime import UTC, datetime
import psycopg2, redis
from reminders import schedule

assert redis.Redis.from_url(os.environ["REDIS_URL"]).ping()
connection = psycopg2.connect(os.environ["DATABASE_URL"])
made = schedule(connection, tenant_id="shop", user_id="ada", kind="k", channel="webhook",
                destination="http://127.0.0.1:8780/hook", due_at=datetime(2035, 1, 1, tzinfo=UTC))
connection.commit()
print(made.id)
"""
SHELL = f'eval "$("{sys.executable}" -c "from reminders.cli.app import main; main()" env)" && exec "$0" -c "$1"'


@pytest.fixture
def own(home):
    """What makes a command use the embedded servers of a home of its own, and nothing else of the test's environment."""
    return {
        "DATABASE_URL": None,
        "REDIS_URL": None,
        "REMINDERS_ALLOW_PRIVATE": None,
        "REMINDERS_WEBHOOK_SECRET": None,
        "REMINDERS_HOME": str(home),
    }


def test_an_application_finds_ledger_and_broker_by_what_env_prints(home, own, process):
    with running(home) as services:
        assert process("migrate", environ=own).returncode == 0
        environ = {
            **{name: value for name, value in os.environ.items() if name not in own},
            "REMINDERS_HOME": str(home),
        }
        done = subprocess.run(
            ["sh", "-c", SHELL, sys.executable, APPLICATION], env=environ, capture_output=True, text=True, timeout=60, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        listed = process("list", "--json", environ=own).stdout
        assert json.loads(listed)["id"] == done.stdout.strip()
        found = json.loads(process("env", "--json", environ=own).stdout)
        assert (found["DATABASE_URL"], found["REDIS_URL"]) == (services.database_url, services.redis_url)
        assert found["REMINDERS_ALLOW_PRIVATE"] == "1"


def test_where_nothing_runs_env_says_so_and_starts_nothing(home, own, process):
    ended = process("env", environ=own)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.splitlines()[-2:] == [
        f"No Postgres runs in {home.resolve()}.",
        "Start `reminders up` there first, or set REMINDERS_HOME to the folder where it runs.",
    ]
    assert not (home / "startup.lock").exists()


def test_what_is_set_already_is_printed_as_it_is(run, addresses):
    result = run("env")
    assert result.exit_code == 0
    assert f"export REDIS_URL={addresses['REDIS_URL']}" in result.stdout.replace("'", "").splitlines()
    assert "export REMINDERS_ALLOW_PRIVATE=1" in result.stdout.splitlines()


def test_a_command_says_what_it_waits_for_while_another_starts_the_servers(home, own, start):
    with running(home):
        lock = FileLock(home / "startup.lock")
        with lock.held(seconds=10), start("list", environ=own) as command:
            assert command.stderr is not None
            lines = iter(command.stderr.readline, "")
            told = next(line for line in lines if line.startswith("waiting: "))
            assert (
                told
                == f"waiting: the embedded servers of {home.resolve()} are being started, or stopped, here or by another process\n"
            )
            lock.release()
            command.communicate(timeout=60)
        lock.close()
    assert command.returncode == 0

"""The command, run in this process or as one of its own, against the run's own services."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from click.testing import CliRunner, Result

from integration.cli.stage import Stage
from reminders.cli.app import reminders
from reminders.embedded import Services
from reminders.ledger.database import Database
from reminders.settings import Settings

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "shop"


@pytest.fixture
def stage(database: Database, settings: Settings) -> Stage:
    """An empty ledger, and hands to fill it."""
    return Stage(database, settings)


@pytest.fixture
def addresses(services: Services, migrated: str) -> dict[str, str]:
    """The environment that names the run's own services."""
    return {"DATABASE_URL": migrated, "REDIS_URL": services.redis_url}


@pytest.fixture
def run(addresses: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run `reminders ARGUMENTS...` in this process. A traceback there fails the test."""
    for name, value in addresses.items():
        monkeypatch.setenv(name, value)

    def call(*arguments: object, **more: Any) -> Result:
        result = CliRunner().invoke(reminders, [str(argument) for argument in arguments], **more)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def start(addresses: dict[str, str]) -> Callable[..., subprocess.Popen[str]]:
    """Start `reminders ARGUMENTS...` as a process of its own; an `environ` value of None takes the name away."""

    def call(*arguments: str | bytes, environ: Mapping[str, str | None] | None = None, **more: Any) -> Any:
        given = {**os.environ, **addresses, **(environ or {})}
        return subprocess.Popen(
            [sys.executable, "-c", "from reminders.cli.app import main; main()", *arguments],
            env={name: value for name, value in given.items() if value is not None},
            text=True,
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, **more},
        )

    return call


@pytest.fixture
def process(start: Callable[..., subprocess.Popen[str]]) -> Callable[..., subprocess.CompletedProcess[str]]:
    """The same, and wait for its end."""

    def call(*arguments: str | bytes, **more: Any) -> subprocess.CompletedProcess[str]:
        with start(*arguments, **more) as running:
            out, err = running.communicate(timeout=60)
        return subprocess.CompletedProcess(arguments, running.returncode, out, err)

    return call


@pytest.fixture
def shop(stage: Stage, migrated: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    """The example's orders beside an empty ledger, and its configuration."""
    monkeypatch.setenv("REMINDERS_RECONCILE", str(EXAMPLE / "reconcile.toml"))
    connection = psycopg2.connect(migrated)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA IF EXISTS shop CASCADE")
        cursor.execute((EXAMPLE / "orders.sql").read_text())
        yield stage
        cursor.execute("DROP SCHEMA shop CASCADE")
    connection.close()

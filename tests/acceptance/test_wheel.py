"""The built wheel in somebody else's project, which has its own `celeryconfig.py`, `migrations/` and Celery app."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from reminders.embedded import Services

ROOT = Path(__file__).resolve().parents[2]

THEIR_APP = """
from celery import Celery, current_app

app = Celery("theirs")
app.config_from_object("celeryconfig")


@app.task
def add(x, y):
    return x + y
"""

CHECK = """
import sys
import theirs
import reminders

assert theirs.app.conf.task_default_queue == "their-queue", "their celeryconfig.py is the one that counts"
import migrations
assert migrations.THEIRS == 1

import reminders.celery
import reminders.tasks
from celery import current_app
assert current_app._get_current_object() is theirs.app, "our app does not become the current one"
assert theirs.add.app is theirs.app
assert "reminders.deliver" in reminders.celery.app.tasks
assert "reminders.deliver" not in theirs.app.tasks
assert reminders.celery.app.conf.task_default_queue == "maintenance"

import psycopg2, os
from datetime import datetime
with psycopg2.connect(os.environ["DATABASE_URL"]) as connection:
    made = reminders.schedule(
        connection, tenant_id="t", user_id="u", kind="k", channel="webhook", destination="https://example.com/hook",
        due_at=datetime(2030, 1, 1, 9), zone="Europe/Berlin", reference="order-1")
    assert made.created and made.due_at.isoformat() == "2030-01-01T08:00:00+00:00"
    assert reminders.get(connection, made.id).status == "pending"
print(reminders.__file__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    return next(folder.glob("*.whl"))


@pytest.fixture
def empty_database(services: Services) -> Iterator[str]:
    connection = psycopg2.connect(services.database_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("DROP DATABASE IF EXISTS wheel_test")
        cursor.execute("CREATE DATABASE wheel_test")
        yield services.database_url.replace("/reminders?", "/wheel_test?")
        cursor.execute("DROP DATABASE wheel_test WITH (FORCE)")
    connection.close()


def test_the_wheel_brings_one_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].removesuffix(".dist-info") for name in names} == {"reminders", "reminders-0.1.0"}
    assert "reminders/_migrations/env.py" in names
    assert "reminders/_migrations/versions/0001_ledger.py" in names


def test_it_works_in_a_project_of_its_own_and_disturbs_nothing(
    wheel: Path, tmp_path: Path, empty_database: str, services: Services
) -> None:
    project, site = tmp_path / "project", tmp_path / "site"
    (project / "migrations").mkdir(parents=True)
    (project / "celeryconfig.py").write_text('task_default_queue = "their-queue"\n')
    (project / "migrations" / "__init__.py").write_text("THEIRS = 1\n")
    (project / "theirs.py").write_text(THEIR_APP)
    (project / "check.py").write_text(CHECK)
    site.mkdir()
    zipfile.ZipFile(wheel).extractall(site)
    # An interpreter without this checkout on its path: our dependencies only, as an ordinary folder.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = str(tmp_path / "venv" / "bin" / "python")
    environ = {
        **os.environ,
        "PYTHONPATH": f"{site}{os.pathsep}{sysconfig.get_path('purelib')}",
        "DATABASE_URL": empty_database,
        "REDIS_URL": services.redis_url,
    }

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [python, *arguments], cwd=project, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command = "from reminders.cli.app import main; main()"
    assert "nothing -> " in run("-c", command, "migrate")
    assert run("check.py").strip().startswith(str(site))
    assert "due_at" in run("-c", command, "list", "--json")

"""The example of a third-party provider: built, installed into a folder of its own, tested with the kit, delivering."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from integration.raw_receiver import Receiver

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "chat_provider"
DELIVERS = """
from datetime import UTC, datetime, timedelta
import sys
import psycopg2
import reminders
from reminders import bootstrap

settings = bootstrap.installation()
due = datetime.now(UTC) - timedelta(seconds=1)
with psycopg2.connect(settings.database_url.reveal()) as connection:
    made = reminders.schedule(connection, tenant_id="t", user_id="u", kind="payment_due", channel="chat",
                              destination=sys.argv[1], due_at=due, reference="order-1", data={"order": 1})
connection.close()
bootstrap.scan().once()
print(bootstrap.deliver()(made.id, made.delivery_key))
with psycopg2.connect(settings.database_url.reveal()) as connection:
    print(reminders.get(connection, made.id).status)
connection.close()
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """A folder of installed packages with the example's wheel in it."""
    project, site = tmp_path_factory.mktemp("chat") / "project", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLE, project)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(build, cwd=project, check=True, capture_output=True)
    (wheel,) = (project / "dist").glob("*.whl")
    zipfile.ZipFile(wheel).extractall(site)
    return site


def run(site: Path, cwd: Path, *arguments: str, **environ: str) -> str:
    path = os.pathsep.join((str(site), str(ROOT), sysconfig.get_path("purelib")))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**inherited, **environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_passes_the_kit_in_a_project_of_its_own(site, tmp_path):
    shutil.copy(EXAMPLE / "test_chat_provider.py", tmp_path)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    # Without the conftest, the plug-ins and the addresses of these tests.
    said = run(site, tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-rs")
    assert re.search(r"\d\d passed, \d+ skipped", said), said
    assert set(re.findall(r"SKIPPED .*: (.*)", said)) == {
        "its far side cannot be asked for a key",
        "the channel does not deduplicate",
    }


@pytest.mark.usefixtures("broker", "database")
def test_it_delivers_through_the_pipeline(site, tmp_path, migrated, services):
    def accepts(connection, _):
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    room = Receiver(accepts)
    addresses = {"DATABASE_URL": migrated, "REDIS_URL": services.redis_url, "REMINDERS_X_CHAT_TOKEN": "t0ken-of-ours"}
    said = run(site, tmp_path, "-c", DELIVERS, room.url, **addresses)
    assert said.split() == ["delivered", "delivered"]
    (request,) = room.requests
    assert request.headers["authorization"] == "Bearer t0ken-of-ours"
    assert request.body == b'{"data": {"order": 1}, "text": "payment due: order-1"}'


@pytest.mark.usefixtures("broker", "database")
def test_without_its_token_scheduling_works_and_nothing_is_sent(site, tmp_path, migrated, services):
    room = Receiver(lambda *_: False)
    said = run(site, tmp_path, "-c", DELIVERS, room.url, DATABASE_URL=migrated, REDIS_URL=services.redis_url)
    assert said.split() == ["given_back", "pending"]
    assert room.accepted == 0


def test_it_is_as_short_as_the_page_says_and_the_page_shows_all_of_it():
    program = (EXAMPLE / "chat_provider.py").read_text()
    assert len(program.splitlines()) < 60
    page = (ROOT / "docs" / "providers.md").read_text()
    for name in ("chat_provider.py", "pyproject.toml", "test_chat_provider.py"):
        assert (EXAMPLE / name).read_text().strip() in page, name

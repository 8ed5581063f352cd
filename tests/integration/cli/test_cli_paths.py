"""Whatever a path is, a command that is given it says in words what is wrong with it."""

import os
import threading
from functools import partial
from pathlib import Path

import pytest

from reminders.cli import input_file
from reminders.cli.waiting import told_if_slow

WHOSE = ("--tenant", "shop", "--user", "ada", "--kind", "appointment", "--channel", "log", "--to", "anywhere")
CALENDAR = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:a\nDTSTART:20310101T090000Z\nEND:VEVENT\nEND:VCALENDAR\n"
BROKEN = CALENDAR.replace("20310101T090000Z", "20311301T090000Z")
RECORDS = "tenant_id,user_id,kind,channel,destination,due_at,reference\nshop,ada,note,log,x,never,a\n"
CONFIG = Path(__file__).resolve().parents[3] / "examples" / "shop" / "reconcile.toml"
LONG = "x" * 300
UNREADABLE = ("", ".", "..", "folder", LONG, f"{LONG}/x", "a\0b", "absent", "absent/x", "file/x", "circle")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text(RECORDS)
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "shut").mkdir(mode=0o500)
    (tmp_path / "broken.ics").write_text(BROKEN)
    (tmp_path / "records.csv").write_text(RECORDS)
    (tmp_path / "suppressions.csv").write_text("tenant_id,user_id,destination_id\nshop,ada,7\n")
    os.mkfifo(tmp_path / "pipe")
    return tmp_path


def refused(result, *said):
    """Exit code 1 or 2 and at most two lines, that hold what is `said`."""
    assert result.exit_code in {1, 2}, result.output
    assert len([line for line in result.stderr.splitlines() if not line.startswith(("Usage", "Try", "started"))]) <= 3
    for each in said:
        assert each in result.stderr


READING = {
    "import a calendar": lambda path: ("import", path, "--format", "ics", *WHOSE),
    "import records": lambda path: ("import", path, "--format", "csv"),
    "import": lambda path: ("import", path),
    "import suppressions": lambda path: ("suppress", "import", path, "--tenant", "shop"),
    "reconcile": lambda path: ("reconcile", path, "--dry-run", "--config", CONFIG),
    "schedule": lambda path: ("schedule", *WHOSE, "--due-at", "+1h", "--data", f"@{path}"),
    "template add": lambda path: (
        "template", "add", "--tenant", "shop", "--kind", "k", "--channel", "sms", "--text", path,
    ),
}  # fmt: skip


@pytest.mark.parametrize("path", UNREADABLE, ids=lambda path: repr(path)[:20])
@pytest.mark.parametrize("command", READING)
def test_a_file_that_cannot_be_read(run, command, path):
    refused(run(*READING[command](path)), "cannot be read: ")


@pytest.mark.parametrize("command", READING)
def test_a_file_that_breaks_while_it_is_read(run, folder, command):
    (folder / "mem").symlink_to("/proc/self/mem")
    refused(run(*READING[command]("mem")), "cannot be read", "Input/output error")


@pytest.mark.parametrize("path", [path for path in UNREADABLE if "\0" not in path], ids=lambda path: repr(path)[:20])
def test_a_configuration_that_cannot_be_read(run, path):
    refused(run("reconcile", "file", "--dry-run", f"--config={path}"), "cannot be read: ")


WRITING = {
    "calendar": lambda path: ("import", "broken.ics", *WHOSE, "--rejects", path),
    "records": lambda path: ("import", "records.csv", "--rejects", path),
    "suppressions": lambda path: ("suppress", "import", "suppressions.csv", "--reason", "r", "--rejects", path),
}


@pytest.mark.parametrize(
    "path", ["", ".", "..", "/", "folder", LONG, f"{LONG}/x", "absent/x", "file/x", "circle", "pipe", "/dev/full"],
    ids=lambda path: repr(path)[:20],
)  # fmt: skip
@pytest.mark.parametrize("command", WRITING)
def test_a_rejects_file_that_cannot_be_written(run, folder, command, path):
    before = sorted(folder.rglob("*"))
    refused(run(*WRITING[command](path)), "Rejects cannot be written to ", "--rejects")
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("command", WRITING)
def test_a_rejects_file_in_a_folder_that_is_shut(run, command):
    refused(run(*WRITING[command]("shut/x")), "Rejects cannot be written to shut/x")


@pytest.mark.parametrize("command", WRITING)
def test_a_rejects_file_may_have_the_longest_name_there_is(run, folder, command):
    name = "r" * 255
    assert run(*WRITING[command](name)).exit_code == 3
    assert (folder / name).read_text().startswith('{"line": ')
    assert not list(folder.glob(".rejects*"))


def test_the_default_name_of_the_rejects_file_may_be_too_long(run, folder):
    name = "n" * 250
    (folder / name).write_text(BROKEN)
    refused(run("import", name, *WHOSE), "Rejects cannot be written to nnn", "--rejects")


@pytest.mark.parametrize("path", ["", "absent/x", "folder", "pipe", LONG], ids=lambda path: repr(path)[:20])
def test_the_receivers_store(run, path):
    refused(run("receiver", "--port", "0", "--store", path), "--store")


def test_a_pipe_that_nobody_writes_into_is_waited_for_with_a_word(run, folder, monkeypatch):
    told = threading.Event()

    def tell(line):
        assert line == "waiting: pipe is a pipe, and nobody writes into it"
        told.set()

    def write():
        assert told.wait(30)
        (folder / "pipe").write_text(CALENDAR)

    monkeypatch.setattr(input_file, "told_if_slow", partial(told_if_slow, after=0.01, tell=tell))
    writer = threading.Thread(target=write)
    writer.start()
    try:
        done = run("import", "pipe", *WHOSE)
    finally:
        writer.join()
    assert (done.exit_code, "1 reminder scheduled" in done.stdout) == (0, True)

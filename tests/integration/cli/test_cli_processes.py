"""`reminders` as real processes: bytes on the command line, pipes, signals, and servers of its own."""

import json
import os
import pty
import re
import signal
import stat
import subprocess
from pathlib import Path

import psutil
import pytest

from integration.cli.stage import ADDRESS
from reminders.domain.outcomes import Rejected
from reminders.domain.retry_policy import Bury
from reminders.embedded import attach

SCHEDULE = ["schedule", "--tenant", "acme", "--user", "u", "--kind", "k", "--channel", "webhook", "--due-at", "+1h"]


def test_bytes_that_are_no_text_are_refused_by_name(process, stage):
    ended = process(*SCHEDULE, "--to", ADDRESS, "--reference", b"caf\xe9")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == "--reference: contains a lone surrogate (U+DCE9) at position 3\n"
    assert process("show", b"\xff").stderr.startswith("ID: '\\udcff' is no id")
    assert process(b"sch\xe9dule").returncode == 2
    assert stage.count("reminders") == 0


def test_an_output_that_lacks_a_letter_gets_its_escape(process, stage):
    stage.schedule(tenant_id="Zoë", reference="漢")
    ended = process("list", environ={"PYTHONIOENCODING": "ascii"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "Zo\\xeb" in ended.stdout
    assert "\\u6f22" in ended.stdout


def test_json_can_be_piped_on_and_a_reader_may_leave(start, stage):
    for _ in range(200):
        stage.schedule(reference="r" * 500)
    reading_end, writing_end = os.pipe()
    with start("list", "--json", "--limit", "1000", stdout=writing_end) as listing:
        os.close(writing_end)
        with os.fdopen(reading_end) as reader:
            assert json.loads(reader.readline())["v"] == 1
        _, err = listing.communicate(timeout=30)
    assert (listing.returncode, err) == (1, "")


@pytest.mark.parametrize("command", [["list"], ["list", "--json"], ["--help"]])
def test_a_full_disk_is_told_in_a_line(process, stage, command):
    stage.schedule()
    with Path("/dev/full").open("w") as full:
        ended = process(*command, stdout=full)
    assert (ended.returncode, ended.stderr) == (1, "The output cannot be written: No space left on device\n")


@pytest.mark.parametrize("width", [80, 100, 132])
def test_ids_can_be_copied_from_a_terminal(start, stage, width):
    letter = stage.schedule(reference="a-reference-of-somebody", zone="Europe/Berlin")
    stage.deliver(letter, Rejected("http_410", "gone for good and for all to see", 410), Bury("destination"))
    for command in (["list"], ["dlq", "list"], ["show", str(letter.id)], ["destination", "list"]):
        lines = on_terminal(start, command, width)
        assert max(map(len, lines)) <= width
        wanted = (
            stage.rows("SELECT destination_id::text FROM reminders")[0][0] if "destination" in command else letter.id
        )
        assert str(wanted) in re.findall(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", "\n".join(lines))


def on_terminal(start, command, width):
    """The lines that a command draws on a terminal of that width, without colours."""
    main_end, terminal = pty.openpty()
    with start(*command, stdout=terminal, environ={"COLUMNS": str(width), "TERM": "xterm"}) as drawing:
        os.close(terminal)
        drawn = b""
        try:
            while more := os.read(main_end, 65536):
                drawn += more
        except OSError:
            # How Linux says that the other side is closed.
            pass
        _, err = drawing.communicate(timeout=30)
    os.close(main_end)
    assert (drawing.returncode, err) == (0, "")
    return re.sub(r"\x1b\[[0-9;]*m", "", drawn.decode()).splitlines()


def test_an_unknown_setting_is_mentioned_and_a_bad_one_refused(process, stage):
    mentioned = process("list", "--json", environ={"REMINDERS_BATHC": "5"})
    assert (mentioned.returncode, mentioned.stdout) == (0, "")
    assert mentioned.stderr == "REMINDERS_BATHC is not a setting of reminders; did you mean REMINDERS_BATCH?\n"
    refused = process("list", environ={"REMINDERS_BATCH": "many", "REMINDERS_LEASE": "soon"})
    assert refused.returncode == 1
    assert sorted(line.partition(":")[0] for line in refused.stderr.splitlines()) == [
        "REMINDERS_BATCH",
        "REMINDERS_LEASE",
    ]


@pytest.fixture
def laptop(home):
    """An environment without addresses, and a home of its own."""
    unset = dict.fromkeys(("DATABASE_URL", "REDIS_URL", "REMINDERS_WEBHOOK_SECRET", "REMINDERS_ALLOW_PRIVATE"))
    return {**unset, "REMINDERS_HOME": str(home)}


def servers_of(home):
    """Processes whose files are under the home folder."""
    return [each for each in psutil.process_iter(["cmdline"]) if str(home) in " ".join(each.info["cmdline"] or ())]


def said(ended):
    """Lines on stderr, but for what it waited for, which depends on how busy the machine is."""
    return [line for line in ended.stderr.splitlines() if not line.startswith("waiting: ")]


def test_a_laptop_needs_no_settings(process, laptop, home):
    made = process(*SCHEDULE, "--to", "http://127.0.0.1:9/hook", "--json", environ=laptop)
    assert made.returncode == 0, made.stderr
    first, second = said(made)
    assert first.startswith("Neither DATABASE_URL nor REDIS_URL is set: ")
    assert second == f"started a new ledger in {home}; no worker runs here until `reminders up`"
    assert stat.S_IMODE((home / "webhook_secret").stat().st_mode) == 0o600
    assert attach(home) is None
    # What was committed is there when the servers are started again; nothing is said a second time.
    seen = process("list", "--json", environ=laptop)
    assert (json.loads(seen.stdout)["id"], said(seen)) == (json.loads(made.stdout)["id"], [])
    strict = process(*SCHEDULE, "--to", "http://127.0.0.1:9/hook", environ={**laptop, "REMINDERS_ALLOW_PRIVATE": "no"})
    assert said(strict)[0].startswith("--to: must begin with https://")
    assert servers_of(home) == []


def test_sigterm_stops_servers_that_were_started_for_the_command(start, laptop, home):
    # It does not end by itself.
    command = ["status", "--watch", "1", "--json"]
    with start(*command, environ=laptop, stderr=subprocess.DEVNULL) as running:
        assert json.loads(running.stdout.readline())["v"] == 1
        assert attach(home) is not None
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert attach(home) is None
    assert servers_of(home) == []

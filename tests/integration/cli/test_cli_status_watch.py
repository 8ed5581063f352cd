"""`reminders status --watch`: drawn in place on a terminal, one after another elsewhere; Ctrl-C is a good end."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from reminders.cli import live_view

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"


class Terminal:
    """What a process has written to its terminal."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.text = ""

    def read_until(self, wanted: str, seconds: float = 30.0) -> None:
        end = time.monotonic() + seconds
        while wanted not in self.text:
            assert time.monotonic() < end, f"{wanted!r} never came: {self.text[-500:]!r}"
            if select.select([self._descriptor], [], [], 0.2)[0]:
                self.text += os.read(self._descriptor, 65536).decode()

    def rest(self) -> None:
        while select.select([self._descriptor], [], [], 1.0)[0]:
            try:
                read = os.read(self._descriptor, 65536).decode()
            except OSError:  # the other end is closed
                return
            if not read:
                return
            self.text += read


@contextmanager
def watching(start: Any, *arguments: str) -> Iterator[tuple[Any, Terminal]]:
    outer, inner = pty.openpty()
    process = start(
        "status", "--watch", *arguments, stdout=inner, stderr=inner, environ={"COLUMNS": None, "LINES": None}
    )
    os.close(inner)
    try:
        yield process, Terminal(outer)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(outer)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_it_is_drawn_in_place_and_leaves_the_terminal_as_it_was(stage, broker, start, number, code):
    stage.schedule()
    with watching(start, "0.2") as (process, terminal):
        terminal.read_until("1 pending")
        stage.schedule()
        terminal.read_until("2 pending")
        process.send_signal(number)
        assert process.wait(20) == code
        terminal.rest()
    assert terminal.text.startswith(ENTER)
    assert terminal.text.endswith(LEAVE)
    assert terminal.text.count(ENTER) == terminal.text.count(LEAVE) == 1
    # Each picture begins at the top and erases what the one before had beyond it.
    pictures = terminal.text.removeprefix(ENTER).removesuffix(LEAVE).split("\x1b[H")[1:]
    assert all(picture.endswith("\x1b[K\x1b[J") for picture in pictures[:-1])
    assert len(pictures) >= 2
    assert "Traceback" not in terminal.text


def test_elsewhere_pictures_follow_each_other_without_control_characters(stage, broker, start):
    with start("status", "--watch", "0.1") as process:
        seen = [process.stdout.readline() for _ in range(40)]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert sum(line.startswith("in flight") for line in seen) >= 2
    assert "\x1b" not in "".join(seen)
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, every 0\.1 s; Ctrl-C ends\n", seen[0])


def test_as_json_each_look_is_a_line(stage, broker, start):
    with start("status", "--watch", "0.1", "--json") as process:
        seen = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
    assert process.returncode == 0
    assert all(each["in_flight"] == 0 for each in seen)


def test_without_seconds_it_is_every_two(run, stage, broker, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "reminders.cli.status.show_until_interrupted", lambda _, seconds, framed: asked.append((seconds, framed))
    )
    assert run("status", "--watch").exit_code == 0
    assert run("status", "--watch", "--json").exit_code == 0
    assert run("status", "--watch", "7").exit_code == 0
    assert asked == [(2.0, True), (2.0, False), (7.0, True)]
    assert run("status", "--watch", "0").exit_code == 2
    refused = run("status", "--watch", "nan")
    assert (refused.exit_code, "'nan' is not a number" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("--slo", "--watch"), "--slo is shown once: not with --watch."),
        (("--days", "7"), "--days goes with --slo."),
        (("--tenant", "acme"), "--tenant goes with --slo."),
    ],
)
def test_what_would_have_no_effect_is_wrong_usage(run, given, why):
    refused = run("status", *given)
    assert (refused.exit_code, why in refused.stderr) == (2, True)


def test_no_line_wraps_and_none_scrolls_out(monkeypatch):
    monkeypatch.setattr(live_view.shutil, "get_terminal_size", lambda: os.terminal_size((20, 4)))
    drawn = live_view._fitted("\n".join(["x" * 20, "y" * 21, "\u65e5" * 11, "d", "e", "f"]) + "\n")
    lines = [line.removesuffix("\x1b[K") for line in drawn.removeprefix("\x1b[H").removesuffix("\x1b[J").split("\r\n")]
    assert lines[:3] == ["x" * 20, "y" * 19 + "\u2026", "\u65e5" * 9 + " \u2026"]
    assert lines[3].startswith("... 3 more lines")
    assert len(lines) == 4

"""Lines about deliveries: what they say, and that nobody waits for whoever reads them."""

from __future__ import annotations

import io
import json
import threading
from datetime import UTC, datetime

import pytest

from reminders.cli.receiver import JsonForm, PlainForm
from reminders.receiver.lines import LineWriter
from reminders.receiver.message import Message
from reminders.receiver.report import Handled
from reminders.receiver.store import Verdict

AT = datetime(2026, 11, 29, 12, 0, 1, 250_000, tzinfo=UTC)
MESSAGE = Message("dk_1", "acme", "anna", "invoice", "order-7", "2026-11-29T12:00:00Z")
APPLIED = Handled(AT, 200, MESSAGE, Verdict.APPLIED, 17)
REPEATED = Handled(AT, 200, MESSAGE, Verdict.REPEAT, 17)
CONFLICT = Handled(AT, 409, MESSAGE, Verdict.CONFLICT, None, "this key was received before, with another body")
FORGED = Handled(AT, 401, reason="no signature matches")


@pytest.mark.parametrize(
    ("handled", "expected"),
    [
        (APPLIED, "2026-11-29T12:00:01Z  applied  #17     acme  invoice  order-7  dk_1"),
        (REPEATED, "2026-11-29T12:00:01Z  repeat   #17     acme  invoice  order-7  dk_1"),
        (CONFLICT, "2026-11-29T12:00:01Z  conflict 409     acme  invoice  order-7  dk_1  (this key was received before, with another body)"),
        (FORGED, "2026-11-29T12:00:01Z  refused  401     (no signature matches)"),
    ],
)  # fmt: skip
def test_lines_for_people(handled, expected):
    assert PlainForm(coloured=False).line(handled) == expected


def test_a_sender_cannot_steer_the_terminal():
    evil = Message("dk_1", "acme\x9b2J", "anna", "\x1b[2J", None, "")
    line = PlainForm(coloured=True).line(Handled(AT, 200, evil, Verdict.APPLIED, 1))
    assert line == "2026-11-29T12:00:01Z  \x1b[32mapplied  #1    \x1b[0m  acme\\x9b2J  \\x1b[2J  -  dk_1"


def test_lines_for_programs():
    assert json.loads(JsonForm().line(APPLIED)) == {
        "v": 1,
        "key": "dk_1",
        "tenant_id": "acme",
        "user_id": "anna",
        "kind": "invoice",
        "reference": "order-7",
        "due_at": "2026-11-29T12:00:00Z",
        "effect": True,
        "status": 200,
        "at": "2026-11-29T12:00:01.250000Z",
    }
    assert json.loads(JsonForm().line(REPEATED))["effect"] is False
    refused = json.loads(JsonForm().line(FORGED))
    assert (refused["key"], refused["tenant_id"], refused["effect"], refused["status"]) == (None, None, False, 401)


def test_all_is_written_when_it_closes():
    stream = io.StringIO()
    writer = LineWriter(stream, PlainForm(coloured=False), pytest.fail)
    for _ in range(2500):
        writer.add(APPLIED)
    writer.close(30)
    assert stream.getvalue().count("\n") == 2500


class Held(io.StringIO):
    """A terminal on hold: the first write waits until it is released."""

    def __init__(self):
        super().__init__()
        self.reached = threading.Event()
        self.released = threading.Event()

    def write(self, text):
        self.reached.set()
        assert self.released.wait(30)
        return super().write(text)


def test_lines_that_nobody_reads_are_counted_and_not_waited_for():
    stream = Held()
    writer = LineWriter(stream, PlainForm(coloured=False), pytest.fail, longest_backlog=10)
    writer.add(APPLIED)
    assert stream.reached.wait(30)
    for _ in range(15):
        writer.add(REPEATED)
    stream.released.set()
    writer.close(30)
    text = stream.getvalue()
    assert text.count("applied") == 1
    assert text.count("repeat") == 10
    assert "(5 lines left out: nobody read them in time)" in text


def test_it_is_told_when_the_reader_has_gone():
    class Gone(io.StringIO):
        def write(self, text):
            raise BrokenPipeError

    gone = threading.Event()
    writer = LineWriter(Gone(), JsonForm(), gone.set)
    writer.add(APPLIED)
    assert gone.wait(30)
    with pytest.raises(BrokenPipeError):
        writer.close()

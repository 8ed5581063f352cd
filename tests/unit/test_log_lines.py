"""What a line of the log looks like, for people and as JSON; and what never gets into it."""

from __future__ import annotations

import json
import logging
import re
import sys
from uuid import UUID

import pytest

from reminders import readiness, supervise
from reminders.log_lines import LINE, before_set_up, formatter_of, own_name, set_levels, words_only
from reminders.pipeline.trail import about, follows
from reminders.settings import Settings

ADDRESS = "ada@example.com"
ID = UUID("01a22abc-9148-7627-a300-c461ad478603")


def record(text, *args, name="reminders.pipeline.deliver", exc_info=None):
    return logging.LogRecord(name, logging.WARNING, "f.py", 1, text, args, exc_info)


def line(given, log="lines"):
    return formatter_of(Settings(log=log), "deliver 1").format(given)


def test_a_line_for_people():
    told = line(record("rate.set id=%s waiting=%d actor=%s: it counts from now", ID, 3, "Ada L."))
    found = re.fullmatch(r"(\S+)Z WARNING deliver-1\[\d+\] (.*)", told)
    assert found is not None
    assert found[2] == f'rate.set id={ID} waiting=3 actor="Ada L.": it counts from now'


def test_a_line_of_json():
    told = json.loads(line(record("rate.set id=%s waiting=%d actor=%s: so %s", ID, 3, "Ada L.", "be: it"), "json"))
    assert {name: told[name] for name in ("level", "line", "logger", "event", "id", "waiting", "actor", "words")} == {
        "level": "WARNING", "line": "deliver-1", "logger": "reminders.pipeline.deliver", "event": "rate.set", "id": str(ID),
        "waiting": "3", "actor": "Ada L.", "words": "so be: it",
    }  # fmt: skip
    assert told["at"].endswith("Z")


def test_what_was_formatted_before_is_read_again():
    told = json.loads(line(record("deliver.no_provider channel=sms: this worker lacks it"), "json"))
    assert (told["event"], told["channel"], told["words"]) == ("deliver.no_provider", "sms", "this worker lacks it")


@pytest.mark.parametrize("log", ["lines", "json"])
def test_whatever_is_logged_in_a_delivery_bears_its_ids(log):
    with about(ID, "key-7"):
        ours, others = line(record("http.call_failed: x"), log), line(record("pool is full", name="other.library"), log)
    for told in (ours, others):
        assert str(ID) in told
        assert "key-7" in told
    assert "key-7" not in line(record("http.call_failed: x"), log)


def test_ids_that_a_line_has_itself_are_not_said_twice():
    with about(ID, "key-7"):
        assert line(record("deliver.no_claim reason=%s key=%s", "gone", "key-7")).count("key-7") == 1


@pytest.mark.parametrize("log", ["lines", "json"])
def test_an_exceptions_text_is_not_shown_nor_that_of_its_cause(log):
    try:
        try:
            raise ValueError(ADDRESS)
        except ValueError as error:
            raise RuntimeError(ADDRESS) from error
    except RuntimeError:
        told = line(record("watch.failed: it goes on", exc_info=sys.exc_info()), log)
    assert ADDRESS not in told
    assert "RuntimeError" in told
    assert "ValueError" in told
    assert "test_log_lines.py" in told
    if log == "json":
        assert "\n" not in told


def test_a_command_shows_the_words_alone(capsys):
    words_only()
    assert logging.lastResort is not None
    try:
        assert logging.lastResort.format(record("settings.unknown: %s is none", "X")) == "X is none"
        assert logging.lastResort.format(record("rate.set id=%s", ID)) == f"rate.set id={ID}"
    finally:
        logging.lastResort.setFormatter(None)


@pytest.fixture
def levels():
    names = [
        "reminders",
        "reminders.trail",
        "urllib3",
        "celery.pool",
        "requests",
        "celery.worker.strategy",
        "celery.app.trace",
    ]
    before = {name: logging.getLogger(name).level for name in names}
    yield logging.getLogger("a-root-of-its-own")
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_the_trail_is_off_unless_it_is_asked_for(levels):
    set_levels(Settings(), levels, logging.INFO)
    assert not follows()
    set_levels(Settings(trail=True), levels, logging.INFO)
    assert follows()
    set_levels(Settings(), levels, logging.DEBUG)
    assert follows()


def test_debug_is_for_our_own_code(levels):
    set_levels(Settings(), levels, logging.DEBUG)
    assert levels.level == logging.INFO
    assert not logging.getLogger("celery.pool").isEnabledFor(logging.DEBUG)
    assert not logging.getLogger("urllib3.connectionpool").isEnabledFor(logging.ERROR)
    assert logging.getLogger("reminders.pipeline").isEnabledFor(logging.DEBUG)


def test_a_supervised_process_knows_its_name():
    assert own_name({"REMINDERS_X_LINE": "deliver 2"}, "worker") == "deliver 2"
    assert own_name({}, "worker") == "worker"


def test_what_is_logged_before_the_log_is_set_up_has_its_form_too():
    before_set_up({"REMINDERS_LOG": "json", LINE: "deliver1"}, "celery")
    assert logging.lastResort is not None
    try:
        line = json.loads(logging.lastResort.format(record("settings.unknown: %s is none", "X")))
        assert (line["line"], line["event"], line["words"]) == ("deliver1", "settings.unknown", "X is none")
        before_set_up({}, "celery")
        assert " celery[" in logging.lastResort.format(record("settings.unknown: %s is none", "X"))
    finally:
        logging.lastResort.setFormatter(None)


def test_modules_that_are_run_as_programs_log_by_their_names():
    assert supervise.logger.name == "reminders.supervise"
    assert readiness.logger.name == "reminders.readiness"

"""`reminders drill` as a command: what it accepts, what it prints, how it exits. The drills themselves run in acceptance."""

import json
import re
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from reminders.cli import drill as command
from reminders.cli.app import reminders
from reminders.operate.drills.catalogue import DRILLS
from reminders.operate.drills.drill import Step

DOCS = Path(__file__).resolve().parents[2] / "docs"


def invoke(*arguments):
    return CliRunner().invoke(reminders, ["drill", *arguments])


@pytest.fixture
def rehearsed(monkeypatch):
    """Nothing is started; a drill named `poison` breaks. Gives the names of those that were run."""
    names = []

    @contextmanager
    def servers():
        yield None

    def rehearse(drill, _servers, record):
        names.append(drill.name)
        record.add(Step("did", "something"))
        record.add(Step("held", "one call", "G4"))
        record.logs = {"1-worker": "died"} if drill.name == "poison" else {}
        record.end("G9: not so: one letter" if drill.name == "poison" else None)

    monkeypatch.setattr(command, "throwaway_servers", servers)
    monkeypatch.setattr(command, "rehearse", rehearse)
    return names


def test_a_drill_tells_its_steps_and_ok(rehearsed):
    told = invoke("kill-in-call")
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert lines[0] == "kill-in-call: kill -9 during the call"
    assert "REMINDERS_CLAIM=13s" in lines[1]
    assert lines[2:4] == ["    did  something", "    G4   one call"]
    assert lines[4].startswith("    ok  (")
    assert lines[5].endswith("all guarantees held")


def test_a_broken_one_exits_1_shows_the_logs_and_does_not_stop_the_others(rehearsed):
    told = invoke("poison", "same-message")
    assert told.exit_code == 1
    assert "    BROKEN: G9: not so: one letter  (" in told.stdout
    assert told.stdout.splitlines()[-1].endswith("BROKEN: poison")
    assert "--- last words of 1-worker\ndied\n" in told.stderr
    assert rehearsed == ["poison", "same-message"]


def test_json_is_one_object_a_drill(rehearsed):
    told = invoke("poison", "same-message", "--json")
    assert told.exit_code == 1
    first, second = map(json.loads, told.stdout.splitlines())
    assert (first["v"], first["name"], first["ok"], first["broken"]) == (1, "poison", False, "G9: not so: one letter")
    assert first["steps"][1] == {"kind": "held", "guarantee": "G4", "text": "one call"}
    assert (second["name"], second["ok"], second["broken"]) == ("same-message", True, None)
    assert second["settings"] == {"REMINDERS_HTTP_DEADLINE": "20s", "REMINDERS_GRACE": "30s"}


def test_through_a_pipe_json_comes_drill_by_drill(rehearsed, monkeypatch):
    came = []
    rehearse = command.rehearse

    def looked_at(drill, servers, record):
        # What was not flushed is not there yet.
        came.append(sys.stdout.buffer.getvalue().decode().count('"name"'))
        rehearse(drill, servers, record)

    monkeypatch.setattr(command, "rehearse", looked_at)
    invoke("poison", "same-message", "kill-in-call", "--json")
    assert came == [0, 1, 2]


@pytest.mark.parametrize("names", [[], ["all"]])
def test_by_default_all_run_once(rehearsed, names):
    assert invoke(*names).exit_code == 1
    assert rehearsed == list(DRILLS)


def test_the_list_runs_none(rehearsed):
    told = invoke("--list")
    assert told.exit_code == 0
    assert [line.split()[0] for line in told.stdout.splitlines()[1:]] == list(DRILLS)
    here = [json.loads(line)["name"] for line in invoke("--list", "--here", "--json").stdout.splitlines()]
    assert here == [name for name, drill in DRILLS.items() if drill.here is not None]
    assert rehearsed == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["poisn"], 1, "did you mean poison?"),
        (["--tenant", "t", "poison"], 2, "go with --here"),
        (["--here", "same-message"], 2, "--here needs --tenant"),
        (["--here", "--tenant", "t", "poison"], 1, "throw-away installation only"),
        (["--here", "--tenant", "t", "--listen", "8080"], 1, "is no HOST:PORT"),
        (["--here", "--tenant", "t", "--listen", "h:99999"], 1, "is no HOST:PORT"),
    ],
)
def test_what_makes_no_sense_is_refused(rehearsed, arguments, code, said):
    told = invoke(*arguments)
    assert told.exit_code == code
    assert said in told.stderr
    assert rehearsed == []


def test_the_page_lists_every_drill_with_its_guarantees():
    rows = re.findall(r"^\| `([a-z0-9-]+)` \| (.*?) \| (.*?) \|", (DOCS / "drills.md").read_text(), re.MULTILINE)
    assert {name: guarantees for name, _, guarantees in rows} == {
        name: ", ".join(drill.guarantees) for name, drill in DRILLS.items()
    }


def test_every_gap_of_the_crash_table_has_a_drill():
    page = (DOCS / "guarantees.md").read_text()
    table = page.partition("## After a kill -9")[2].partition("\n## ")[0]
    gaps = re.findall(r"^\| (?!killed after|---)(.*?) \|", table, re.MULTILINE)
    rows = re.findall(r"^\| `(kill-[a-z-]+)` \| (.*?) \|", (DOCS / "drills.md").read_text(), re.MULTILINE)
    rehearsed = {what.partition(": ")[2] for _, what in rows}
    assert len(gaps) == 14
    assert rehearsed == set(gaps)

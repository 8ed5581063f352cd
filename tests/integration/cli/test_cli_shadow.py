"""`reminders shadow list|report|release`: what was decided, how it compares, and sending it after all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import ADDRESS, lines, only
from reminders.bootstrap import deliver_of
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered
from reminders.domain.retry_policy import Deliver

WHY = ("--reason", "trial")


@pytest.fixture
def worker(stage, settings):
    """A worker that calls nobody: its tenants are in shadow."""
    return deliver_of(settings, stage.database, worker="host:1")


def shadowed(run, stage, worker, **wanted):
    run("tenant", "set", "acme", "--mode", "shadow", *WHY)
    made = stage.schedule(**wanted)
    stage.publish()
    assert worker(made.id, made.delivery_key) == "shadowed"
    return made


def test_list_tells_what_was_decided_and_never_where_to(run, stage, worker):
    made = shadowed(run, stage, worker, reference="order-1")
    (found,) = lines(run("shadow", "list", "--tenant", "acme", "--json"))
    assert (found["reminder_id"], found["delivery_key"], found["decision"], found["why"]) == (
        str(made.id), made.delivery_key, "send", None,
    )  # fmt: skip
    assert (found["reference"], len(found["body_hash"]), found["lateness"] > 4) == ("order-1", 64, True)
    told = run("shadow", "list", "--tenant", "acme")
    assert "order-1" in told.stdout
    assert ADDRESS not in told.stdout + str(found)
    assert run("shadow", "list", "--tenant", "acme", "--decision", "refused").stdout == "Nothing was shadowed.\n"
    assert run("shadow", "list", "--tenant", "acme", "--since", "1s", "--json").exit_code == 0
    shown = run("show", made.id).stdout
    assert "its tenant was in shadow: it was decided, and not sent" in shown


def test_report_against_a_file_of_the_previous_system(run, stage, worker, tmp_path):
    for number in (1, 2, 3):
        shadowed(run, stage, worker, reference=f"order-{number}", user_id="ada")
    now = datetime.now(UTC)
    file = tmp_path / "previous.csv"
    file.write_text(
        "reference,user_id,sent_at\n"
        f"order-1,ada,{now.isoformat()}\n"
        f"order-2,ada,{(now - timedelta(hours=1)).isoformat()}\n"
        f"order-9,ada,{now.isoformat()}\n"
        "order-8,ada,yesterday\n"
    )
    result = run("shadow", "report", "--tenant", "acme", "--file", file, "--json")
    assert result.exit_code == 3
    found = only(result)
    counted = {
        name: found[name]
        for name in ("here", "there", "matched", "differing", "missing_here", "missing_there", "rejected")
    }
    assert counted == {
        "here": 3, "there": 3, "matched": 1, "differing": 1, "missing_here": 1, "missing_there": 1, "rejected": 1,
    }  # fmt: skip
    assert (found["compared_by"], found["instant"], found["decisions"]) == (
        ["reference", "user_id"],
        "sent_at",
        {"send": 3},
    )
    told = {(each["what"], each["reference"]) for each in found["differences"]}
    assert told == {("differs", "order-2"), ("missing_there", "order-3"), ("missing_here", "order-9")}
    (differs,) = [each for each in found["differences"] if each["what"] == "differs"]
    assert 3540 < differs["seconds"] <= 3600
    wide = only(run("shadow", "report", "--tenant", "acme", "--file", file, "--tolerance", "2h", "--json"))
    assert wide["matched"] == 2
    people = run("shadow", "report", "--tenant", "acme", "--file", file).stdout
    assert "line 5: sent_at: " in people
    assert "missing here" in people


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("user_id,sent_at\nada,9999-12-31T23:59:59-12:00", "is in the year 9999; years 1970 to 9998 (UTC) are allowed"),
        ("user_id,sent_at\nada,0001-01-01T00:00:00+12:00", "is in the year 1; years 1970 to 9998 (UTC) are allowed"),
        ("user_id,due_at,zone\nada,9999-12-31 23:59,America/New_York", "is in the year 9999, which no zone reaches"),
        ("user_id,due_at\nada,2026-11-30T08:00", "is a wall time without an offset"),
    ],
)
def test_times_that_cannot_be_are_rejected_by_line(run, tmp_path, text, said):
    file = tmp_path / "previous.csv"
    file.write_text(text)
    result = run("shadow", "report", "--tenant", "acme", "--file", file, "--since", "1970-01-01T00:00Z")
    assert result.exit_code == 3
    assert f"_at: {said}" in result.stdout


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("list --since 10000000d", "since: is an age of at most 36,500d"),
        ("report --since 10000000d", "since: is an age of at most 36,500d"),
        ("list --since 0001-01-01T00:00+12:00", "since: is in the year 1"),
        ("report --tolerance 10000000d", "--tolerance: is at most 366d"),
    ],
)
def test_spans_beyond_all_time_are_refused(run, command, said):
    result = run("shadow", *command.split(), "--tenant", "acme")
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr


def test_report_against_due_instants_of_json_lines(run, stage, worker, tmp_path):
    made = shadowed(run, stage, worker, user_id="ada")
    file = tmp_path / "previous.jsonl"
    file.write_text(f'{{"user_id": "ada", "kind": "invoice-due", "due_at": "{made.due_at.isoformat()}"}}\n')
    found = only(run("shadow", "report", "--tenant", "acme", "--file", file, "--tolerance", "1s", "--json"))
    assert (found["matched"], found["differing"], found["compared_by"]) == (1, 0, ["user_id", "kind"])


def test_report_against_the_live_path_of_the_same_period(run, stage, worker):
    shadowed(run, stage, worker, reference="order-1", user_id="ada")
    shadowed(run, stage, worker, reference="order-2", user_id="ada")
    stage.deliver(stage.schedule(tenant_id="old", reference="order-1", user_id="ada"), Delivered(), Deliver())
    found = only(run("shadow", "report", "--tenant", "acme", "--live", "old", "--json"))
    assert (found["here"], found["there"], found["matched"], found["missing_there"]) == (2, 1, 1, 1)
    assert found["against"] == "live calls of tenant old"
    alone = only(run("shadow", "report", "--tenant", "acme", "--json"))
    assert (alone["there"], alone["missing_there"]) == (0, 2)
    nothing = only(run("shadow", "report", "--tenant", "nobody", "--json"))
    assert (nothing["here"], nothing["since"], nothing["decisions"]) == (0, None, {})


def test_release_sends_after_all_and_says_what_it_does_not(run, stage, worker):
    made = shadowed(run, stage, worker)
    early = run("shadow", "release", made.id, *WHY)
    assert (early.exit_code, early.stdout.startswith("not released: tenant acme is in shadow")) == (1, True)
    run("tenant", "set", "acme", "--mode", "live", *WHY)
    first, second = lines(run("shadow", "release", made.id, uuid7(), "--actor", "ada", *WHY, "--json"))
    assert (first["released"], first["id"], first["version"]) == (True, str(made.id), 2)
    assert (second["released"], "there is no reminder" in second["error"]) == (False, True)
    assert stage.rows("SELECT released_by, released_reason FROM shadow_deliveries") == [("ada", "trial")]
    assert stage.publish() == [made.id]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["list"], 2, "Missing option '--tenant'"),
        (["report", "--tenant", "acme", "--file", "none.csv"], 1, "none.csv cannot be read"),
        (["report", "--tenant", "acme", "--file", "x", "--live", "y"], 2, "not both"),
        (["report", "--tenant", "acme", "--tolerance", "soon"], 1, "--tolerance"),
        (["report", "--tenant", "acme", "--since", "noon"], 1, "since"),
        (["release", "x", *WHY], 1, "is no id"),
        (["release", "x"], 2, "Missing option '--reason'"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(run, stage, given, code, said):
    result = run("shadow", *given)
    assert result.exit_code == code
    assert said in result.stderr


def test_a_file_that_cannot_be_compared_is_told_with_its_own_columns(run, stage, tmp_path):
    file = tmp_path / "previous.csv"
    file.write_text("id,sent_at\n1,2030-05-01T09:00Z\n")
    result = run("shadow", "report", "--tenant", "acme", "--file", file)
    assert (result.exit_code, result.stderr) == (
        1, "reference: has no column, nor has user_id; one of the two is needed to compare\n",
    )  # fmt: skip


@pytest.mark.parametrize(("flag", "more"), [("--live", ("--tenant", "acme")), ("--tenant", ())])
def test_an_empty_name_is_refused_by_its_own_flag(run, flag, more):
    result = run("shadow", "report", *more, flag, "")
    assert (result.exit_code, result.stderr.splitlines()[0]) == (1, f"{flag}: is empty")

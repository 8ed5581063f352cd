"""`reminders tenant set --mode`, `tenant cohort`, `tenant modes`, `handover`, and what show and status say of them."""

from __future__ import annotations

import getpass
import socket
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import lines, only
from reminders import bootstrap
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.tenant_registry import Dispatcher

WHY = ("--reason", "trial")


def test_a_tenant_is_turned_off_and_live_again(run, stage, broker):
    made = stage.schedule()
    said = run("tenant", "set", "acme", "--mode", "off", *WHY)
    assert (said.exit_code, said.stdout) == (0, "off: tenant acme\nno claim is open, and none can be taken\n")
    assert stage.lease()[0] == []
    shown = run("show", made.id).stdout
    assert (
        f"its tenant is off, by {getpass.getuser()}: trial; `reminders tenant set acme --mode live` sends it" in shown
    )
    (listed,) = lines(run("pause", "list", "--json"))
    assert (listed["by_mode"], listed["held"], listed["reason"]) == (True, 1, "trial")
    assert "tenant off" in run("pause", "list").stdout
    refused = run("resume", listed["id"])
    assert (refused.exit_code, refused.stderr.strip()) == (
        1, "tenant acme is off; `reminders tenant set acme --mode live` sends again what is held",
    )  # fmt: skip
    status = only(run("status", "--json"))
    assert (status["held"], status["tenants"], status["dispatchers"]) == (
        1,
        {"off": 1, "shadow": 0, "live": 0},
        {"main": 1},
    )
    assert "1 off" in run("status").stdout
    back = only(run("tenant", "set", "acme", "--mode", "live", "--rate", "10/s", *WHY, "--json"))
    assert back == {
        "v": 1, "mode": "live", "tenants": ["acme"], "changed": {"acme": "off"}, "open_claims": 0, "claims_end_at": None,
    }  # fmt: skip
    assert run("tenant", "set", "acme", "--mode", "live", *WHY).stdout == "already live: tenant acme\n"
    (ended,) = lines(run("pause", "list", "--json"))
    assert (ended["rate"], ended["ended_reason"]) == (10.0, "trial")


def test_open_claims_are_reported(run, stage):
    stage.claim(stage.schedule())
    said = run("tenant", "set", "acme", "--mode", "shadow", *WHY).stdout.splitlines()
    assert said[0] == "shadow: tenant acme"
    assert said[1].startswith("1 open claim, the last until ")


def test_show_and_modes_say_where_a_tenant_stands_and_who_said_so(run, stage):
    run("tenant", "cohort", "add", "early", "acme")
    run("tenant", "set", "acme", "--mode", "shadow", "--actor", "ada", *WHY)
    shown = only(run("tenant", "show", "acme", "--json"))
    assert (shown["mode"], shown["dispatcher"], shown["epoch"], shown["cohorts"]) == ("shadow", "main", 0, ["early"])
    assert (shown["actor"], shown["reason"], shown["policies"]) == ("ada", "trial", [])
    assert datetime.now(UTC) - datetime.fromisoformat(shown["changed_at"]) < timedelta(minutes=1)
    assert run("tenant", "show", "acme").stdout.splitlines()[0].split() == ["mode", "shadow"]
    (listed,) = lines(run("tenant", "modes", "--json"))
    assert listed["tenant_id"] == "acme"
    assert run("tenant", "modes").stdout.splitlines()[1].split()[:4] == ["acme", "shadow", "main", "early"]


def test_a_cohort_is_filled_listed_moved_and_emptied(run, stage):
    added = only(run("tenant", "cohort", "add", "early", "t1", "t2", "--json"))
    assert added == {"v": 1, "cohort": "early", "added": ["t1", "t2"]}
    assert run("tenant", "cohort", "add", "early", "t2").stdout == "0 tenants added to cohort early\n"
    moved = run("tenant", "set", "--cohort", "early", "--mode", "shadow", *WHY)
    assert moved.stdout.splitlines()[0] == "shadow: cohort early (2 tenants, 2 changed)"
    listed = lines(run("tenant", "cohort", "list", "--json"))
    assert [(each["tenant_id"], each["mode"]) for each in listed] == [("t1", "shadow"), ("t2", "shadow")]
    assert run("tenant", "cohort", "remove", "early", "t1", "t2").stdout == "2 tenants removed from cohort early\n"
    refused = run("tenant", "set", "--cohort", "early", "--mode", "off", *WHY)
    assert (refused.exit_code, refused.stderr.startswith("cohort early has no tenants")) == (1, True)
    assert stage.rows("SELECT actor, host, cohort FROM tenant_changes LIMIT 1") == [
        (getpass.getuser(), socket.gethostname(), "early")
    ]


def test_handover_gives_tenants_away_and_says_what_is_open(run, stage):
    stage.publish()
    stage.claim(stage.schedule())
    stage.schedule()
    stage.publish()
    said = run("handover", "acme", "--to", "green", *WHY)
    assert said.stdout.splitlines()[:2] == [
        "handed to green: 1 tenant, 1 of them from now on",
        "1 that were on their way elsewhere are due at once",
    ]
    assert said.stdout.splitlines()[2].startswith("1 open claim, the last until ")
    again = only(run("handover", "acme", "--to", "green", *WHY, "--json"))
    assert (again["dispatcher"], again["changed"], again["woken"], again["open_claims"]) == ("green", {}, 0, 1)
    assert "dispatcher  green (handed over 1 times)" in run("tenant", "show", "acme").stdout
    everything = only(run("handover", "--all", "--to", "blue", *WHY, "--json"))
    assert (everything["changed"], everything["running"]) == ({"acme": "green"}, False)
    assert stage.rows("SELECT dispatcher FROM new_tenants") == [("blue",)]


def test_a_dispatcher_that_nobody_runs_is_warned_of_and_shown(run, stage, broker):
    scanners = {name: PostgresScan(stage.database, dispatcher=Dispatcher(name)) for name in ("main", "green")}
    scanners["main"].record_tick(taken=1)
    stage.schedule()
    stage.publish()
    said = run("handover", "acme", "--to", "gren", *WHY)
    assert (said.exit_code, "warning: no scanner of dispatcher gren has been seen" in said.stderr) == (0, True)
    assert only(run("status", "--json"))["dispatchers_away"] == ["gren"]
    assert "nobody runs" in run("status").stdout
    scanners["green"].record_tick(taken=1)
    assert run("handover", "acme", "--to", "green", *WHY).stderr == ""
    assert only(run("status", "--json"))["dispatchers_away"] == []
    stage.rows("UPDATE dispatchers SET seen_at = seen_at - interval '4 minutes' RETURNING 1")
    assert only(run("status", "--json"))["dispatchers_away"] == ["green"]


def test_a_worker_whose_claims_last_otherwise_than_its_scanners_think_says_so(run, stage, settings, caplog):
    PostgresScan(stage.database, claim=30.0).record_tick(taken=1)
    for claim, told in ((30.0, 0), (60.0, 1)):
        bootstrap.admission_of(replace(settings, claim=claim), stage.database, worker="w").tokens.close()
        assert caplog.text.count("worker.claims_differ: REMINDERS_CLAIM is 60 s here and 30 s for the scanners") == told


def test_the_settings_name_the_dispatcher_that_scans_and_claims(run, stage, broker, monkeypatch):
    monkeypatch.setenv("REMINDERS_DISPATCHER", "green")
    monkeypatch.setenv("REMINDERS_NEW_TENANTS", "shadow")
    run("status")
    found = bootstrap.dispatcher_of(bootstrap.load())
    assert (found.dispatcher, found.new_tenants) == ("green", "shadow")
    made = stage.schedule()
    assert only(run("scan", "--json"))["published"] == 1
    assert stage.rows("SELECT mode, dispatcher FROM tenant_policies") == [("shadow", "green")]
    claims = PostgresClaims(stage.database, worker="w", formats={}, dispatcher=found)
    assert claims.refusal(made.id, made.delivery_key) == "shadow"
    assert PostgresScan(stage.database).look(10).due == 0


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["tenant", "set", "acme", "--mode", "off"], 2, "Missing option '--reason'"),
        (["tenant", "set", "acme", "--cohort", "early", "--mode", "off", *WHY], 2, "Name either a TENANT or a --cohort"),
        (["tenant", "set", "--mode", "off", *WHY], 2, "Name either a TENANT or a --cohort"),
        (["tenant", "set", "acme", "--mode", "odd", *WHY], 2, "'odd' is not one of"),
        (["tenant", "set", "acme", "--mode", "off", "--on-unknown", "review"], 2, "not both"),
        (["tenant", "set", "acme", "--reason", "x"], 2, "not both"),
        (["tenant", "set", "--on-unknown", "review"], 2, "Missing argument 'TENANT'"),
        (["tenant", "set", "acme", "--mode", "off", "--rate", "1/s", *WHY], 2, "--rate is for what goes out again"),
        (["tenant", "set", "acme", "--mode", "live", "--rate", "fast", *WHY], 1, "rate"),
        (["tenant", "cohort", "add", "no name", "acme"], 1, "cohort: 'no name' is no name of a cohort"),
        (["tenant", "cohort", "add", "early", "a\nb"], 1, "--tenant: "),
        (["handover", "acme", "--to", "No"], 2, "Missing option '--reason'"),
        (["handover", "acme", "--to", "No", *WHY], 1, "'No' is no name of a dispatcher"),
        (["handover", "acme", "--all", "--to", "green", *WHY], 2, "one of them"),
        (["handover", "--to", "green", *WHY], 2, "Name either a TENANT or a --cohort"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_a_line(run, stage, given, code, said):
    result = run(*given)
    assert result.exit_code == code
    assert said in result.stderr
    assert stage.count("tenant_policies") == 0

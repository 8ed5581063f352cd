"""`reminders tenant allow`, `reminders notice`, and what `status` and `destination` tell of it."""

from __future__ import annotations

import getpass
from datetime import timedelta

import pytest

from integration.cli.stage import lines, only
from reminders.domain.outcomes import Blocked, Rejected, Retry
from reminders.domain.retry_policy import Bury, Park, Wait

INSIDE = ["--user", "u", "--kind", "k", "--channel", "webhook", "--due-at", "2090-01-01T00:00Z"]
GONE = Rejected("http_410", "HTTP 410", 410, gone=True)


pytestmark = pytest.mark.usefixtures("stage")


@pytest.fixture(autouse=True)
def production(monkeypatch):
    monkeypatch.setenv("REMINDERS_ALLOW_PRIVATE", "no")


def test_what_a_tenant_is_allowed_is_scheduled_imported_and_named(run, tmp_path):
    to = "https://10.20.1.5/hook"
    given = ["schedule", "--tenant", "acme", "--to", to, "--reference", "r", *INSIDE, "--json"]
    refused = run(*given)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "--to: leads to this machine or into a private network" in refused.stderr
    said = run("tenant", "allow", "add", "acme", "10.20.0.0/16", "--reason", "their own network", "--json")
    assert only(said) == {"v": 1, "tenant_id": "acme", "place": "10.20.0.0/16", "created": True}
    assert only(run(*given))["created"] is True
    for tenant in ("acme", "beta"):
        (tmp_path / f"{tenant}.jsonl").write_text(
            f'{{"tenant_id": "{tenant}", "user_id": "u", "kind": "k", "channel": "webhook", "destination": "{to}", '
            '"due_at": "2090-01-01T00:00Z", "reference": "imported"}\n'
        )
    assert only(run("import", str(tmp_path / "acme.jsonl"), "--json"))["scheduled"] == 1
    assert only(run("import", str(tmp_path / "beta.jsonl"), "--json"))["rejected"] == 1
    named = ["--channel", "webhook", "--to", to]
    assert run("destination", "set", "--tenant", "acme", *named, "--deduplicates", "no").exit_code == 0
    assert run("destination", "set", "--tenant", "beta", *named, "--deduplicates", "no").exit_code == 1


def test_who_allowed_what_is_listed_and_taken_back(run):
    run("tenant", "allow", "add", "acme", "Hooks.Corp.", "--reason", "on their premises")
    again = run("tenant", "allow", "add", "acme", "hooks.corp", "--reason", "x", "--json")
    assert only(again)["created"] is False
    (shown,) = lines(run("tenant", "allow", "list", "--json"))
    assert (shown["place"], shown["actor"], shown["reason"]) == ("hooks.corp", getpass.getuser(), "on their premises")
    assert lines(run("tenant", "allow", "list", "beta", "--json")) == []
    said = run("tenant", "allow", "remove", "acme", "hooks.corp", "--reason", "moved", "--actor", "ada", "--json")
    assert only(said)["workers_know_within_seconds"] == 30.0
    assert lines(run("tenant", "allow", "list", "acme", "--json")) == []
    (ended,) = lines(run("tenant", "allow", "list", "acme", "--ended", "--json"))
    assert (ended["ended_by"], ended["ended_reason"]) == ("ada", "moved")
    assert "on their premises" in run("tenant", "allow", "list", "--ended").stdout
    twice = run("tenant", "allow", "remove", "acme", "hooks.corp", "--reason", "moved")
    assert (twice.exit_code, twice.stdout) == (1, "")
    assert "is not allowed to tenant acme" in twice.stderr


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["acme", "10.20.0.0/16"], 2, "Missing option '--reason'"),
        (["acme", "10.20.0.1/16", "--reason", "r"], 1, "place: '10.20.0.1/16' is no network"),
        (["acme", "127.0.0.0/8", "--reason", "r"], 1, "name the one address that is meant"),
        (["acme", "https://hooks.corp", "--reason", "r"], 1, "place: 'https://hooks.corp' is no network"),
        (["", "10.20.0.0/16", "--reason", "r"], 1, "--tenant: is empty"),
        (["acme", "10.20.0.0/16", "--reason", " "], 1, "reason: is needed"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run("tenant", "allow", "add", *given)
    assert said in result.stderr
    assert (result.exit_code, stage.count("allowed_places")) == (code, 0)


def test_notices_are_counted_listed_and_seen(run, stage):
    assert only(run("status", "--json"))["notices_open"] == 0
    stage.deliver(stage.schedule(tenant_id="acme"), GONE, Bury("destination"))
    refused = Blocked("provider", timedelta(minutes=10), "credentials", "our key was refused", 401)
    stage.deliver(stage.schedule(tenant_id="beta"), refused, Wait(600.0, 3600.0))
    assert only(run("status", "--json"))["notices_open"] == 2
    assert "  2 unseen (1 channel held, 1 destination gone): `reminders notice list`\n" in run("status").stdout
    held, gone = lines(run("notice", "list", "--json"))
    assert (held["kind"], held["tenant_id"], held["destination_id"]) == ("channel_held", "beta", None)
    assert (gone["kind"], gone["tenant_id"], gone["reason"]) == ("destination_gone", "acme", "HTTP 410")
    assert "hooks.example" not in run("notice", "list").stdout
    assert only(run("notice", "seen", gone["id"], "--actor", "ada", "--json")) == {"v": 1, "seen": 1}
    assert [each["id"] for each in lines(run("notice", "list", "--json"))] == [held["id"]]
    assert only(run("notice", "seen", "--all", "--json"))["seen"] == 1
    assert {each["seen_by"] for each in lines(run("notice", "list", "--seen", "--json"))} == {"ada", getpass.getuser()}
    assert only(run("status", "--json"))["notices_open"] == 0
    for wrong in ([], ["--all", "--tenant", "acme"], [gone["id"], "--all"]):
        assert run("notice", "seen", *wrong).exit_code == 2
    missing = run("notice", "seen", "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b")
    assert (missing.exit_code, missing.stderr) == (1, "there is no notice 019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b\n")


def test_a_destination_says_since_when_it_fails(run, stage):
    made = stage.schedule(tenant_id="acme")
    stage.deliver(made, Retry("connect_refused", "the connection was refused"), Park(60.0, "deliver"))
    (shown,) = lines(run("destination", "list", "--json"))
    assert shown["failing_since"] is not None
    assert only(run("destination", "show", shown["id"], "--json"))["failing_since"] == shown["failing_since"]
    assert run("destination", "list").stdout.splitlines()[1].split()[-1] == "failing"

"""`reminders pause`, `reminders resume`, `reminders pause list`, and what `status` and `show` say of what is held."""

from __future__ import annotations

import getpass
import signal
import socket
import time
from datetime import UTC, datetime, timedelta

import psycopg2
import pytest

from integration.cli.stage import lines, only
from reminders.domain.identity import uuid7
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.pausing import pauses
from reminders.ledger.releasing import release_held

PAUSE_KEYS = {
    "v", "id", "tenant_id", "channel", "kind", "destination_id", "reason", "actor", "host", "paused_at", "ended_at", "ended_by",
    "ended_reason", "rate", "held", "by_mode",
}  # fmt: skip
WHY = ("--reason", "receiver is moving")


def until(what, wanted):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if answer := what():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"never happened: {wanted}")


def held(run, stage):
    """A pause of the tenant, and a reminder that it holds."""
    made = stage.schedule()
    said = only(run("pause", "--tenant", "acme", *WHY, "--json"))
    assert stage.lease()[0] == []
    return made, said["id"]


def test_pause_says_what_is_paused_and_what_is_still_under_way(run, stage):
    made = stage.schedule()
    stage.claim(made)
    said = run("pause", "--tenant", "acme", "--kind", "invoice-due", *WHY)
    assert said.exit_code == 0
    first, second = said.stdout.splitlines()
    (found,) = pauses(stage.database)
    assert first == f"paused: tenant acme, kind invoice-due; `reminders resume {found.id}` ends it"
    assert second.startswith("1 open claim, the last until ")
    again = run("pause", "--tenant", "acme", "--kind", "invoice-due", *WHY, "--json")
    assert (only(again)["created"], only(again)["open_claims"], only(again)["id"]) == (False, 1, str(found.id))
    assert datetime.fromisoformat(only(again)["claims_end_at"]) - datetime.now(UTC) < timedelta(seconds=30)
    assert (found.actor, found.host) == (getpass.getuser(), socket.gethostname())


def test_list_show_and_status_say_why_something_is_held(run, stage, broker):
    made, by = held(run, stage)
    (listed,) = lines(run("pause", "list", "--json"))
    assert set(listed) == PAUSE_KEYS
    assert (listed["id"], listed["tenant_id"], listed["held"], listed["ended_at"]) == (by, "acme", 1, None)
    row = run("pause", "list").stdout.splitlines()[1]
    assert row.startswith(by)
    assert row.endswith("active  receiver is moving")
    shown = only(run("show", made.id, "--json"))
    assert (shown["status"], shown["hold_id"], shown["hold_reason"], shown["wake_at"]) == (
        "held",
        by,
        "receiver is moving",
        None,
    )
    assert (
        f"pause {by} by {getpass.getuser()} holds it: receiver is moving; `reminders resume {by}` ends that"
        in shown["why"]
    )
    assert [event["what"] for event in shown["timeline"]] == ["scheduled", "held"]
    found = only(run("status", "--json"))
    assert (found["held"], found["counts"]["held"], found["oldest_due_age_seconds"]) == (1, 1, 0.0)
    assert [(each["id"], each["held"], each["reason"]) for each in found["pauses"]] == [(by, 1, "receiver is moving")]
    assert f"1 by {by} (tenant acme): receiver is moving" in run("status").stdout
    assert only(run("list", "--status", "held", "--json"))["id"] == str(made.id)


def test_resume_by_id_and_by_what_is_covered(run, stage):
    made, by = held(run, stage)
    said = only(run("resume", by, "--rate", "30/m", "--reason", "moved", "--actor", "bo", "--json"))
    assert (said["ended_by"], said["ended_reason"], said["rate"], said["held"]) == ("bo", "moved", 0.5, 1)
    assert "that ended" in only(run("show", made.id, "--json"))["why"]
    assert f"{by} (tenant acme): receiver is moving [ending]" in run("status").stdout
    assert release_held(stage.database, 10) == 1
    assert stage.lease()[0] == [made.id]
    assert run("pause", "list").stdout == "Nothing is paused.\n"
    assert "ended" in run("pause", "list", "--ended").stdout
    run("pause", "--all", *WHY)
    assert run("resume", "--all").stdout == "resumed: everything; 0 held reminders go at once\n"
    said = run("resume", "--all")
    told = "no pause of exactly this is active: everything; `reminders pause list` shows those that are\n"
    assert (said.exit_code, said.stderr) == (1, told)


def test_a_pause_that_is_killed_while_it_waits_is_in_force_and_can_be_said_again(run, start, stage, migrated):
    made = stage.schedule()
    stage.publish()
    claims = PostgresClaims(stage.database, worker="w", formats={"webhook": 1})
    stuck = psycopg2.connect(migrated)
    with stuck.cursor() as cursor:
        cursor.execute("LOCK TABLE reminders.pauses IN ROW SHARE MODE")
    process = start("pause", "--tenant", "acme", "--actor", "ada", *WHY)
    until(lambda: pauses(stage.database), "the pause is committed")
    assert process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    assert claims.claim(made.id, made.delivery_key, uuid7(), 30.0) is None
    assert claims.refusal(made.id, made.delivery_key) == "paused"
    stuck.close()
    said = only(run("pause", "--tenant", "acme", "--actor", "ada", *WHY, "--json"))
    assert (said["created"], said["held"], said["open_claims"]) == (False, 1, 0)


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["pause", *WHY], 2, "Say what: --tenant, --channel, --kind, --destination, or --all."),
        (["pause", "--all"], 2, "Missing option '--reason'"),
        (["pause", "--tenant", "acme", *WHY, "list"], 2, "Give either what to pause, or list."),
        (["pause", "--all", "--tenant", "acme", *WHY], 1, "not both"),
        (["pause", "--destination", "https://x.example", *WHY], 1, "destination_id: is no id"),
        (["pause", "--tenant", "", *WHY], 1, "--tenant: is empty"),
        (["resume", "--tenant", ""], 1, "--tenant: is empty"),
        (["pause", "--tenant", "acme", "--reason", " "], 1, "reason: is needed"),
        (["resume"], 2, "Give either IDs"),
        (["resume", "here"], 1, "'here' is no id"),
        (["resume", "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"], 1, "there is no pause 019a2b3c"),
        (["resume", "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b", "--all"], 2, "Give either IDs"),
        (["resume", "--all", "--rate", "fast"], 1, "rate: 'fast' is no rate"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run(*given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert stage.count("pauses") == 0

"""`reminders destination disable|enable|release`, and how `show` and `list` tell of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import ADDRESS, lines, only
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Blocked
from reminders.domain.retry_policy import Wait
from reminders.ledger.claiming import PostgresClaims

PLACE = str(destination_id("acme", "webhook", ADDRESS))
NAMED = ["--tenant", "acme", "--channel", "webhook", "--to", ADDRESS]
PAUSE = Blocked("destination", timedelta(minutes=10), "http_429", "HTTP 429: slow down", 429)


def paused(stage):
    made = stage.schedule(tenant_id="acme")
    stage.deliver(made, PAUSE, Wait(600.0, 3600.0))
    return made


@pytest.mark.parametrize("named", [[PLACE], NAMED])
def test_disabled_and_enabled_with_a_reason(run, stage, named):
    stage.schedule(tenant_id="acme")
    before = datetime.now(UTC)
    said = only(run("destination", "disable", *named, "--reason", "they asked us to", "--json"))
    assert (said["id"], said["disabled_reason"], said["enabled_at"]) == (PLACE, "they asked us to", None)
    assert datetime.fromisoformat(said["disabled_at"]) >= before
    assert only(run("destination", "show", PLACE, "--json")) == said
    assert run("destination", "list").stdout.splitlines()[1].split()[-1] == "disabled"
    result = run("destination", "enable", *named, "--reason", "they are back", "--json")
    said = only(result)
    assert (said["disabled_at"], said["disabled_reason"], said["enabled_reason"]) == (None, None, "they are back")
    assert ADDRESS not in result.stdout
    again = run("destination", "enable", *named, "--reason", "twice")
    assert (again.exit_code, again.stderr) == (1, f"destination {PLACE} is not disabled\n")


def test_an_address_can_be_disabled_before_its_first_reminder(run, stage):
    said = only(run("destination", "disable", *NAMED, "--reason", "not yet", "--json"))
    assert (said["reminders"], said["deduplicates"]) == (0, None)


def test_held_it_says_until_when_and_why_and_can_be_released(run, stage):
    paused(stage)
    shown = only(run("destination", "show", PLACE, "--json"))
    assert shown["hold_reason"] == "HTTP 429: slow down"
    left = datetime.fromisoformat(shown["held_until"]) - datetime.now(UTC)
    assert timedelta(minutes=9) < left <= timedelta(minutes=10)
    assert run("destination", "list").stdout.splitlines()[1].split()[-1] == "held"
    result = run("destination", "release", PLACE, "--json")
    assert only(result) == {"v": 1, "id": PLACE, "was_held": True, "woken": 1}
    assert only(run("destination", "show", *NAMED, "--json"))["held_until"] is None
    assert lines(run("destination", "list", "--json"))[0]["hold_reason"] is None
    assert only(run("destination", "release", *NAMED, "--json")) == {"v": 1, "id": PLACE, "was_held": False, "woken": 0}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["disable", PLACE, "--reason", "x"], 1, f"there is no destination {PLACE}"),
        (["enable", *NAMED, "--reason", "x"], 1, f"there is no destination {PLACE}"),
        (["release", PLACE], 1, f"there is no destination {PLACE}"),
        (["disable", PLACE], 2, "Missing option '--reason'"),
        (["enable", PLACE], 2, "Missing option '--reason'"),
        (["disable", *NAMED, "--reason", " "], 1, "reason: is needed"),
        (["disable", *NAMED, "--reason", "x" * 501], 1, "reason: is needed"),
        (["release"], 2, "Give either ID or all of"),
        (["disable", "--tenant", "a", "--channel", "webhook", "--to", "x", "--reason", "y"], 1, "--to: must be an"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run("destination", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert stage.count("destinations") == 0


def test_show_says_why_a_reminder_waits_that_was_put_off(run, stage):
    waiting = stage.schedule(tenant_id="acme")
    paused(stage)
    claims = PostgresClaims(stage.database, worker="host:1", formats={})
    assert claims.refusal(waiting.id, waiting.delivery_key) == "destination_held"
    shown = run("show", str(waiting.id)).stdout
    assert "nothing is sent there before" in shown
    assert "(HTTP 429: slow down)" in shown

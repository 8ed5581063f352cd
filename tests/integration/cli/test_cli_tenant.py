"""`reminders tenant`: set, show, list, release."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.cli.stage import lines, only
from reminders.domain.outcomes import Blocked
from reminders.domain.retry_policy import Wait

NOTHING = {"held_until": None, "hold_reason": None}
REFUSED = Blocked("provider", timedelta(minutes=10), "credentials", "our key was refused", 401)


def test_set_shows_what_holds_now_and_the_next_claim_goes_by_it(run, stage):
    said = run("tenant", "set", "acme", "--on-unknown", "review", "--retry-delays", "5s, 1m,2h", "--json")
    policy = {"channel": None, "on_unknown": "review", "retry_delays": [5.0, 60.0, 7200.0], **NOTHING}
    assert (said.exit_code, only(said)) == (0, {"v": 1, "tenant_id": "acme", "policies": [policy]})
    claim = stage.claim(stage.schedule(tenant_id="acme"))
    assert (claim.on_unknown, claim.delays) == ("review", (5.0, 60.0, 7200.0))
    own = only(run("tenant", "set", "acme", "--channel", "webhook", "--retry-delays", "7s", "--json"))
    assert own["policies"][1] == {"channel": "webhook", "on_unknown": None, "retry_delays": [7.0], **NOTHING}
    assert only(run("tenant", "show", "acme", "--json")) == own
    assert stage.claim(stage.schedule(tenant_id="acme")).delays == (7.0,)
    run("tenant", "set", "acme", "--channel", "webhook", "--retry-delays", "default")
    back = run("tenant", "set", "acme", "--on-unknown", "default", "--retry-delays", "default", "--json")
    assert only(back)["policies"] == []
    assert stage.claim(stage.schedule(tenant_id="acme")).on_unknown == "repeat"


def test_list_and_show_for_people(run):
    run("tenant", "set", "acme", "--on-unknown", "look_up")
    run("tenant", "set", "beta", "--channel", "log", "--retry-delays", "1.5s,5m")
    head, first, second = run("tenant", "list").stdout.splitlines()
    assert first.split() == ["acme", "(all)", "look_up", "-", "-", "-"]
    assert second.split() == ["beta", "log", "-", "1.5s,300s", "-", "-"]
    assert head.split()[:2] == ["tenant", "channel"]
    assert [each["tenant_id"] for each in lines(run("tenant", "list", "--json"))] == ["acme", "beta"]
    assert [each["tenant_id"] for each in lines(run("tenant", "list", "--json", "--limit", "1"))] == ["acme"]
    assert run("tenant", "show", "nobody").stdout.startswith("Nothing is set or held for this tenant")


def test_a_held_channel_is_shown_and_released(run, stage):
    made = stage.schedule(tenant_id="acme")
    stage.deliver(made, REFUSED, Wait(600.0, 3600.0))
    (held,) = only(run("tenant", "show", "acme", "--json"))["policies"]
    assert (held["channel"], held["hold_reason"]) == ("webhook", "our key was refused")
    assert held["held_until"] is not None
    said = only(run("tenant", "release", "acme", "--channel", "webhook", "--json"))
    assert said == {"v": 1, "tenant_id": "acme", "channel": "webhook", "was_held": True, "woken": 1}
    assert only(run("tenant", "show", "acme", "--json"))["policies"] == []


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["set", "acme"], 2, "Give --mode, --on-unknown or --retry-delays"),
        (["set", "acme", "--on-unknown", "repeat"], 2, "'repeat' is not one of"),
        (["set", "", "--on-unknown", "review"], 1, "--tenant: is empty"),
        (["set", "acme", "--channel", "pigeon", "--on-unknown", "review"], 1, "--channel: 'pigeon' is not installed"),
        (["set", "acme", "--retry-delays", "soon"], 1, "--retry-delays: 'soon' is no duration"),
        (["set", "acme", "--retry-delays", " "], 1, "--retry-delays: is empty"),
        (["set", "acme", "--retry-delays", "-5s"], 1, "--retry-delays: '-5s' is no duration"),
        (["set", "acme", "--retry-delays", "5s,73h"], 1, "none may exceed REMINDERS_MAX_WAIT (259200 s)"),
        (["release", "acme"], 2, "Missing option '--channel'"),
    ],
)
def test_what_is_refused(run, stage, given, code, said):
    result = run("tenant", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert stage.count("tenant_policies") == 0

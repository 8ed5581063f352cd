"""`reminders recipient` and `reminders tenant kind`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import lines, only
from reminders.ledger.claiming import PostgresClaims

pytestmark = pytest.mark.usefixtures("stage")
WHO = ("--tenant", "acme", "--user", "ada")


def test_set_shows_what_is_known_now_and_show_finds_it(run):
    said = only(
        run("recipient", "set", *WHO, "--zone", "Europe/Berlin", "--locale", "de", "--quiet", "22:00-07:00", "--json")
    )
    assert said | {"changed_at": 0} == {
        "v": 1, "tenant_id": "acme", "user_id": "ada", "zone": "Europe/Berlin", "locale": "de", "quiet_hours": "22:00-07:00",
        "changed_at": 0, "preferences": [],
    }  # fmt: skip
    assert only(run("recipient", "show", *WHO, "--json")) == said
    less = only(run("recipient", "set", *WHO, "--quiet", "none", "--locale", "none", "--json"))
    assert (less["zone"], less["locale"], less["quiet_hours"]) == ("Europe/Berlin", None, None)


def test_preferences_are_set_taken_back_and_kept_as_history(run):
    run("recipient", "set", *WHO, "--allowed", "no", "--kind", "offer", "--channel", "sms", "--source", "settings page")
    run("recipient", "set", *WHO, "--allowed", "yes", "--kind", "offer", "--channel", "sms")
    said = only(run("recipient", "set", *WHO, "--allowed", "no", "--json"))
    standing = [(e["kind"], e["channel"], e["allowed"]) for e in said["preferences"]]
    assert standing == [("offer", "sms", True), (None, None, False)]
    history = only(run("recipient", "show", *WHO, "--ended", "--json"))["preferences"]
    assert [(e["allowed"], e["source"], e["ended_at"] is None) for e in history] == [
        (False, "settings page", False), (True, "operator", True), (False, "operator", True),
    ]  # fmt: skip
    run("recipient", "set", *WHO, "--allowed", "default")
    assert len(only(run("recipient", "show", *WHO, "--json"))["preferences"]) == 1


def test_list_and_show_for_people(run):
    run("recipient", "set", *WHO, "--zone", "Asia/Tokyo", "--quiet", "23:00-06:30")
    run("recipient", "set", "--tenant", "beta", "--user", "bea", "--allowed", "no")
    head, first, second = run("recipient", "list").stdout.splitlines()
    assert head.split() == ["tenant", "user", "zone", "locale", "quiet", "hours"]
    assert first.split() == ["acme", "ada", "Asia/Tokyo", "-", "23:00-06:30"]
    assert second.split() == ["beta", "bea", "-", "-", "-"]
    assert [each["user_id"] for each in lines(run("recipient", "list", "--tenant", "beta", "--json"))] == ["bea"]
    shown = run("recipient", "show", "--tenant", "beta", "--user", "bea").stdout
    assert "(all)" in shown.split("Preferences")[1]


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["set", *WHO], 2, "Give --zone, --locale, --quiet or --allowed"),
        (["set", *WHO, "--zone", "UTC", "--kind", "offer"], 2, "--kind and --channel say what --allowed is about"),
        (["set", *WHO, "--quiet", "22:00-07:00"], 1, "--zone: is needed as long as there are quiet hours"),
        (["set", *WHO, "--zone", "UTC", "--quiet", "7-8"], 1, "--quiet: '7-8' is no range of wall times"),
        (["set", *WHO, "--zone", "berlin"], 1, "--zone: 'berlin' is no IANA zone name; did you mean Europe/Berlin?"),
        (["set", *WHO, "--locale", "x y"], 1, "--locale: 'x y' is no language tag"),
        (["set", "--tenant", "acme", "--user", "", "--zone", "UTC"], 1, "--user: is empty"),
        (["show", *WHO], 1, "nothing is known of user ada of acme"),
    ],
)
def test_what_is_refused_changes_nothing(run, stage, given, code, said):
    result = run("recipient", *given)
    assert said in result.stderr
    assert (result.exit_code, result.stdout) == (code, "")
    assert (stage.count("recipients"), stage.count("preferences")) == (0, 0)


def test_a_reminder_that_waits_for_quiet_hours_is_counted_and_shown(run, stage):
    made = stage.schedule(user_id="ada")
    stage.publish()
    # They neither begin nor end while this test runs.
    began, ends = (datetime.now(UTC) + timedelta(hours=hours) for hours in (-1, 11))
    run("recipient", "set", *WHO, "--zone", "UTC", "--quiet", f"{began:%H:%M}-{ends:%H:%M}")
    claims = PostgresClaims(stage.database, worker="w", formats={})
    assert claims.refusal(made.id, made.delivery_key) == "quiet_hours"
    found = only(run("show", made.id, "--json"))
    assert found["why"].startswith("its user has quiet hours; it is looked at again ")
    assert found["quiet_until"] == found["wake_at"]
    assert only(run("status", "--json"))["quiet"] == 1
    assert "1 of those pending" in run("status").stdout


def test_kinds_that_are_critical(run):
    assert run("tenant", "kind", "acme").stdout == "No kind of this tenant is critical.\n"
    said = only(run("tenant", "kind", "acme", "alarm", "--critical", "yes", "--json"))
    assert [(e["kind"], e["critical"]) for e in said["kinds"]] == [("alarm", True)]
    run("tenant", "kind", "acme", "alarm", "--critical", "no")
    assert [e["critical"] for e in only(run("tenant", "kind", "acme", "--json"))["kinds"]] == [False]
    assert run("tenant", "kind", "acme").stdout.splitlines()[1].split()[:2] == ["alarm", "no"]
    half = run("tenant", "kind", "acme", "alarm")
    assert (half.exit_code, "Give KIND and --critical together" in half.stderr) == (2, True)

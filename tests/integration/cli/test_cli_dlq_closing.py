"""`reminders dlq redrive`, `discard` and `resolve`: what is done, what stays and why, and how that is told."""

import getpass
import socket
from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import lines, only
from reminders.domain.outcomes import Rejected, Unknown
from reminders.domain.retry_policy import Bury

GONE = Rejected("http_410", "gone", status_code=410)
UNKNOWN = Unknown("timeout", "no answer", timed_out=True)
NOBODY = "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"
ACTIONS = (["redrive"], ["discard"], ["resolve", "--not-sent"], ["resolve", "--delivered", "ticket-7"])
by_action = pytest.mark.parametrize("action", ACTIONS, ids=" ".join)


@pytest.fixture
def dead(stage):
    """Three dead reminders: two refused, of different tenants, and one of unknown outcome."""
    made = [stage.schedule(tenant_id="acme"), stage.schedule(tenant_id="other"), stage.schedule(tenant_id="acme")]
    stage.deliver(made[0], GONE, Bury("destination"))
    stage.deliver(made[1], GONE, Bury("destination"))
    stage.deliver(made[2], UNKNOWN, Bury("unknown"))
    return made


def statuses(stage):
    return [row[0] for row in stage.rows("SELECT status FROM reminders_v1 ORDER BY id")]


def done(found):
    return next(found[name] for name in ("redriven", "discarded", "resolved") if name in found)


def test_redrive_by_id_wakes_that_reminder_alone(run, stage, dead):
    result = run("dlq", "redrive", dead[0].id, "--reason", "fixed", "--json")
    assert result.exit_code == 0
    found = only(result)
    assert found | {"last_wake_at": 0} == {
        "v": 1, "redriven": 1, "stay": 0, "dry_run": False, "reminder_ids": [str(dead[0].id)], "confirmed_late": [],
        "refused": [], "last_wake_at": 0,
    }  # fmt: skip
    assert found["last_wake_at"].endswith("Z")
    assert statuses(stage) == ["pending", "dead", "dead"]
    (letter,) = lines(run("dlq", "list", "--state", "redriven", "--json"))
    assert (letter["actor"], letter["host"], letter["action_reason"]) == (
        getpass.getuser(),
        socket.gethostname(),
        "fixed",
    )
    assert [event["what"] for event in only(run("show", dead[0].id, "--json"))["timeline"]][-1] == "redriven"


def test_redrive_leaves_unknown_outcomes_until_somebody_checked(run, stage, dead):
    result = run("dlq", "redrive", "--tenant", "acme", "--reason", "fixed", "--json")
    assert result.exit_code == 3
    found = only(result)
    assert (found["redriven"], found["stay"]) == (1, 1)
    (refusal,) = found["refused"]
    assert set(refusal) == {"id", "letter_id", "reason", "detail"}
    assert (refusal["id"], refusal["reason"]) == (str(dead[2].id), "uncertain")
    assert statuses(stage) == ["pending", "dead", "dead"]
    checked = run("dlq", "redrive", "--kind", "unknown", "--reason", "looked", "--actor", "kim", "--checked")
    assert (checked.exit_code, checked.stdout) == (0, "1 redriven; 0 stay as they are\n")
    assert statuses(stage) == ["pending", "dead", "pending"]
    letters = stage.rows("SELECT actor, checked FROM dead_letters WHERE state <> 'open' ORDER BY closed_at")
    assert letters[1] == ("kim", True)


def test_people_are_told_of_each_that_stays(run, dead):
    shown = run("dlq", "redrive", dead[2].id, NOBODY, "--reason", "fixed").stdout.splitlines()
    assert shown[0] == "0 redriven; 2 stay as they are"
    assert any(line.startswith(f"  {dead[2].id}  uncertain: an attempt's outcome is unknown") for line in shown)
    assert any(line.startswith(f"  {NOBODY}  not_found: there is neither") for line in shown)


def test_of_many_that_stay_people_are_told_of_the_first(run, stage):
    for _ in range(22):
        stage.deliver(stage.schedule(), UNKNOWN, Bury("unknown"))
    shown = run("dlq", "redrive", "--all", "--dry-run").stdout.splitlines()
    assert (shown[0], len(shown)) == ("0 would be redriven; 22 stay as they are", 22)
    assert shown[-1] == "  ... and 2 more; --json lists them, up to --limit"


@pytest.mark.parametrize(
    ("more", "would", "stay", "reasons"),
    [
        ([], 2, 1, ["uncertain"]),
        (["--checked"], 3, 0, []),
        (["--limit", "1"], 1, 2, ["uncertain"]),
        (["--tenant", "other"], 1, 0, []),
    ],
)
def test_a_dry_run_says_what_would_be_and_changes_nothing(run, stage, dead, *, more, would, stay, reasons):
    everything = "SELECT l.*, n.* FROM dead_letters l, notification_deliveries n ORDER BY l.id, n.delivery_key"
    before = stage.rows(everything)
    result = run("dlq", "redrive", "--all", "--dry-run", "--json", *more)
    found = only(result)
    assert (found["redriven"], found["stay"], found["dry_run"], len(found["reminder_ids"])) == (
        would, stay, True, would,
    )  # fmt: skip
    assert [each["reason"] for each in found["refused"]] == reasons
    assert result.exit_code == (3 if stay else 0)
    assert statuses(stage) == ["dead", "dead", "dead"]
    assert stage.rows(everything) == before
    assert stage.count("due") == 0


def test_a_rate_spreads_them_in_the_ledger(run, stage, dead):
    found = only(run("dlq", "redrive", "--all", "--checked", "--rate", "2/m", "--reason", "slowly", "--json"))
    wakes = [row[0] for row in stage.rows("SELECT wake_at FROM due ORDER BY wake_at")]
    assert [later - wakes[0] for later in wakes] == [timedelta(), timedelta(seconds=30), timedelta(minutes=1)]
    assert datetime.fromisoformat(found["last_wake_at"]) == wakes[-1]


def test_people_are_told_when_the_last_one_is_due(run, dead):
    shown = run("dlq", "redrive", "--all", "--checked", "--rate", "1/h", "--reason", "slowly").stdout
    assert shown.startswith("3 redriven, the last one due 20")


def test_expired_ones_go_only_when_that_is_ignored(run, stage, dead):
    stage.rows("UPDATE reminders SET expires_at = now() RETURNING 1")
    result = run("dlq", "redrive", dead[0].id, "--reason", "fixed", "--json")
    assert ([each["reason"] for each in only(result)["refused"]], result.exit_code) == (["expired"], 3)
    assert run("dlq", "redrive", dead[0].id, "--reason", "fixed", "--ignore-expiry").exit_code == 0
    (letter,) = lines(run("dlq", "list", "--state", "redriven", "--json"))
    assert datetime.fromisoformat(letter["lifted_expiry"]) <= datetime.now(UTC)
    assert stage.rows(f"SELECT expires_at, status FROM reminders_v1 WHERE id = '{dead[0].id}'") == [(None, "pending")]


def test_discard_is_final(run, stage, dead):
    result = run("dlq", "discard", "--tenant", "acme", "--reason", "too old", "--actor", "kim", "--json")
    assert (only(result)["discarded"], result.exit_code) == (2, 0)
    assert statuses(stage) == ["dead", "dead", "dead"]
    assert [each["tenant_id"] for each in lines(run("dlq", "list", "--json"))] == ["other"]
    again = run("dlq", "redrive", dead[0].id, "--reason", "again", "--json")
    assert ([each["reason"] for each in only(again)["refused"]], again.exit_code) == (["discarded"], 3)
    assert run("reschedule", dead[0].id, "--due-at", "+1h").exit_code == 0


def test_resolve_as_delivered(run, stage, dead):
    result = run(
        "dlq", "resolve", dead[2].id, "--delivered", "ticket-7", "--note", "seen", "--reason", "asked", "--json"
    )
    assert (only(result)["resolved"], result.exit_code) == (1, 0)
    assert statuses(stage) == ["dead", "dead", "delivered"]
    assert only(run("show", dead[2].id, "--json"))["provider_reference"] == "ticket-7"
    (letter,) = lines(run("dlq", "list", "--state", "resolved", "--json"))
    assert (letter["resolution"], letter["resolution_reference"], letter["note"], letter["action_reason"]) == (
        "delivered", "ticket-7", "seen", "asked",
    )  # fmt: skip


def test_resolve_as_not_sent_and_then_send(run, stage, dead):
    assert run("dlq", "resolve", dead[2].id, "--not-sent", "--reason", "asked").exit_code == 0
    assert statuses(stage) == ["dead", "dead", "dead"]
    result = run("dlq", "redrive", "--kind", "unknown", "--reason", "send it", "--json")
    assert (only(result)["reminder_ids"], result.exit_code) == ([str(dead[2].id)], 0)
    timeline = only(run("show", dead[2].id, "--json"))["timeline"]
    assert [event["what"] for event in timeline if event["what"] in {"resolved", "redriven"}] == [
        "resolved",
        "redriven",
    ]


@by_action
def test_every_action_has_the_same_filters_and_dry_run(run, stage, dead, action):
    filters = ["--tenant", "acme", "--kind", "destination", "--channel", "webhook", "--error-class", "http_410"]
    ages = ["--newer-than", "1h", "--older-than", "0s", "--limit", "5"]
    place = stage.rows(f"SELECT destination_id FROM reminders WHERE id = '{dead[0].id}'")[0][0]
    result = run("dlq", *action, *filters, *ages, "--destination", place, "--dry-run", "--json")
    assert only(result)["reminder_ids"] == [str(dead[0].id)]
    result = run("dlq", *action, *filters, *ages, "--destination", place, "--reason", "r", "--json")
    assert (done(only(result)), only(result)["reminder_ids"], result.exit_code) == (1, [str(dead[0].id)], 0)
    assert len(lines(run("dlq", "list", "--json"))) == 2


@by_action
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--reason", "r"], "Name letters, give a filter, or say --all."),
        (["--all"], "Missing option '--reason'."),
        (["--all", "--reason", "r", "--kind", "x"], "'x' is not one of"),
        (["--all", "--reason", "r", "--limit", "0"], "0 is not in the range"),
    ],
)
def test_wrong_usage(run, action, wrong, said):
    result = run("dlq", *action, *wrong)
    assert said in result.stderr
    assert result.exit_code == 2


@pytest.mark.parametrize("which", [[], ["--delivered", "r", "--not-sent"]])
def test_a_resolution_is_one_of_two(run, which):
    result = run("dlq", "resolve", "--all", "--reason", "r", *which)
    assert "Say either --delivered REFERENCE or --not-sent." in result.stderr
    assert result.exit_code == 2


@by_action
def test_a_reason_is_needed_that_can_be_kept(run, stage, dead, action):
    for reason in ("", "a\0", "\udcff", "r" * 501):
        result = run("dlq", *action, "--all", "--reason", reason)
        assert (result.stderr, result.exit_code) == ("reason: is needed: 1 to 500 printable characters\n", 1)
    result = run("dlq", *action, "--all", "--reason", "r", "--actor", " ")
    assert (result.stderr, result.exit_code) == ("actor: is needed: 1 to 500 printable characters\n", 1)
    assert statuses(stage) == ["dead", "dead", "dead"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["redrive", "no-id"], "ID: is no id"),
        (["discard", "--tenant", "\0"], "--tenant: contains a control character"),
        (["discard", "--destination", "http://x"], "destination_id: is no id"),
        (["discard", "--older-than", "soon"], "older_than: 'soon' is no age"),
        (["redrive", "--all", "--rate", "fast"], "rate: 'fast' is no rate; write 10/s"),
        (["redrive", "--all", "--rate", "0/s"], "rate: '0/s' is no rate"),
        (["resolve", "--all", "--delivered", " "], "resolution_reference: is needed"),
        (["resolve", "--all", "--not-sent", "--note", "a\0"], "note: is needed"),
    ],
)
def test_what_is_refused(run, stage, dead, given, said):
    result = run("dlq", *given, "--reason", "r")
    assert result.stderr.startswith(said)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert statuses(stage) == ["dead", "dead", "dead"]


def test_a_user_without_a_name_still_has_an_actor(run, stage, dead, monkeypatch):
    def nameless():
        raise OSError("No username set in the environment")

    monkeypatch.setattr(getpass, "getuser", nameless)
    run("dlq", "redrive", dead[0].id, "--reason", "fixed")
    ((actor,),) = stage.rows("SELECT actor FROM dead_letters WHERE state = 'redriven'")
    assert actor.startswith("user ")


def test_what_was_confirmed_late_is_settled_and_not_sent_again(run, stage, dead):
    stage.rows(
        f"UPDATE notification_deliveries SET confirmed_late_at = now() WHERE reminder_id = '{dead[2].id}' RETURNING 1"
    )
    assert only(run("dlq", "show", dead[2].id, "--json"))["redrive"]["reason"] == "confirmed_late"
    rehearsed = only(run("dlq", "redrive", dead[2].id, "--checked", "--dry-run", "--json"))
    assert (rehearsed["redriven"], rehearsed["stay"], rehearsed["confirmed_late"]) == (0, 0, [str(dead[2].id)])
    assert statuses(stage) == ["dead", "dead", "dead"]
    result = run("dlq", "redrive", dead[2].id, "--checked", "--reason", "looked")
    assert result.exit_code == 0
    assert "1 ended as delivered: an attempt had reported its success late" in result.stdout
    assert statuses(stage) == ["dead", "dead", "delivered"]

"""`reminders dlq`: reading dead letters and sending their reminders again."""

import getpass
import socket

import pytest

from integration.cli.stage import lines, only
from reminders.domain.outcomes import Rejected, Unknown
from reminders.domain.retry_policy import Bury

GONE = Rejected("http_410", "gone", status_code=410)
UNKNOWN = Unknown("timeout", "no answer", timed_out=True)
LETTER_KEYS = {
    "v", "id", "reminder_id", "delivery_key", "kind", "error_class", "reason", "attempts", "state", "opened_at",
    "closed_at", "actor", "action_reason", "tenant_id", "user_id", "reminder_kind", "channel", "destination_id",
    "reference",
}  # fmt: skip


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


def test_list(run, stage, dead):
    found = lines(run("dlq", "list", "--json"))
    assert [set(each) for each in found] == [LETTER_KEYS] * 3
    assert [(each["reminder_id"], each["kind"], each["tenant_id"], each["attempts"]) for each in found] == [
        (str(dead[0].id), "destination", "acme", 1),
        (str(dead[1].id), "destination", "other", 1),
        (str(dead[2].id), "unknown", "acme", 1),
    ]
    assert len(run("dlq", "list").stdout.splitlines()) == 4


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--tenant", "acme"], [0, 2]),
        (["--kind", "unknown"], [2]),
        (["--channel", "log"], []),
        (["--state", "redriven"], []),
        (["--state", "all", "--limit", "1"], [0]),
    ],
)
def test_list_filters(run, dead, filters, expected):
    found = lines(run("dlq", "list", "--json", *filters))
    assert [each["reminder_id"] for each in found] == [str(dead[number].id) for number in expected]


def test_show_by_the_letters_or_the_reminders_id(run, dead):
    by_reminder = only(run("dlq", "show", dead[0].id, "--json"))
    assert set(by_reminder) == LETTER_KEYS | {"attempts_made"}
    assert by_reminder == only(run("dlq", "show", by_reminder["id"], "--json"))
    assert (by_reminder["error_class"], by_reminder["reason"]) == ("http_410", "gone")
    (attempt,) = by_reminder["attempts_made"]
    assert (attempt["outcome"], attempt["status_code"]) == ("rejected", 410)
    assert "http_410: gone" in run("dlq", "show", dead[0].id).stdout


def test_redrive_by_id_wakes_that_reminder_alone(run, stage, dead):
    result = run("dlq", "redrive", dead[0].id, "--reason", "fixed", "--json")
    assert result.exit_code == 0
    assert only(result) == {"v": 1, "redriven": 1, "stay": 0, "dry_run": False, "reminder_ids": [str(dead[0].id)]}
    assert statuses(stage) == ["pending", "dead", "dead"]
    (letter,) = lines(run("dlq", "list", "--state", "redriven", "--json"))
    assert (letter["actor"], letter["action_reason"]) == (f"{getpass.getuser()}@{socket.gethostname()}", "fixed")
    assert [event["what"] for event in only(run("show", dead[0].id, "--json"))["timeline"]][-1] == "redriven"


def test_redrive_leaves_unknown_outcomes_until_somebody_checked(run, stage, dead):
    result = run("dlq", "redrive", "--tenant", "acme", "--reason", "fixed", "--json")
    assert result.exit_code == 3
    assert only(result) | {"reminder_ids": 0} == {"v": 1, "redriven": 1, "stay": 1, "dry_run": False, "reminder_ids": 0}
    assert statuses(stage) == ["pending", "dead", "dead"]
    checked = run("dlq", "redrive", "--kind", "unknown", "--reason", "looked", "--actor", "kim", "--checked")
    assert (checked.exit_code, checked.stdout) == (0, "1 redriven; 0 that match stay open\n")
    assert statuses(stage) == ["pending", "dead", "pending"]
    assert stage.rows("SELECT actor FROM dead_letters WHERE state <> 'open' ORDER BY closed_at")[1] == ("kim",)


@pytest.mark.parametrize(("more", "would", "stay"), [([], 2, 1), (["--checked"], 3, 0), (["--limit", "1"], 1, 1)])
def test_a_dry_run_says_what_would_be_and_changes_nothing(run, stage, dead, *, more, would, stay):
    before = stage.rows("SELECT * FROM dead_letters, notification_deliveries ORDER BY 1, 2")
    found = only(run("dlq", "redrive", "--all", "--dry-run", "--json", *more))
    assert (found["redriven"], found["stay"], found["dry_run"], len(found["reminder_ids"])) == (
        would,
        stay,
        True,
        would,
    )
    assert statuses(stage) == ["dead", "dead", "dead"]
    assert stage.rows("SELECT * FROM dead_letters, notification_deliveries ORDER BY 1, 2") == before
    assert stage.count("due") == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--reason", "r"], "Name letters, give a filter, or say --all."),
        (["--all"], "Missing option '--reason'."),
        (["--all", "--reason", "r", "--kind", "x"], "'x' is not one of"),
    ],
)
def test_wrong_usage(run, wrong, said):
    result = run("dlq", "redrive", *wrong)
    assert said in result.stderr
    assert result.exit_code == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--all", "--reason", ""], "reason: is needed"),
        (["--all", "--reason", "a\0"], "reason: is needed"),
        (["--all", "--reason", "\udcff"], "reason: is needed"),
        (["--all", "--reason", "r" * 501], "reason: is needed"),
        (["--all", "--reason", "r", "--actor", " "], "actor: is needed"),
        (["no-id", "--reason", "r"], "id: 'no-id' is no id"),
        (["--tenant", "\0", "--reason", "r"], "tenant_id: contains a control character"),
    ],
)
def test_what_is_refused(run, stage, dead, given, said):
    result = run("dlq", "redrive", *given)
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
    assert actor.endswith(f"@{socket.gethostname()}")


def test_what_was_confirmed_late_is_settled_and_not_sent_again(run, stage, dead):
    stage.rows(
        f"UPDATE notification_deliveries SET confirmed_late_at = now() WHERE reminder_id = '{dead[2].id}' RETURNING 1"
    )
    rehearsed = only(run("dlq", "redrive", dead[2].id, "--checked", "--dry-run", "--json"))
    assert (rehearsed["redriven"], rehearsed["stay"]) == (0, 0)
    assert statuses(stage) == ["dead", "dead", "dead"]
    done = only(run("dlq", "redrive", dead[2].id, "--checked", "--reason", "looked", "--json"))
    assert (done["redriven"], done["stay"]) == (0, 0)
    assert statuses(stage) == ["dead", "dead", "delivered"]

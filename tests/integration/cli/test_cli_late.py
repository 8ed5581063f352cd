"""`reminders late`: of everything that can keep a due reminder from being sent, what it says and whose doing that is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.late_plants import PLANTED, breaker, calling, change, no_dispatcher, put_off
from integration.cli.stage import only
from reminders.cli.late import age_in_words
from reminders.domain.late_reasons import LATE_REASONS
from reminders.domain.outcomes import Delivered, Retry
from reminders.domain.retry_policy import Bury, Deliver
from reminders.ledger import overdue
from reminders.ledger.overdue import late

GROUP_KEYS = {
    "tenant_id", "channel", "why", "of", "hold_id", "destination_id", "reminders", "users", "destinations", "oldest_age_seconds", "came",
    "oldest", "whose", "to_do",
}  # fmt: skip


@pytest.fixture(autouse=True)
def scanner(stage):
    """A scanner of the installation has been seen just now."""
    stage.rows("INSERT INTO dispatchers (name, seen_at, claim) VALUES ('main', clock_timestamp(), 30) RETURNING 1")


def test_every_reason_is_planted():
    assert {plant.__name__ for plant in PLANTED} | {"behind_slow"} == set(LATE_REASONS)


@pytest.mark.parametrize("form", [[], ["--tenant", "acme"]], ids=["all", "tenant"])
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_reason(run, stage, plant, form):
    made = stage.schedule()
    stage.schedule(due_at=datetime.now(UTC) + timedelta(seconds=50))
    plant(stage, made, run)
    found = only(run("late", *form, "--json"))
    why = plant.__name__
    assert found["reasons"] == {why: 1}
    (group,) = found["groups"]
    assert set(group) == GROUP_KEYS
    assert (group["why"], group["whose"], group["oldest"], group["tenant_id"], group["channel"]) == (
        why, LATE_REASONS[why].verdict, str(made.id), "acme", "webhook",
    )  # fmt: skip
    assert (group["destination_id"] is not None) == (LATE_REASONS[why].verdict == "them")
    assert found["whose"] == {"us": 0, "them": 0, "wanted": 0, LATE_REASONS[why].verdict: 1}
    assert (found["late"], found["users"], found["at_least"], found["more"]) == (1, 1, False, False)
    told = run("late", *form).stdout
    assert LATE_REASONS[why].words in told
    assert group["to_do"] in told
    assert "None" not in group["to_do"]
    assert only(run("late", "--tenant", "other", "--json"))["late"] == 0


@pytest.mark.parametrize("form", [[], ["--tenant", "acme"]], ids=["all", "tenant"])
def test_what_waits_behind_calls_that_hang_is_theirs_too(run, stage, form):
    hangs, waits = stage.schedule(), stage.schedule()
    calling(stage, hangs, run)
    put_off(stage, waits, run)
    found = only(run("late", *form, "--json"))
    assert found["reasons"] == {"calling": 1, "behind_slow": 1}
    assert found["whose"]["them"] == 2


def test_what_is_being_sent_right_now_is_not_late_nor_is_what_has_ended(run, stage, monkeypatch):
    # A call is slow from its second on: a busy machine may need that to ask.
    monkeypatch.setattr(overdue, "SLOW_AFTER", 60.0)
    made, done = stage.schedule(), stage.schedule()
    stage.deliver(done, Delivered(), Deliver())
    stage.schedule(due_at=datetime.now(UTC) + timedelta(hours=1))
    stage.claim(made)
    assert only(run("late", "--json"))["late"] == 0
    assert run("late").stdout == "late  nothing\n"


def test_what_was_given_up_is_not_late_and_is_named(run, stage):
    stage.deliver(stage.schedule(), Retry("http_503", "busy", 503), Bury("destination"))
    stage.deliver(stage.schedule(tenant_id="zoo"), Retry("http_503", "busy", 503), Bury("destination"))
    assert run("late").stdout == "late      nothing\ngiven up  2 open dead letters: `reminders dlq list`\n"
    found = only(run("late", "--tenant", "zoo", "--json"))
    assert (found["late"], found["dead_letters_open"]) == (0, 1)


def test_while_no_scanner_looks_what_a_destination_said_is_not_the_reason(run, stage):
    breaker(stage, made := stage.schedule(), run)
    change(stage, made, "wake_at = clock_timestamp()")
    no_dispatcher(stage, made, run)
    (group,) = only(run("late", "--json"))["groups"]
    assert (group["why"], group["of"], group["destination_id"]) == ("no_dispatcher", None, None)


def test_who_is_affected(run, stage):
    for _ in range(2):
        stage.schedule(user_id="ada")
    bob = stage.schedule(user_id="bob")
    stage.schedule(user_id="bob", tenant_id="zoo")
    found = only(run("late", "--json"))
    assert (found["late"], found["users"]) == (4, 3)
    assert [(group["tenant_id"], group["reminders"], group["users"]) for group in found["groups"]] == [
        ("acme", 3, 2),
        ("zoo", 1, 1),
    ]
    listed = only(run("late", "--users", "--tenant", "acme", "--json"))["listed_users"]
    assert [(each["user_id"], each["reminders"], each["whys"]) for each in listed] == [
        ("ada", 2, ["not_leased"]), ("bob", 1, ["not_leased"]),
    ]  # fmt: skip
    assert listed[1]["oldest"] == str(bob.id)
    told = run("late", "--users", "--limit", 1)
    assert "ada" in told.stdout
    assert "bob" not in told.stdout
    assert told.stderr == "Only the first 1 are shown; --limit shows more\n"


def ago(stage, made, minutes):
    """As if it had been scheduled long since, and due for so many minutes."""
    stage.rows(
        f"UPDATE reminders SET created_at = created_at - interval '1 day', due_at = clock_timestamp() - interval '{minutes} minutes' "
        f"WHERE id = '{made.id}' RETURNING 1"
    )


@pytest.mark.parametrize(("new", "ended", "trend"), [(4, 0, "growing"), (0, 4, "shrinking"), (2, 2, "steady")])
def test_whether_it_grows(run, stage, new, ended, trend):
    old = [stage.schedule() for _ in range(1 + ended)]
    for made in old:
        ago(stage, made, 10)
    for made in old[1:]:
        stage.deliver(made, Delivered(), Deliver())
    for _ in range(new):
        ago(stage, stage.schedule(), 1)
    found = only(run("late", "--json"))
    assert found["trend"] == {"is": trend, "seconds": 300.0, "before": 1 + ended, "came": new, "went": ended}
    assert found["late"] == 1 + new
    assert 600 <= found["oldest_age_seconds"] < 700
    assert f"{trend}: {1 + ended} were late 5 min ago" in run("late").stdout


@pytest.mark.parametrize("tenant", [None, "acme"])
def test_more_than_is_looked_at_is_told_as_at_least_so_many(stage, tenant):
    for number in range(9):
        ago(stage, stage.schedule(), number)
    looked = late(stage.database, dispatcher="main", scan_every=60.0, lease=60.0, tenant=tenant, most=5)
    assert (looked.at_least, looked.reminders, looked.before) == (True, 5, None)
    # The arrivals are counted by themselves.
    assert looked.came == 9


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.4, "0 s"),
        (119.4, "119 s"),
        (120, "2 min"),
        (7199, "120 min"),
        (7200, "2.0 h"),
        (172800, "2.0 d"),
        (1e7, "115.7 d"),
    ],
)
def test_ages(seconds, words):
    assert age_in_words(seconds) == words


@pytest.mark.parametrize("bad", ["", "\0", "x" * 5000])
def test_a_tenant_that_is_none(run, bad):
    result = run("late", "--tenant", bad)
    assert result.exit_code == 1
    assert result.stderr.startswith("--tenant: ")


def test_a_wrong_limit_is_wrong_usage(run):
    assert run("late", "--limit", 0).exit_code == 2

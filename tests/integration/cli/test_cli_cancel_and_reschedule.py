"""`reminders cancel` and `reminders reschedule`, with their exit codes."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import lines, only
from reminders.cli import cancel as cancel_command
from reminders.cli import session
from reminders.domain.outcomes import Delivered, Retry, Unknown
from reminders.domain.retry_policy import Deliver, Park

UNKNOWN = Unknown("timeout", "no answer", timed_out=True)
FAR = "2031-05-01T09:30:00Z"


def pending(stage):
    return stage.schedule(due_at=datetime.now(UTC) + timedelta(days=1))


def sending(stage):
    reminder = stage.schedule()
    stage.claim(reminder)
    return reminder


def uncertain(stage):
    reminder = stage.schedule()
    stage.deliver(reminder, UNKNOWN, Park(3600.0, "retry"))
    return reminder


def delivered(stage):
    reminder = stage.schedule()
    stage.deliver(reminder, Delivered(), Deliver())
    return reminder


@pytest.mark.parametrize(
    ("state", "result", "code", "status"),
    [
        (pending, "cancelled", 0, "cancelled"),
        (sending, "requested", 3, "sending"),
        (uncertain, "maybe_sent", 3, "dead"),
        (delivered, "too_late", 1, "delivered"),
    ],
)
def test_cancel_answers(run, stage, *, state, result, code, status):
    reminder = state(stage)
    answer = run("cancel", reminder.id, "--json")
    assert answer.exit_code == code
    assert only(answer) == {"v": 1, "id": str(reminder.id), "result": result}
    assert only(run("show", reminder.id, "--json"))["status"] == status
    again = run("cancel", reminder.id)
    assert again.exit_code == code
    assert again.stdout.startswith(f"{reminder.id} {result.replace('_', ' ')}: ")


def test_cancel_of_what_was_suppressed(run, stage):
    reminder = stage.schedule()
    stage.rows(f"WITH d AS (DELETE FROM due WHERE id = '{reminder.id}') "
               f"UPDATE reminders SET status = 'suppressed', suppressed_by = id, suppressed_reason = 'r', finished_at = now() WHERE id = '{reminder.id}' RETURNING 1")  # fmt: skip
    answer = run("cancel", reminder.id, "--json")
    assert (answer.exit_code, answer.stdout) == (1, "")
    assert answer.stderr == f"reminder {reminder.id} is suppressed: nothing is left to cancel\n"


def test_cancel_does_not_wait_for_ever_for_somebodys_transaction(run, stage, monkeypatch):
    monkeypatch.setattr(session, "PATIENCE_MS", 100)
    reminder = pending(stage)
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", [str(reminder.id)])
        answer = run("cancel", reminder.id)
    assert answer.exit_code == 1
    assert answer.stderr.startswith("Another transaction holds what this command needs")
    assert len(answer.stderr.splitlines()) == 2
    assert run("cancel", reminder.id).exit_code == 0


def test_cancel_waits_for_a_transaction_that_ends(run, stage):
    reminder = pending(stage)
    with stage.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", [str(reminder.id)])
        answers = []
        waiting = threading.Thread(target=lambda: answers.append(run("cancel", reminder.id).exit_code))
        waiting.start()
        while not stage.rows("SELECT 1 FROM pg_locks WHERE NOT granted"):
            assert waiting.is_alive()
    waiting.join()
    assert answers == [0]


def test_reschedule_moves_and_raises_the_version(run, stage):
    reminder = pending(stage)
    answer = run("reschedule", reminder.id, "--due-at", "2031-05-01 11:30", "--zone", "Europe/Berlin", "--json")
    found = only(answer)
    assert answer.exit_code == 0
    assert found | {"delivery_key": 0} == {
        "v": 1, "id": str(reminder.id), "status": "pending", "due_at": FAR, "delivery_key": 0, "version": 2,
        "created": False,
    }  # fmt: skip
    assert found["delivery_key"] != reminder.delivery_key
    assert stage.rows("SELECT delivery_key, zone FROM reminders") == [(found["delivery_key"], "Europe/Berlin")]


def test_reschedule_for_people(run, stage):
    reminder = pending(stage)
    shown = run("reschedule", reminder.id, "--due-at", "2031-05-01 11:30", "--zone", "Europe/Berlin").stdout
    assert shown == (f"{reminder.id} rescheduled: pending, due 2031-05-01 09:30:00 UTC (11:30 Europe/Berlin)\n")


def test_reschedule_revives_a_cancelled_one_and_can_set_the_expiry(run, stage):
    reminder = pending(stage)
    run("cancel", reminder.id)
    assert run("reschedule", reminder.id, "--due-at", FAR, "--expires-at", "2031-05-02T00:00Z").exit_code == 0
    found = only(run("show", reminder.id, "--json"))
    assert (found["status"], found["expires_at"]) == ("pending", "2031-05-02T00:00:00Z")
    assert found["timeline"][0]["detail"] == "due 2031-05-01T09:30:00Z; moved since, now version 2"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (sending, "is being sent right now"),
        (uncertain, "may already have been sent"),
        (delivered, "is already delivered"),
    ],
)
def test_reschedule_is_refused(run, stage, state, said):
    reminder = state(stage)
    answer = run("reschedule", reminder.id, "--due-at", FAR)
    assert said in answer.stderr
    assert (answer.exit_code, len(answer.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--due-at", "2031-05-01T09:30"], "--due-at: is a wall time without an offset"),
        (["--due-at", "2031-05-01T09:30", "--zone", "../etc/passwd"], "--zone: '../etc/passwd' is no IANA zone name"),
        (["--due-at", "next week"], "--due-at: 'next week' is no instant"),
        (["--due-at", "9999-01-01T00:00Z"], "--due-at: is in the year 9999"),
        (["--due-at", FAR, "--expires-at", FAR], "--expires-at: must be later than --due-at"),
        (["--due-at", "2021-05-01T09:30Z"], "--due-at: is 2021-05-01T09:30:00Z, over 24 hours ago; --overdue send"),
        (["--due-at", "2h"], "--due-at: '2h' is no instant; write +2h for a time from now, 2026-05-01T09:30"),
    ],
)
def test_reschedule_refuses_bad_times(run, stage, given, said):
    reminder = pending(stage)
    answer = run("reschedule", reminder.id, *given)
    assert answer.stderr.startswith(said)
    assert (answer.exit_code, len(answer.stderr.splitlines())) == (1, 1)
    assert stage.rows("SELECT version FROM reminders") == [(1,)]


def test_reschedule_to_long_ago_by_somebodys_word(run, stage):
    reminder = pending(stage)
    assert run("reschedule", reminder.id, "--due-at", "2021-05-01T09:30Z", "--overdue", "send").exit_code == 0
    assert stage.rows("SELECT version FROM reminders") == [(2,)]


def test_a_parked_retry_can_be_cancelled(run, stage):
    reminder = stage.schedule()
    stage.deliver(reminder, Retry("http_503", "busy", 503), Park(3600.0, "deliver"))
    assert only(run("cancel", reminder.id, "--json"))["result"] == "cancelled"
    assert "nothing more is sent" in run("show", reminder.id).stdout


def test_cancel_of_all_about_something(run, stage):
    made = {
        name: state(stage)
        for name, state in {"sending": sending, "uncertain": uncertain, "delivered": delivered}.items()
    }
    made["pending"] = pending(stage)
    stage.rows("UPDATE reminders SET reference = 'invoice-17', slot = id::text RETURNING 1")
    tried = run("cancel", "--tenant", "acme", "--reference", "invoice-17", "--dry-run", "--json")
    assert tried.exit_code == 3
    assert {line["dry_run"] for line in lines(tried)} == {True}
    assert stage.rows("SELECT count(*) FROM due")[0][0] == 3
    answer = run("cancel", "--tenant", "acme", "--reference", "invoice-17", "--json")
    assert answer.exit_code == 3
    assert {line["id"]: line["result"] for line in lines(answer)} == {
        str(made["pending"].id): "cancelled",
        str(made["sending"].id): "requested",
        str(made["uncertain"].id): "maybe_sent",
        str(made["delivered"].id): "too_late",
    }
    again = run("cancel", "--tenant", "acme", "--reference", "invoice-17")
    assert again.exit_code == 0
    assert again.stdout.splitlines() == [
        f"{made['delivered'].id} too late",
        "0 cancelled, 0 requested, 0 maybe sent, 1 too late",
    ]


def test_cancel_of_many_goes_on_until_none_is_left(run, stage, monkeypatch):
    monkeypatch.setattr(cancel_command, "BATCH", 2)
    for _ in range(5):
        stage.schedule(user_id="ada", due_at=datetime.now(UTC) + timedelta(days=1))
    tried = run("cancel", "--tenant", "acme", "--user", "ada", "--kind", "invoice-due", "--slot", "", "--dry-run")
    assert tried.stdout.splitlines()[-1].startswith("dry run, nothing is changed: 2 cancelled")
    assert "Only the first 2 are shown" in tried.stderr
    answer = run("cancel", "--tenant", "acme", "--user", "ada", "--kind", "invoice-due", "--channel", "webhook")
    assert (answer.exit_code, answer.stdout.splitlines()[-1]) == (
        0,
        "5 cancelled, 0 requested, 0 maybe sent, 0 too late",
    )


@pytest.mark.parametrize(
    "given",
    [[], ["--tenant", "acme"], ["--reference", "r"], ["--tenant", "acme", "--kind", "k"], ["019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b", "--tenant", "acme"],
     ["019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b", "--dry-run"]],
)  # fmt: skip
def test_cancel_wants_an_id_or_enough_to_go_by(run, stage, given):
    reminder = pending(stage)
    answer = run("cancel", *given)
    assert (answer.exit_code, answer.stdout) == (2, "")
    assert stage.rows(f"SELECT status FROM due WHERE id = '{reminder.id}'") == [("pending",)]


def test_snooze_puts_off(run, stage):
    reminder = pending(stage)
    answer = run("snooze", reminder.id, "--by", "2h", "--json")
    assert answer.exit_code == 0
    assert (only(answer)["version"], only(answer)["created"]) == (2, False)
    assert datetime.fromisoformat(only(answer)["due_at"]) == reminder.due_at + timedelta(hours=2)
    shown = run("snooze", reminder.id, "--until", "2031-05-01 11:30", "--zone", "Europe/Berlin").stdout
    assert shown == f"{reminder.id} snoozed: pending, due 2031-05-01 09:30:00 UTC (11:30 Europe/Berlin)\n"


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ([], 2, "Give --until or --by"),
        (["--by", "1h", "--until", FAR], 2, "Give --until or --by"),
        (["--by", "soon"], 1, "--by: 'soon' is no span of time"),
        (["--until", "2031-05-01T09:30"], 1, "--until: is a wall time without an offset"),
        (["--until", "2001-05-01T09:30Z"], 1, "--until: must lie in the future"),
        (["--by", "0s"], 1, "--by: must be later than its --due-at"),
    ],
)
def test_snooze_refuses_bad_times(run, stage, given, code, said):
    reminder = pending(stage)
    answer = run("snooze", reminder.id, *given)
    assert said in answer.stderr
    assert answer.exit_code == code
    assert stage.rows("SELECT version FROM reminders") == [(1,)]


def test_snooze_is_refused_while_it_is_being_sent(run, stage):
    answer = run("snooze", sending(stage).id, "--by", "1h")
    assert (answer.exit_code, "is being sent right now" in answer.stderr) == (1, True)

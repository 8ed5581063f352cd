"""`reminders show` and `reminders list`: what they print, and what they keep to themselves."""

from datetime import UTC, datetime, timedelta

import pytest

from integration.cli.stage import ADDRESS, WORKER, lines, only
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.domain.retry_policy import Bury, Deliver, Park
from reminders.ledger import changing
from reminders.ledger.finalizing import PostgresFinalize

REMINDER_KEYS = {
    "v", "id", "tenant_id", "user_id", "kind", "channel", "reference", "slot", "due_at", "zone", "expires_at", "status",
    "version", "delivery_key", "attempt_count", "last_outcome", "wake_at", "cancel_requested", "created_at", "finished_at",
}  # fmt: skip
SHOW_KEYS = REMINDER_KEYS | {
    "created", "destination_id", "provider_reference", "uncertain_since", "why", "sent", "proof", "attempts", "timeline",
    "hold_id", "hold_reason", "held_at", "template_id", "template", "waits_for", "waits_since", "quiet_until", "suppressed_by", "suppressed_reason",
}  # fmt: skip
ATTEMPT_KEYS = {
    "number", "outcome", "status_code", "at", "provider_reference", "error", "duration_ms", "decision", "worker",
    "delivery_key",
}  # fmt: skip
RETRY = Retry("http_503", "service unavailable", status_code=503)
UNKNOWN = Unknown("timeout", "no answer", timed_out=True)


def whats(found):
    return [event["what"] for event in found["timeline"]]


def test_show_of_a_reminder_that_was_retried_and_delivered(run, stage):
    reminder = stage.schedule()
    stage.deliver(reminder, RETRY, Park(0.0, "deliver"))
    stage.deliver(reminder, Delivered(reference="far-1", status_code=200), Deliver())
    result = run("show", reminder.id, "--json")
    found = only(result)
    assert result.exit_code == 0
    assert set(found) == SHOW_KEYS
    assert (found["v"], found["id"], found["status"], found["version"], found["created"]) == (
        1, str(reminder.id), "delivered", 1, False,
    )  # fmt: skip
    assert (found["attempt_count"], found["provider_reference"]) == (2, "far-1")
    first, second = found["attempts"]
    assert set(first) == set(second) == ATTEMPT_KEYS
    assert first | {"at": 0} == {
        "number": 1, "outcome": "retry", "status_code": 503, "at": 0, "provider_reference": None,
        "error": "http_503: service unavailable", "duration_ms": 12, "decision": "retry in 0.0 s", "worker": WORKER,
        "delivery_key": reminder.delivery_key,
    }  # fmt: skip
    assert (second["number"], second["outcome"], second["error"], second["provider_reference"]) == (
        2, "delivered", None, "far-1",
    )  # fmt: skip
    assert whats(found) == ["scheduled", "attempt", "attempt", "delivered"]
    assert [event["at"] for event in found["timeline"]] == sorted(event["at"] for event in found["timeline"])
    assert found["why"] == "attempt 2 was confirmed with 200"


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_neither_address_nor_data_are_shown(run, stage, form):
    reminder = stage.schedule()
    stage.deliver(reminder, RETRY, Bury("destination"))
    for command in (
        ["show", reminder.id],
        ["list"],
        ["dlq", "list"],
        ["dlq", "show", reminder.id],
        ["destination", "list"],
    ):
        shown = run(*command, *form).output
        assert str(reminder.id)[:8] in shown or command[0] == "destination"
        assert ADDRESS not in shown
        assert "hooks.example" not in shown
        assert "forty-two" not in shown


def test_show_for_people(run, stage):
    reminder = stage.schedule(
        due_at=datetime.fromisoformat("2031-07-01T12:30:15"), zone="Asia/Kolkata", slot="day-before"
    )
    shown = run("show", reminder.id).stdout
    assert "2031-07-01 07:00:15 UTC (12:30:15 Asia/Kolkata)" in shown
    assert "it is not due before 2031-07-01T07:00:15Z" in shown
    assert "day-before" in shown


def why(run, reminder):
    return only(run("show", reminder.id, "--json"))["why"]


def test_why_follows_a_reminder_through_its_states(run, stage):
    reminder = stage.schedule()
    assert why(run, reminder).startswith("it is due since ")
    stage.lease()
    assert why(run, reminder) == "a scan holds it and is about to publish it"
    stage.rows(f"UPDATE due SET status = 'pending', wake_at = clock_timestamp() WHERE id = '{reminder.id}' RETURNING 1")
    stage.publish()
    assert why(run, reminder).startswith("its message waits on queue deliver; if no worker takes it by ")
    stage.rows("UPDATE due SET wake_at = clock_timestamp() RETURNING 1")
    assert why(run, reminder) == "its message was not taken in time; the next scan with room sends another"
    claim = stage.claim(reminder)
    assert why(run, reminder).startswith(f"worker {WORKER} holds claim 1 until ")
    stage.finish(claim, RETRY, Park(3600.0, "deliver"))
    assert why(run, reminder).startswith(
        "attempt 1 ended in retry (http_503: service unavailable); the next one is due 20"
    )


def test_why_of_one_that_no_worker_could_send(run, stage):
    reminder = stage.schedule()
    finalize = PostgresFinalize(stage.database, worker=WORKER)
    assert finalize.release_not_called_if_sending(stage.claim(reminder), 60.0)
    said = (
        "a worker took it and could not send it: `reminders doctor`, or the workers' log, says why; it is taken again "
    )
    assert why(run, reminder).startswith(f"{said}20")
    stage.rows("UPDATE due SET wake_at = clock_timestamp() RETURNING 1")
    assert why(run, reminder) == f"{said}now"
    stage.deliver(reminder, RETRY, Park(3600.0, "deliver"))
    assert why(run, reminder).startswith("attempt 2 ended in retry")


def test_an_open_claim_is_on_the_timeline_with_a_requested_cancel(run, stage):
    reminder = stage.schedule()
    stage.claim(reminder)
    with stage.database.transaction() as connection:
        assert changing.cancel(connection, "reminders", reminder.id) == "requested"
    found = only(run("show", reminder.id, "--json"))
    assert whats(found) == ["scheduled", "claimed", "cancel requested"]
    assert found["cancel_requested"] is True
    assert found["why"].endswith("a cancel is requested, so nothing follows this attempt")


@pytest.mark.parametrize(
    ("outcome", "kind", "advice"),
    [
        (Rejected("http_410", "gone", 410), "destination", "when the destination is in order, `reminders dlq redrive`"),
        (UNKNOWN, "unknown", "`reminders dlq redrive --checked` if it was not"),
        (Rejected("render_failed", "KeyError"), "pipeline", "see the workers' log, then `reminders dlq redrive`"),
    ],
)
def test_why_of_a_dead_one_says_what_to_do(run, stage, outcome, kind, advice):
    reminder = stage.schedule()
    stage.deliver(reminder, outcome, Bury(kind))
    found = only(run("show", reminder.id, "--json"))
    assert found["why"].startswith(f"{kind}: {outcome.error_class}: {outcome.reason}; ")
    assert found["why"].endswith(advice)
    assert whats(found)[:2] == ["scheduled", "attempt"]
    assert sorted(whats(found)[2:]) == ["dead", "dead letter"]


def test_what_a_far_side_says_cannot_steer_the_terminal(run, stage):
    reminder = stage.schedule(reference="[bold]not markup[/bold]")
    stage.deliver(reminder, Retry("http_500", "\x1b[2Jboo\nnext line"), Park(0.0, "deliver"))
    shown = run("show", reminder.id).stdout
    assert "\x1b" not in shown
    assert r"\x1b[2Jboo\nnext line" in shown
    assert "[bold]not markup[/bold]" in shown


@pytest.mark.parametrize("command", ["show", "cancel"])
@pytest.mark.parametrize("bad", ["x", "", "\0", "\udcff", "019a2b3c", "../../etc/passwd", "0" * 33])
def test_what_is_no_id(run, command, bad):
    result = run(command, bad)
    assert result.stderr.startswith("ID: ")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize(
    "command", [["show"], ["cancel"], ["reschedule", "--due-at", "+1h"], ["dlq", "show"], ["destination", "show"]]
)
def test_what_does_not_exist(run, stage, command):
    result = run(*command, "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b")
    assert result.stderr.startswith("there is no ")
    assert (result.exit_code, result.stdout) == (1, "")


def test_list_prints_one_object_a_line_in_the_order_of_scheduling(run, stage):
    made = [stage.schedule() for _ in range(3)]
    stage.deliver(made[0], Delivered(), Deliver())
    found = lines(run("list", "--json"))
    assert [set(each) for each in found] == [REMINDER_KEYS] * 3
    assert [each["id"] for each in found] == [str(each.id) for each in made]
    assert [(each["status"], each["attempt_count"]) for each in found] == [
        ("delivered", 1), ("published", 0), ("published", 0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--tenant", "acme"], {"a", "b"}),
        (["--tenant", "acme", "--user", "zoë"], {"b"}),
        (["--kind", "k2"], {"c"}),
        (["--channel", "log"], {"b"}),
        (["--reference", "c"], {"c"}),
        (["--status", "pending"], {"a", "b"}),
        (["--status", "cancelled"], {"c"}),
        (["--tenant", "nobody"], set()),
    ],
)
def test_list_filters(run, stage, filters, expected):
    far = datetime.now(UTC) + timedelta(days=1)
    stage.schedule(reference="a", due_at=far)
    stage.schedule(reference="b", due_at=far, user_id="zoë", channel="log", destination="x")
    third = stage.schedule(reference="c", due_at=far, kind="k2", tenant_id="other")
    run("cancel", third.id)
    assert {each["reference"] for each in lines(run("list", "--json", *filters))} == expected


def test_list_says_when_there_is_more(run, stage):
    for _ in range(3):
        stage.schedule()
    result = run("list", "--json", "--limit", "2")
    assert len(lines(result)) == 2
    assert result.stderr == "Only the first 2 are shown; --limit shows more\n"
    assert run("list", "--json", "--limit", "3").stderr == ""


def test_list_for_people_is_aligned(run, stage):
    stage.schedule(
        tenant_id="a-rather-long-tenant", due_at=datetime.fromisoformat("2031-01-01T09:00"), zone="Europe/Berlin"
    )
    stage.schedule(tenant_id="b", due_at=datetime(2031, 1, 1, tzinfo=UTC))
    head, first, second = run("list").stdout.splitlines()
    assert first[head.index("due") :].startswith("2031-01-01 08:00:00 UTC (09:00 Europe/Berlin)")
    assert second[head.index("tenant") :].startswith("b ")


@pytest.mark.parametrize("option", ["--tenant", "--user", "--kind", "--channel", "--reference"])
@pytest.mark.parametrize("bad", ["a\0", "\udcff", "", "x" * 600])
def test_filters_are_checked_like_what_is_stored(run, option, bad):
    result = run("list", option, bad)
    assert result.stderr.startswith(f"{option}: ")
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("wrong", [["--status", "gone"], ["--limit", "0"], ["--limit", "many"], ["--colour"]])
def test_wrong_usage(run, wrong):
    assert run("list", *wrong).exit_code == 2

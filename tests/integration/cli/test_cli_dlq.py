"""`reminders dlq list` and `dlq show`: reading dead letters."""

import pytest

from integration.cli.stage import lines, only
from reminders.domain.outcomes import Rejected, Unknown
from reminders.domain.retry_policy import Bury

GONE = Rejected("http_410", "gone", status_code=410)
UNKNOWN = Unknown("timeout", "no answer", timed_out=True)
LETTER_KEYS = {
    "v", "id", "reminder_id", "delivery_key", "kind", "error_class", "reason", "attempts", "state", "opened_at",
    "closed_at", "actor", "host", "action_reason", "checked", "lifted_expiry", "resolution", "resolution_reference", "note",
    "tenant_id", "user_id", "reminder_kind", "channel", "destination_id", "reference",
}  # fmt: skip
WHOLE_KEYS = LETTER_KEYS | {
    "status", "expires_at", "uncertain_since", "cancel_requested", "why", "redrive", "attempts_made", "timeline",
}  # fmt: skip


@pytest.fixture
def dead(stage):
    """Three dead reminders: two refused, of different tenants, and one of unknown outcome."""
    made = [stage.schedule(tenant_id="acme"), stage.schedule(tenant_id="other"), stage.schedule(tenant_id="acme")]
    stage.deliver(made[0], GONE, Bury("destination"))
    stage.deliver(made[1], GONE, Bury("destination"))
    stage.deliver(made[2], UNKNOWN, Bury("unknown"))
    return made


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
        (["--error-class", "timeout"], [2]),
        (["--older-than", "1h"], []),
        (["--newer-than", "1h", "--tenant", "other"], [1]),
    ],
)
def test_list_filters(run, dead, filters, expected):
    found = lines(run("dlq", "list", "--json", *filters))
    assert [each["reminder_id"] for each in found] == [str(dead[number].id) for number in expected]


def test_list_by_ids_and_by_destination(run, stage, dead):
    found = lines(run("dlq", "list", dead[1].id, dead[2].id, "--json"))
    assert [each["reminder_id"] for each in found] == [str(dead[1].id), str(dead[2].id)]
    by_letter = only(run("dlq", "list", found[0]["id"], "--json"))
    assert by_letter == found[0]
    same_place = lines(run("dlq", "list", "--destination", found[1]["destination_id"], "--json"))
    assert [each["reminder_id"] for each in same_place] == [str(dead[0].id), str(dead[2].id)]


def test_more_than_the_limit_is_said(run, dead):
    assert run("dlq", "list", "--limit", "2").stderr == "Only the first 2 are shown; --limit shows more\n"
    assert run("dlq", "list", "--limit", "3").stderr == ""


def test_show_by_the_letters_or_the_reminders_id(run, dead):
    by_reminder = only(run("dlq", "show", dead[0].id, "--json"))
    assert set(by_reminder) == WHOLE_KEYS
    assert by_reminder == only(run("dlq", "show", by_reminder["id"], "--json"))
    assert (by_reminder["error_class"], by_reminder["reason"]) == ("http_410", "gone")
    (attempt,) = by_reminder["attempts_made"]
    assert (attempt["outcome"], attempt["status_code"], attempt["decision"]) == (
        "rejected",
        410,
        "dead letter: destination",
    )
    assert {event["what"] for event in by_reminder["timeline"]} == {"scheduled", "attempt", "dead letter", "dead"}


def test_show_says_why_and_what_a_redrive_would_do(run, stage, dead):
    certain = only(run("dlq", "show", dead[0].id, "--json"))
    assert certain["why"].startswith("destination: http_410: gone; when the destination is in order")
    assert certain["redrive"] is None
    uncertain = only(run("dlq", "show", dead[2].id, "--json"))
    assert uncertain["why"].startswith("unknown: timeout: no answer; find out at the receiver")
    assert uncertain["redrive"]["reason"] == "uncertain"
    assert uncertain["uncertain_since"] is not None
    stage.rows(f"UPDATE reminders SET expires_at = now() WHERE id = '{dead[0].id}' RETURNING 1")
    assert only(run("dlq", "show", dead[0].id, "--json"))["redrive"]["reason"] == "expired"


def test_show_for_people(run, dead):
    shown = run("dlq", "show", dead[2].id).stdout
    assert "unknown: timeout: no answer" in shown
    assert "uncertain: an attempt's outcome is unknown" in shown
    assert "What happened" in shown
    assert "dead letter: unknown" in shown
    assert "would send it again" in run("dlq", "show", dead[0].id).stdout


def test_show_of_a_closed_letter_says_who_closed_it_and_how_it_went_on(run, stage, dead):
    run("dlq", "resolve", dead[2].id, "--delivered", "ticket-7", "--reason", "in their log", "--actor", "kim")
    found = only(run("dlq", "show", dead[2].id, "--json"))
    assert found["why"].startswith("resolved as delivered (ticket-7) by kim on ")
    assert "in their log; the reminder is delivered" in found["why"]
    assert found["redrive"] == {"reason": "delivered", "detail": "it is delivered"}
    run("dlq", "discard", dead[0].id, "--reason", "too old", "--actor", "kim")
    assert only(run("dlq", "show", dead[0].id, "--json"))["why"].endswith(": too old")

"""`reminders twice`, and what `reminders show` gives as proof: what the record of attempts says, and no more."""

from __future__ import annotations

import pytest

from integration.cli.stage import only
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.domain.retry_policy import Bury, Deliver, Park
from reminders.ledger.sendings import sent_again

LOST = Unknown("deadline", "no answer", timed_out=True)
DONE = Delivered(reference="far-1", status_code=200)


def strict(run):
    """From now on nothing of the tenant's is taken to deduplicate."""
    assert run("tenant", "set", "acme", "--on-unknown", "review").exit_code == 0


def sent(stage, *outcomes, **given):
    made = stage.schedule(**given)
    for outcome in outcomes:
        decision = Deliver() if isinstance(outcome, Delivered) else Park(0.0, "deliver")
        stage.deliver(made, outcome, decision)
    return made


def test_a_window_lists_what_can_have_arrived_more_than_once(run, stage):
    sent(stage, DONE)
    sent(stage, Retry("http_503", "busy", 503), DONE)
    again = sent(stage, LOST, DONE)
    result = run("twice", "--json")
    found = only(result)
    assert (result.exit_code, found["verdicts"], found["attempts"], found["keys"], found["complete"]) == (
        0,
        {"deduplicated": 1},
        5,
        3,
        True,
    )
    (told,) = found["reminders"]
    assert (told["reminder_id"], told["user_id"], told["verdict"]) == (str(again.id), "user-3", "deduplicated")
    (key,) = told["sendings"]
    assert (key["confirmed"], key["unknown"], key["calls"], key["deduplicates"], key["provider_reference"]) == (
        1,
        1,
        2,
        True,
        "far-1",
    )
    shown = run("twice").stdout
    assert "5 attempts at 3 keys" in shown
    assert "sent once, if its destination deduplicates on the key" in shown
    assert shown.rstrip().endswith("ask it how often it applied the key.")


def test_nothing_twice(run, stage):
    sent(stage, DONE)
    shown = run("twice", "--since", "1h")
    assert shown.exit_code == 0
    assert "Nothing was called for again after a call that can have arrived." in shown.stdout


def test_where_nothing_deduplicates_two_confirmed_calls_are_two(run, stage):
    strict(run)
    made = sent(stage, DONE)
    # What no pipeline does: a second call after a success.
    stage.rows(
        "INSERT INTO delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision) "
        "SELECT delivery_key, 2, clock_timestamp(), reminder_id, worker, outcome, '', '', '' FROM delivery_attempts RETURNING 1"
    )
    result = run("twice", "--json")
    assert (result.exit_code, only(result)["verdicts"]) == (1, {"twice": 1})
    result = run("twice", made.id)
    assert result.exit_code == 1
    assert "sent twice" in result.stdout


def test_a_redrive_on_somebodys_word_says_whose(run, stage):
    strict(run)
    made = stage.schedule()
    stage.deliver(made, LOST, Bury("unknown"))
    assert only(run("twice", made.id, "--json"))["verdicts"] == {"unknown": 1}
    told = run("dlq", "redrive", made.id, "--checked", "--reason", "asked them", "--actor", "ada")
    assert told.exit_code == 0
    stage.deliver(made, DONE, Deliver())
    (found,) = only(run("twice", made.id, "--json"))["reminders"]
    assert (found["verdict"], found["sendings"][0]["by"]) == ("by_word", "ada")


def test_a_user_sees_all_that_was_sent_to_them(run, stage):
    once = sent(stage, DONE, user_id="ada", reference="order-1")
    refused = stage.schedule(user_id="ada", reference="order-2")
    stage.deliver(refused, Rejected("http_400", "no", 400), Bury("destination"))
    sent(stage, DONE, user_id="eve")
    stage.schedule(user_id="ada", reference="order-3")
    found = only(run("twice", "--tenant", "acme", "--user", "ada", "--json"))
    assert [(each["reminder_id"], each["verdict"]) for each in found["reminders"]] == [
        (str(once.id), "once"), (str(refused.id), "not_sent"),
    ]  # fmt: skip
    assert only(run("twice", "--tenant", "acme", "--user", "ada", "--until", "1h", "--json"))["reminders"] == []


def test_a_window_looks_at_a_tenant_alone_if_asked(run, stage):
    sent(stage, LOST, DONE)
    sent(stage, LOST, DONE, tenant_id="zoo")
    assert only(run("twice", "--tenant", "zoo", "--json"))["verdicts"] == {"deduplicated": 1}


def test_too_many_attempts_are_told(stage):
    first, last = stage.rows("SELECT clock_timestamp() - interval '1 hour', clock_timestamp() + interval '1 hour'")[0]
    sent(stage, LOST, LOST, DONE)
    window, found = sent_again(stage.database, since=first, until=last, most=2)
    assert (window.complete, window.attempts) == (False, 2)
    assert window.since > first
    assert len(found) == 1


def test_show_has_the_proof(run, stage):
    made = sent(stage, LOST, DONE)
    found = only(run("show", made.id, "--json"))
    assert found["sent"] == "deduplicated"
    (proof,) = found["proof"]
    assert (proof["delivery_key"], proof["body_sha256"], proof["provider_reference"]) == (
        made.delivery_key,
        "00" * 32,
        "far-1",
    )
    assert proof["confirmed_at"] == found["attempts"][1]["at"] or proof["confirmed_at"] > found["attempts"][1]["at"]
    shown = run("show", made.id).stdout
    assert "2: 1 confirmed, 1 unknown, 0 surely not arrived" in shown
    assert f"{made.delivery_key} (in a webhook: webhook-id, Idempotency-Key)" in shown


def test_a_call_under_way_may_have_arrived(run, stage):
    made = stage.schedule()
    stage.claim(made)
    found = only(run("show", made.id, "--json"))
    assert (found["sent"], found["proof"][0]["calls"], found["proof"][0]["under_way"]) == ("under_way", 1, True)
    shown = run("show", made.id).stdout
    assert "nobody can tell yet: a call is under way" in shown
    assert "1: 0 confirmed, 0 unknown, 0 surely not arrived, 1 under way" in shown
    assert only(run("twice", made.id, "--json"))["verdicts"] == {"under_way": 1}


def test_what_was_never_called_has_none(run, stage):
    made = stage.schedule()
    found = only(run("show", made.id, "--json"))
    assert (found["sent"], found["proof"]) == ("not_sent", [])
    assert run("twice", made.id).stdout == "No attempt is on record.\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("x",), 1, "ID: 'x' is no id"),
        (("01a2b3c4-4d5e-7f60-8a9b-0c1d2e3f4a5b",), 1, "there is no reminder"),
        (("01a2b3c4-4d5e-7f60-8a9b-0c1d2e3f4a5b", "--tenant", "t"), 2, "Give either an ID"),
        (("--user", "ada"), 2, "--user needs --tenant"),
        (("--since", "yesterday"), 1, "since: "),
        (("--until", "5 o'clock"), 1, "--until: "),
        (("--since", "1h", "--until", "2h"), 1, "since: lies after --until"),
        (("--tenant", ""), 1, "--tenant: "),
    ],
)
def test_what_cannot_be_asked(run, words, code, said):
    result = run("twice", *words)
    assert result.exit_code == code, result.output
    assert said in result.stderr

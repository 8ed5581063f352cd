"""Erasing and purging by tasks: refused unless a setting allows it, on record, and carried on until they are complete."""

import logging

import pytest

from integration.audit.aging import DAY, AgingWorld
from reminders import InvalidInput, erasure_tasks
from reminders.celery import app
from reminders.domain.errors import Refused
from reminders.domain.outcomes import Delivered
from reminders.domain.retry_policy import Deliver

WORD = {"actor": "dpo", "reason": "asked by letter"}
LOGGER = erasure_tasks.logger.name


@pytest.fixture
def allowed(monkeypatch):
    monkeypatch.setenv("REMINDERS_ALLOW_ERASE_TASKS", "yes")


@pytest.fixture
def sent(monkeypatch):
    """What tasks leave to other messages."""
    sent = []
    for task in (erasure_tasks.erase_user, erasure_tasks.purge_older):
        monkeypatch.setattr(task, "apply_async", lambda **options: sent.append(options))
    return sent


@pytest.mark.parametrize(
    ("name", "given"), [("erase", {"tenant": "acme", "user": "ada"}), ("purge_older", {"older_than": "90d"})]
)
def test_it_is_refused_unless_a_setting_allows_it(stage, caplog, name, given):
    stage.schedule(user_id="ada")
    with pytest.raises(Refused, match="REMINDERS_ALLOW_ERASE_TASKS"), caplog.at_level(logging.WARNING, logger=LOGGER):
        app.tasks[f"reminders.{name}"](**WORD, **given)
    assert ": erasing and purging by tasks is not allowed here" in caplog.text
    assert stage.count("erasures") == stage.count("purges") == 0


def test_a_user_is_erased_and_the_log_does_not_say_who(stage, allowed, run, sent):
    # A name of letters up to f alone may be in the token by chance.
    stage.deliver(stage.schedule(user_id="anna"), Delivered("far-1"), Deliver())
    answer, line = run("erase", tenant="acme", user="anna")
    assert (answer["complete"], answer["touched"]["reminders"], sent) == (True, 1, [])
    assert line.startswith(f"erasure.done user={answer['user_token']} touched=")
    assert "anna" not in line


def test_what_is_being_sent_is_waited_for_by_another_message(stage, allowed, run, sent):
    made = stage.schedule(user_id="ada")
    stage.claim(made)
    answer, line = run("erase", tenant="acme", user="ada")
    assert (answer["complete"], "being_sent=1" in line) == (False, True)
    ((options,),) = [sent]
    assert options == {
        "kwargs": {"tenant": "acme", "user": "ada", **WORD, "turn": 2},
        "countdown": erasure_tasks.AGAIN_AFTER,
    }
    run("erase", tenant="acme", user="ada", turn=erasure_tasks.MOST_TURNS)
    assert len(sent) == 1


def test_addresses_are_named_in_the_next_message_too(stage, allowed, run, sent):
    stage.claim(stage.schedule(user_id="ada"))
    named = {"addresses": ["old@x.example"], "channel": "log"}
    answer, line = run("erase", tenant="acme", user="ada", **named)
    assert (answer["complete"], "old@" in line) == (False, False)
    assert sent[0]["kwargs"] == {"tenant": "acme", "user": "ada", **WORD, **named, "turn": 2}
    for wrong in ({"addresses": "old@x.example"}, {"addresses": [7]}, {"channel": "log"}):
        with pytest.raises(InvalidInput):
            app.tasks["reminders.erase"](**WORD, tenant="acme", user="ada", **wrong)


def test_a_purge_goes_by_the_age_it_is_given(stage, allowed, run, sent, database):
    stage.deliver(stage.schedule(), Delivered("far-1"), Deliver())
    AgingWorld(database).age(15 * DAY)
    assert run("purge_older", older_than="16d")[0] == {"purged": 0, "marked": 0, "complete": True}
    answer, line = run("purge_older", older_than="14d")
    assert (answer["marked"], line, sent) == (1, "purge.asked purged=0 marked=1 complete=True actor=dpo", [])
    for wrong in ("90", 90, "an age", "6d"):
        with pytest.raises(InvalidInput):
            app.tasks["reminders.purge_older"](**WORD, older_than=wrong)


def test_what_is_left_when_the_time_is_over_is_another_messages(stage, allowed, run, sent, monkeypatch):
    monkeypatch.setattr(erasure_tasks, "SECONDS", 0.0)
    stage.deliver(stage.schedule(user_id="ada"), Delivered("far-1"), Deliver())
    assert not run("erase", tenant="acme", user="ada")[0]["complete"]
    assert not run("purge_older", older_than="14d")[0]["complete"]
    assert [each.get("countdown") for each in sent] == [None, None]


def test_both_go_to_maintenance_and_end_before_a_task_there_must(stage):
    for name in ("reminders.erase", "reminders.purge_older"):
        assert app.amqp.router.route({}, name)["queue"].name == "maintenance"
    assert erasure_tasks.SECONDS + 5 < 30

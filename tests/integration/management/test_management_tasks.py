"""The tasks by which operators decide about dead letters over the broker: the same as the commands, and as careful."""

import logging
import socket

import pytest
from celery.exceptions import Retry

from reminders import InvalidInput, bootstrap, management_tasks
from reminders.celery import app
from reminders.domain.outcomes import Rejected, Unknown
from reminders.domain.retry_policy import Bury

GONE = Rejected("http_410", "gone", status_code=410)
UNKNOWN = Unknown("timeout", "no answer", timed_out=True)
WORD = {"actor": "ada", "reason": "fixed"}
NAMES = ("reminders.redrive_dead_letters", "reminders.discard_dead_letters", "reminders.resolve_dead_letters")


@pytest.fixture
def dead(stage):
    """One that was refused, one of unknown outcome."""
    made = [stage.schedule(), stage.schedule(tenant_id="other")]
    stage.deliver(made[0], GONE, Bury("destination"))
    stage.deliver(made[1], UNKNOWN, Bury("unknown"))
    return made


def statuses(stage):
    return [row[0] for row in stage.rows("SELECT status FROM reminders_v1 ORDER BY id")]


def run(name, **given):
    """As a worker runs it."""
    return app.tasks[f"reminders.{name}_dead_letters"](**given)


def test_redrive(stage, dead):
    answer = run("redrive", **WORD, tenant="acme", rate="5/m")
    assert (answer["redriven"], answer["reminder_ids"], answer["stay"]) == (1, [str(dead[0].id)], 0)
    assert statuses(stage) == ["pending", "dead"]
    closed = stage.rows("SELECT actor, host, action_reason FROM dead_letters WHERE state = 'redriven'")
    assert closed == [("ada", socket.gethostname(), "fixed")]


def test_redrive_says_why_something_stays(stage, dead):
    answer = run("redrive", **WORD, ids=[str(each.id) for each in dead])
    assert [(each["id"], each["reason"]) for each in answer["refused"]] == [(str(dead[1].id), "uncertain")]
    assert run("redrive", **WORD, ids=[str(dead[1].id)], checked=True)["redriven"] == 1
    assert statuses(stage) == ["pending", "pending"]


def test_discard(stage, dead):
    assert run("discard", **WORD, kind="unknown")["discarded"] == 1
    assert stage.rows("SELECT state FROM dead_letters ORDER BY opened_at") == [("open",), ("discarded",)]


def test_resolve(stage, dead):
    first, second = ([str(each.id)] for each in dead)
    assert run("resolve", **WORD, resolution="not_sent", note="asked", ids=second)["resolved"] == 1
    assert run("resolve", **WORD, resolution="delivered", reference="ticket-7", ids=first)["resolved"] == 1
    assert statuses(stage) == ["delivered", "dead"]


def test_a_dry_run_changes_nothing(stage, dead):
    assert run("redrive", **WORD, everything=True, dry_run=True)["redriven"] == 1
    assert run("discard", **WORD, everything=True, dry_run=True)["discarded"] == 2
    assert statuses(stage) == ["dead", "dead"]


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (WORD, InvalidInput),
        ({**WORD, "everything": "false"}, InvalidInput),
        ({**WORD, "ids": ["x"]}, InvalidInput),
        ({**WORD, "tenent": "acme"}, InvalidInput),
        ({**WORD, "everything": True, "tenent": "acme"}, InvalidInput),
        ({"actor": "ada", "everything": True}, InvalidInput),
        ({"reason": "fixed", "everything": True}, InvalidInput),
        ({"actor": "", "reason": "fixed", "everything": True}, InvalidInput),
    ],
    ids=str,
)
def test_what_is_not_said_plainly_is_not_done(stage, dead, given, fault):
    for name, more in (("redrive", {}), ("discard", {}), ("resolve", {"resolution": "not_sent"})):
        with pytest.raises(fault):
            run(name, **given, **more)
    assert stage.rows("SELECT DISTINCT state FROM dead_letters") == [("open",)]


def test_what_is_logged_names_who_and_how_many(stage, dead, caplog):
    with caplog.at_level(logging.INFO, logger="reminders.management_tasks"):
        run("redrive", **WORD, everything=True)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "reminders.management_tasks"]
    assert line == "review.closed how=redriven count=1 confirmed_late=0 stay=1 dry_run=False actor=ada"


def test_what_is_refused_is_logged_in_one_line(stage, dead, caplog):
    with pytest.raises(InvalidInput):
        run("discard", **WORD, tenent="acme")
    (record,) = [each for each in caplog.records if each.name == "reminders.management_tasks"]
    assert record.getMessage().startswith(
        "task.refused about=review action=discard: tenent: is no filter; there are ids, tenant, kind"
    )
    assert record.exc_info is None


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_that_dies_does_not_have_the_word_said_again(name):
    assert app.tasks[name].acks_late is False
    assert app.amqp.router.route({}, name)["queue"].name == "maintenance"


def test_a_database_that_is_away_is_tried_again(stage, dead, monkeypatch):
    def away(*_, **__):
        raise bootstrap.DATABASE_FAULTS[0]("gone")

    monkeypatch.setattr(management_tasks, "redrive", away)
    task = app.tasks["reminders.redrive_dead_letters"]
    monkeypatch.setattr(task, "retry", lambda exc, **_: Retry(exc=exc))
    with pytest.raises(Retry):
        task.run(**WORD, everything=True)


@pytest.mark.parametrize("name", ["checked", "ignore_expiry", "dry_run"])
def test_what_is_neither_true_nor_false_is_no_word(stage, dead, name):
    with pytest.raises(InvalidInput, match=f"^{name}: must be True or False"):
        run("redrive", **WORD, everything=True, **{name: "false"})
    assert statuses(stage) == ["dead", "dead"]


@pytest.mark.parametrize(
    ("name", "given"), [("discard", {"dry_run": "no"}), ("resolve", {"dry_run": "no", "resolution": "not_sent"})]
)
def test_nor_of_a_dry_run_of_the_others(stage, dead, name, given):
    with pytest.raises(InvalidInput, match=r"^dry_run: must be True or False"):
        run(name, **WORD, everything=True, **given)
    assert statuses(stage) == ["dead", "dead"]


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [("redrive", {"ids": 5}, "ids"), ("resolve", {"resolution": ["delivered"], "everything": True}, "resolution")],
)
def test_what_is_of_another_type_is_refused_by_its_name(stage, dead, name, given, field):
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        run(name, **WORD, **given)

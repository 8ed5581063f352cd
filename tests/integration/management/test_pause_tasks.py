"""The tasks by which operators pause and resume over the broker: the same as the commands, and as careful."""

import json
import logging
from datetime import UTC, datetime

import pytest

from reminders import InvalidInput, management_tasks
from reminders.celery import app
from reminders.ledger.pausing import pauses

WORD = {"actor": "ada", "reason": "moving"}


def run(name, **given):
    """As a worker runs it: the answer must be fit for a message."""
    answer = app.tasks[f"reminders.{name}"](**given)
    return json.loads(json.dumps(answer))


def test_pause_and_resume(stage, caplog):
    stage.schedule()
    with caplog.at_level(logging.INFO, logger=management_tasks.logger.name):
        said = run("pause", **WORD, tenant="acme")
        assert stage.lease()[0] == []
        ended = run("resume", **WORD, ids=[said["id"]], rate="5/s")
    assert (said["tenant_id"], said["created"], said["open_claims"], said["actor"]) == ("acme", True, 0, "ada")
    assert [(each["id"], each["held"], each["rate"], each["ended_reason"]) for each in ended["resumed"]] == [
        (said["id"], 1, 5.0, "moving")
    ]
    told = [each.getMessage() for each in caplog.records if each.name == management_tasks.logger.name]
    assert told == [f"hold.paused id={said['id']} open_claims=0 actor=ada", "hold.resumed count=1 held=1 actor=ada"]


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        ("pause", WORD, InvalidInput),
        ("pause", {**WORD, "everything": "yes"}, InvalidInput),
        ("pause", {**WORD, "tenent": "acme"}, InvalidInput),
        ("pause", {**WORD, "everything": True, "tenant": "acme"}, InvalidInput),
        ("pause", {**WORD, "destination": "https://x.example"}, InvalidInput),
        ("pause", {"actor": "ada", "everything": True}, InvalidInput),
        ("pause", {"reason": "r", "everything": True}, InvalidInput),
        ("pause", {"actor": "", "reason": "r", "everything": True}, InvalidInput),
        ("resume", WORD, InvalidInput),
        ("resume", {**WORD, "ids": []}, InvalidInput),
        ("resume", {**WORD, "ids": "x"}, InvalidInput),
        ("resume", {**WORD, "ids": [7]}, InvalidInput),
        ("resume", {"actor": "ada", "ids": []}, InvalidInput),
    ],
    ids=str,
)
def test_what_is_not_said_plainly_is_not_done(stage, name, given, fault):
    with pytest.raises(fault):
        run(name, **given)
    assert pauses(stage.database, ended=True) == []


def test_a_refusal_is_one_line(stage, caplog):
    with pytest.raises(InvalidInput):
        run("pause", **WORD, tenent="acme")
    (record,) = [each for each in caplog.records if each.name == management_tasks.logger.name]
    assert (
        record.getMessage()
        == "task.refused about=hold action=pause: tenent: is no filter; there are tenant, channel, kind, destination"
    )


@pytest.mark.parametrize("name", ["reminders.pause", "reminders.resume"])
def test_a_worker_that_dies_does_not_have_the_word_said_again(name):
    assert app.tasks[name].acks_late is False
    assert app.amqp.router.route({}, name)["queue"].name == "maintenance"


def test_open_claims_and_when_they_end_are_told(stage):
    stage.claim(stage.schedule())
    said = run("pause", **WORD, tenant="acme")
    assert said["open_claims"] == 1
    assert datetime.fromisoformat(said["claims_end_at"]) > datetime.now(UTC)
    assert run("pause", **WORD, tenant="nobody")["claims_end_at"] is None


@pytest.mark.parametrize(
    ("scope", "unknown"),
    [
        ({"tenant": "acme", "channel": "webhook"}, []),
        ({"channel": "nochannel"}, ["channel"]),
        ({"tenant": "acne", "kind": "nokind"}, ["kind", "tenant"]),
        ({"destination": "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"}, ["destination"]),
        ({"everything": True}, []),
    ],
    ids=str,
)
def test_what_the_ledger_does_not_know_is_told(stage, caplog, scope, unknown):
    stage.schedule()
    assert sorted(run("pause", **WORD, **scope)["unknown"]) == unknown
    if "kind" not in scope and len(scope) == 1 and "everything" not in scope:
        assert run("rate_set", **WORD, **scope, per_second=1.0)["unknown"] == unknown
    told = [each.getMessage() for each in caplog.records if each.getMessage().startswith("hold.scope_unknown")]
    assert all(
        each.startswith(f"hold.scope_unknown unknown={','.join(unknown)[:4]}") for each in told if len(unknown) == 1
    )
    assert bool(told) == bool(unknown)


def test_a_reminders_id_is_no_destination(stage):
    made = stage.schedule()
    place = stage.rows("SELECT destination_id::text FROM reminders")[0][0]
    for name, more in (("pause", {}), ("rate_set", {"per_second": 1.0}), ("drain", {"rate": "1/s"})):
        with pytest.raises(InvalidInput, match=f"is the id of a reminder, which goes to destination {place}"):
            run(name, **WORD, destination=str(made.id), **more)
    assert pauses(stage.database, ended=True) == []
    assert run("drain", **WORD, tenant="acne", rate="1/s")["unknown"] == ["tenant"]
    assert run("drain", **WORD, destination=place, rate="1/s")["unknown"] == []

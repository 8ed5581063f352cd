"""The tasks by which operators cancel, close and open, and tick off: the same as the commands, and as careful."""

import logging
from datetime import timedelta
from uuid import uuid4

import pytest

from reminders import InvalidInput, upkeep_tasks
from reminders.celery import app
from reminders.domain.errors import NotFound, Refused
from reminders.domain.outcomes import Blocked, Rejected
from reminders.domain.retry_policy import Bury, Wait
from reminders.ledger.destinations import matching
from reminders.ledger.notices import notices
from reminders.ledger.noticing import look_for_news

WORD = {"actor": "ada", "reason": "moving"}
LOGGER = upkeep_tasks.logger.name
ADDRESS = "https://example.com/of/anna"


def place(stage):
    (found,) = matching(stage.database, tenant=None, channel=None, limit=2)
    return found


def test_reminders_are_cancelled_each_by_itself(stage, run):
    made, other = stage.schedule(), stage.schedule()
    nobody = str(uuid4())
    answer, line = run("cancel", ids=[str(made.id), nobody, str(made.id)])
    assert answer == {
        "counts": {"cancelled": 1, "not_found": 1},
        "answers": {str(made.id): "cancelled", nobody: "not_found"},
    }
    assert line.startswith("cancel.asked count=2 actor=ada reason=moving: ")
    assert stage.rows("SELECT status FROM reminders_v1 ORDER BY id") == [("cancelled",), ("pending",)]
    assert other.status == "pending"


def test_a_destination_is_disabled_enabled_and_released(stage, run):
    made = stage.schedule()
    stage.deliver(made, Blocked("destination", timedelta(minutes=10), "http_429", "wait", 429), Wait(600.0, 3600.0))
    known = str(place(stage).id)
    answer, line = run("destination_release", destination=known)
    assert (answer["id"], answer["was_held"], answer["woken"]) == (known, True, 1)
    assert line == f"destination.released id={known} woken=1 actor=ada reason=moving"
    answer, line = run("destination_disable", destination=known)
    assert (answer, line) == ({"id": known, "disabled": True}, f"destination.disabled id={known} actor=ada")
    assert place(stage).disabled_reason == "moving"
    answer, line = run("destination_enable", destination=known)
    assert (answer, line) == ({"id": known, "disabled": False}, f"destination.enabled id={known} actor=ada")
    with pytest.raises(Refused):
        run("destination_enable", destination=known)


def test_a_channel_is_released(stage, run):
    stage.deliver(
        stage.schedule(), Blocked("provider", timedelta(minutes=10), "credentials", "refused", 401), Wait(600.0, 3600.0)
    )
    answer, line = run("channel_release", tenant="acme", channel="webhook")
    assert (answer["was_held"], answer["woken"]) == (True, 1)
    assert line == "channel.released tenant=acme channel=webhook woken=1 actor=ada reason=moving"


def test_notices_are_ticked_off(stage, run):
    stage.deliver(stage.schedule(), Rejected("http_400", "no", 400), Bury("destination"))
    look_for_news(stage.database, silence=None)
    (told,) = notices(stage.database)
    answer, line = run("notices_seen", ids=[str(told.id)])
    assert (answer, line) == ({"seen": 1}, "notice.seen count=1 actor=ada reason=moving")
    assert run("notices_seen", everything=True)[0] == {"seen": 0}
    assert run("notices_seen", tenant="acme")[0] == {"seen": 0}
    assert notices(stage.database) == []


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        ("cancel", {"ids": []}, InvalidInput),
        ("cancel", {"ids": ADDRESS}, InvalidInput),
        ("cancel", {"ids": [ADDRESS]}, InvalidInput),
        ("cancel", {"ids": [str(uuid4()) for _ in range(1001)]}, InvalidInput),
        ("cancel", {"ids": [str(uuid4())], "actor": " "}, InvalidInput),
        ("destination_disable", {"destination": ADDRESS}, InvalidInput),
        ("destination_disable", {"destination": 7}, InvalidInput),
        ("destination_disable", {"destination": str(uuid4())}, NotFound),
        ("destination_enable", {"destination": ADDRESS}, InvalidInput),
        ("destination_release", {"destination": ADDRESS}, InvalidInput),
        ("channel_release", {"tenant": "", "channel": "log"}, InvalidInput),
        ("channel_release", {"tenant": "acme", "channel": ADDRESS}, InvalidInput),
        ("notices_seen", {}, InvalidInput),
        ("notices_seen", {"everything": True, "tenant": "acme"}, InvalidInput),
        ("notices_seen", {"everything": "yes"}, InvalidInput),
        ("notices_seen", {"ids": [str(uuid4())]}, NotFound),
        ("pause", {"destination": ADDRESS}, InvalidInput),
        ("rate_set", {"destination": ADDRESS, "per_second": 1}, InvalidInput),
        ("drain", {"destination": ADDRESS, "rate": "1/s"}, InvalidInput),
        ("redrive_dead_letters", {"destination": ADDRESS}, InvalidInput),
        ("redrive_dead_letters", {"ids": [ADDRESS]}, InvalidInput),
        ("resume", {"ids": [ADDRESS]}, InvalidInput),
        ("shadow_release", {"ids": [ADDRESS]}, InvalidInput),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_is_not_said_plainly_is_refused_in_one_line_that_repeats_no_address(stage, caplog, name, given, fault):
    with caplog.at_level(logging.INFO), pytest.raises(fault) as refused:
        app.tasks[f"reminders.{name}"](**{**WORD, **given})
    lines = [each.getMessage() for each in caplog.records if "task.refused" in each.getMessage()]
    assert len(lines) == 1
    assert "anna" not in lines[0] + str(refused.value) + repr(refused.value)


@pytest.mark.parametrize(
    "name",
    ["cancel", "destination_disable", "destination_enable", "destination_release", "channel_release", "notices_seen"],
)
def test_each_needs_who_and_why_and_is_not_said_again_when_its_worker_dies(stage, name):
    task = app.tasks[f"reminders.{name}"]
    for given in ({"actor": "ada"}, {"reason": "r"}):
        with pytest.raises(InvalidInput, match=r"actor|reason"):
            task(**given)
    assert task.acks_late is False
    assert app.amqp.router.route({}, task.name)["queue"].name == "maintenance"


def test_what_nobody_expected_is_told_without_its_text(stage, monkeypatch, caplog):
    def raising(*_, **__):
        raise ValueError(ADDRESS)

    monkeypatch.setattr(upkeep_tasks.notices, "see", raising)
    with (
        caplog.at_level(logging.INFO),
        pytest.raises(Exception, match=r"^ValueError; the worker's log says where$") as failed,
    ):
        app.tasks["reminders.notices_seen"](**WORD, everything=True)
    assert failed.value.__cause__ is None
    (line,) = [each.getMessage() for each in caplog.records if "task.failed" in each.getMessage()]
    assert line.startswith("task.failed task=reminders.notices_seen: ValueError\n")
    assert "anna" not in line

"""The tasks by which operators cap, drain, shadow and hand over: the same as the commands, and as careful."""

import logging

import pytest

from reminders import InvalidInput, control_tasks
from reminders.celery import app
from reminders.domain.errors import NotFound
from reminders.ledger.draining import drains
from reminders.ledger.rates import rates
from reminders.ledger.tenant_standing import standing

WORD = {"actor": "ada", "reason": "moving"}
LOGGER = control_tasks.logger.name


def test_a_cap_is_set_listed_and_removed(stage, run):
    stage.schedule()
    made, line = run("rate_set", tenant="acme", per_second=5, burst=2, concurrent=3)
    assert (made["tenant_id"], made["per_second"], made["burst"], made["concurrent"]) == ("acme", 5.0, 2, 3)
    assert line == f"rate.set id={made['id']} waiting=0 actor=ada"
    listed, line = run("rate_list")
    assert ([each["id"] for each in listed["rates"]], line) == ([made["id"]], "rate.listed count=1 waiting=0 actor=ada")
    ended, line = run("rate_remove", tenant="acme")
    assert (ended["removed_by"], ended["removed_reason"]) == ("ada", "moving")
    assert line == f"rate.removed id={made['id']} waiting=0 actor=ada"
    assert run("rate_list")[0]["rates"] == []
    assert [each["id"] for each in run("rate_list", removed=True)[0]["rates"]] == [made["id"]]


def test_a_drain_begins_and_is_stopped(stage, run):
    stage.schedule()
    begun, line = run("drain", tenant="acme", rate="5/s")
    assert (begun["tenant_id"], begun["rate"], begun["created"], begun["left"]) == ("acme", 5.0, True, 1)
    assert line == f"hold.draining id={begun['id']} left=1 created=True actor=ada"
    stopped, line = run("drain", tenant="acme", stop=True)
    assert stopped["stopped_at"] is not None
    assert line == f"hold.drain_stopped id={begun['id']} left={stopped['left']} actor=ada"


def test_a_tenant_goes_to_shadow_is_handed_over_and_what_was_shadowed_is_released(stage, run):
    made = stage.schedule()
    moved, line = run("tenant_mode", tenant="acme", mode="shadow")
    assert (moved["mode"], moved["tenants"], moved["changed"], moved["open_claims"]) == (
        "shadow",
        ["acme"],
        {"acme": "live"},
        0,
    )
    assert line == "tenant.mode_set mode=shadow tenants=1 changed=1 open_claims=0 actor=ada"
    refused, line = run("shadow_release", ids=[str(made.id)])
    assert refused["released"] == []
    assert [each["id"] for each in refused["refused"]] == [str(made.id)]
    assert line == "shadow.released count=0 refused=1 actor=ada"
    given, line = run("handover", tenant="acme", to="green")
    assert (given["dispatcher"], given["changed"], given["woken"]) == ("green", {"acme": "main"}, 0)
    assert line == "tenant.handed_over tenants=1 changed=1 open_claims=0 actor=ada"
    ((tenant, mode, dispatcher),) = [
        (each.tenant_id, each.mode, each.dispatcher) for each in standing(stage.database, tenant=None, limit=9)
    ]
    assert (tenant, mode, dispatcher) == ("acme", "shadow", "green")
    stage.rows(
        "DELETE FROM reminders.due; UPDATE reminders.reminders SET status = 'shadowed', finished_at = now(), due_at = now() RETURNING id"
    )
    run("tenant_mode", tenant="acme", mode="live")
    released, line = run("shadow_release", ids=[str(made.id)])
    assert [(each["id"], each["version"]) for each in released["released"]] == [(str(made.id), 2)]
    assert line == "shadow.released count=1 refused=0 actor=ada"


@pytest.mark.parametrize(
    ("name", "given", "fault"),
    [
        ("rate_set", {"tenant": "acme"}, InvalidInput),
        ("rate_set", {"tenent": "acme", "per_second": 1}, InvalidInput),
        ("rate_set", {"per_second": 1}, InvalidInput),
        ("rate_set", {"tenant": "acme", "per_second": "1"}, InvalidInput),
        ("rate_set", {"tenant": "acme", "per_second": True}, InvalidInput),
        ("rate_set", {"tenant": "acme", "concurrent": 1.5}, InvalidInput),
        ("rate_set", {"tenant": "acme", "channel": "log", "per_second": 1}, InvalidInput),
        ("rate_set", {"tenant": "acme", "per_second": 1, "actor": ""}, InvalidInput),
        ("rate_remove", {"tenant": "acme"}, NotFound),
        ("rate_remove", {}, InvalidInput),
        ("rate_list", {"limit": 0}, InvalidInput),
        ("rate_list", {"limit": "9"}, InvalidInput),
        ("rate_list", {"limit": 10**30}, InvalidInput),
        ("drain", {"tenant": "acme"}, InvalidInput),
        ("drain", {"tenant": "acme", "rate": "5/s", "stop": True}, InvalidInput),
        ("drain", {"rate": "5/s"}, InvalidInput),
        ("drain", {"rate": "5/s", "channel": "log"}, InvalidInput),
        ("drain", {"rate": "5/s", "everything": "yes"}, InvalidInput),
        ("drain", {"tenant": "acme", "stop": True}, NotFound),
        ("tenant_mode", {"mode": "shadow"}, InvalidInput),
        ("tenant_mode", {"mode": "dark", "tenant": "acme"}, InvalidInput),
        ("tenant_mode", {"mode": "off", "tenant": "acme", "rate": "5/s"}, InvalidInput),
        ("tenant_mode", {"mode": "off", "tenant": "acme", "cohort": "early"}, InvalidInput),
        ("tenant_mode", {"mode": "off", "cohort": "early"}, NotFound),
        ("tenant_mode", {"mode": "off", "cohort": 5}, InvalidInput),
        ("handover", {"to": "green"}, InvalidInput),
        ("handover", {"to": 7, "tenant": "acme"}, InvalidInput),
        ("handover", {"to": "no name", "tenant": "acme"}, InvalidInput),
        ("handover", {"to": "green", "cohort": []}, InvalidInput),
        ("handover", {"to": "green", "everything": True, "tenant": "acme"}, InvalidInput),
        ("handover", {"to": "green", "everything": "yes"}, InvalidInput),
        ("shadow_release", {"ids": []}, InvalidInput),
        ("shadow_release", {"ids": "x"}, InvalidInput),
    ],
    ids=str,
)
def test_what_is_not_said_plainly_is_not_done_and_logged_in_one_line(stage, caplog, name, given, fault):
    with caplog.at_level(logging.INFO, logger=LOGGER), pytest.raises(fault):
        app.tasks[f"reminders.{name}"](**{**WORD, **given})
    (line,) = [each.getMessage() for each in caplog.records if each.name == LOGGER]
    assert line.startswith("task.refused about=")
    assert rates(stage.database, removed=True) == []
    assert drains(stage.database) == []
    assert standing(stage.database, tenant=None, limit=9) == []


NAMES = ["rate_set", "rate_list", "rate_remove", "drain", "tenant_mode", "handover", "shadow_release"]


@pytest.mark.parametrize("name", NAMES)
def test_each_needs_who_and_why_and_is_not_said_again_when_its_worker_dies(stage, name):
    task = app.tasks[f"reminders.{name}"]
    for given in ({"actor": "ada"}, {"reason": "r"}):
        with pytest.raises(InvalidInput, match=r"actor|reason"):
            task(**given)
    assert task.acks_late is False
    assert app.amqp.router.route({}, task.name)["queue"].name == "maintenance"


@pytest.mark.parametrize(
    ("name", "given", "field"),
    [
        ("drain", {"rate": "5/s", "stop": "yes", "tenant": "acme"}, "stop"),
        ("tenant_mode", {"cohort": 5, "mode": "off"}, "cohort"),
        ("rate_list", {"limit": 10**20}, "limit"),
    ],
)
def test_what_is_of_another_type_is_refused_by_its_name(stage, name, given, field):
    with pytest.raises(InvalidInput, match=f"^{field}: "):
        app.tasks[f"reminders.{name}"](actor="ada", reason="r", **given)

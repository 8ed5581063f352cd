"""An operator decides through Flower's API: with the password only, refused in plain words, and without showing arguments."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.harness import Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from held_ports import held_port

AUTH = "operator:long-enough"
WORD = {"actor": "ada", "reason": "the receiver moves"}


class Flower:
    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, body: dict[str, Any] | None = None, auth: str | None = AUTH) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data)
        if auth is not None:
            request.add_header("Authorization", "Basic " + b64encode(auth.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, None
        except OSError:
            return 0, None

    def do(self, task: str, **given: Any) -> dict[str, Any]:
        """What became of a task, once it has ended."""
        code, sent = self.ask(f"/api/task/async-apply/reminders.{task}", {"kwargs": given})
        assert code == 200

        def told() -> Any:
            found = self.ask(f"/api/task/info/{sent['task-id']}")[1]
            return found if found and found["state"] in {"SUCCESS", "FAILURE"} else None

        shown = wait_until(told, 30, f"{task} has ended")
        assert isinstance(shown, dict)
        assert (shown["args"], shown["kwargs"]) == ("-", "-")
        return shown


def heard(flower: Flower) -> bool:
    flower.ask("/api/task/async-apply/reminders.rate_list", {"kwargs": WORD})
    return any(each["state"] == "SUCCESS" for each in (flower.ask("/api/tasks")[1] or {}).values())


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as port:
        yield port


@pytest.fixture
def stack(home: Path, port: int) -> Iterator[Stack]:
    with installation(home, PORT=str(port), REMINDERS_FLOWER_AUTH=AUTH) as stack:
        stack.start("web", "maintenance")
        yield stack


@pytest.mark.timeout(150)
def test_an_operator_decides_through_flower(stack: Stack, port: int, receiver: ScriptedReceiver) -> None:
    flower = Flower(port)
    known = "/api/workers?refresh=true"
    wait_until(lambda: flower.ask(known)[1], 60, "Flower knows the worker")
    wait_until(lambda: heard(flower), 60, "the worker sends events, as Flower has asked it to", every=1.0)
    made, other = stack.schedule(receiver.url, ["one", "two"], due_in=3600)
    ((place,),) = stack.query("SELECT DISTINCT destination_id::text FROM reminders")

    for auth in (None, "operator:guess", "guest:guest"):
        for path in ("/api/task/async-apply/reminders.pause", "/api/task/send-task/reminders.pause"):
            assert flower.ask(path, {"kwargs": {**WORD, "everything": True}}, auth)[0] == 401
        assert flower.ask("/api/tasks", None, auth)[0] == 401

    paused = flower.do("pause", **WORD, tenant="t")
    assert paused["state"] == "SUCCESS"
    ((pause, actor, reason),) = stack.query("SELECT id::text, actor, reason FROM pauses WHERE ended_at IS NULL")
    assert (actor, reason) == ("ada", "the receiver moves")
    assert pause in paused["result"]
    assert flower.do("resume", **WORD, ids=[pause])["state"] == "SUCCESS"
    assert flower.do("rate_set", **WORD, tenant="t", per_second=5)["state"] == "SUCCESS"
    assert "'per_second': 5.0" in flower.do("rate_list", **WORD)["result"]
    assert (
        flower.do("destination_disable", **WORD, destination=place)["result"]
        == f"{{'id': '{place}', 'disabled': True}}"
    )
    assert flower.do("cancel", **WORD, ids=[str(made.id)])["state"] == "SUCCESS"
    assert stack.counts() == {"cancelled": 1, "pending": 1}
    assert other.status == "pending"

    for task, given, said in (
        ("pause", {**WORD, "tenent": "t"}, "tenent: is no filter; there are tenant, channel, kind, destination"),
        ("pause", {"actor": "ada", "tenant": "t"}, "reason: is needed"),
        ("destination_disable", {**WORD, "destination": receiver.url}, "destination: must be the id of a destination"),
        ("redrive_dead_letters", WORD, "ids: or a filter is needed"),
        ("drain", {**WORD, "tenant": "t"}, "rate: or `stop: true` must be given"),
        ("erase", {**WORD, "tenant": "t", "user": "u"}, "REMINDERS_ALLOW_ERASE_TASKS"),
    ):
        refused = flower.do(task, **given)
        assert refused["state"] == "FAILURE"
        assert said in refused["exception"]
        assert receiver.url not in json.dumps(refused)
    assert stack.query("SELECT count(*) FROM pauses WHERE ended_at IS NULL") == [(0,)]

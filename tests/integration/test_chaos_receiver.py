"""The chaos run's receiver: what it notes of each call, and that it notes it before the caller can go on."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.chaos.calls import EACH, ONCE, Call, read
from benchmarks.chaos.manners import PATIENCE, manner

ROOT = Path(__file__).resolve().parents[2]
DEADLINE = 10.0


class Receiver:
    """One process of it."""

    def __init__(self, file: Path, trouble: float) -> None:
        self.file = file
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chaos.receiver", "0", str(file), "1", str(trouble), str(DEADLINE)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        ready, port = self._process.stdout.readline().split()
        assert ready == b"ready"
        self.port = int(port)

    def send(self, key: str, place: str, attempt: int = 1) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        body = json.dumps({"id": f"id of {key}", "reference": f"{place}-{key}"})
        connection.request("POST", f"/{place}/t", body, {"webhook-id": key, "reminders-attempt": str(attempt)})
        return connection

    def post(self, key: str, place: str, attempt: int = 1) -> int | None:
        """The status; None for a connection that ended without an answer."""
        connection = self.send(key, place, attempt)
        try:
            return connection.getresponse().status
        except (http.client.HTTPException, ConnectionError):
            return None
        finally:
            connection.close()

    def stop(self) -> list[Call]:
        self._process.terminate()
        assert self._process.wait(30) == 0
        self._process.stdout.close()
        return read(self.file)


@pytest.fixture
def start(tmp_path):
    started = []

    def run(trouble: float) -> Receiver:
        started.append(Receiver(tmp_path / "calls.jsonl", trouble))
        return started[-1]

    yield run
    for receiver in started:
        receiver._process.kill()
        receiver._process.wait()


def key_with(name: str, *, effect: bool) -> str:
    """A key whose first call is treated so, whatever the share of trouble was meant to be."""
    keys = (f"key-{n}" for n in range(5000))
    return next(
        key
        for key in keys
        if (how := manner(1, key, 1, trouble=1.0, deadline=DEADLINE)).name == name and how.effect is effect
    )


def test_a_key_is_applied_once_at_once_and_each_time_at_each(start):
    receiver = start(0.0)
    for place in (ONCE, EACH):
        assert [receiver.post(f"at-{place}", place, attempt) for attempt in (1, 2, 3)] == [200, 200, 200]
    calls = receiver.stop()
    assert [(call.place, call.attempt, call.effect) for call in calls] == [
        (ONCE, 1, True), (ONCE, 2, False), (ONCE, 3, False), (EACH, 1, True), (EACH, 2, True), (EACH, 3, True),
    ]  # fmt: skip
    assert all(before.end <= after.start for before, after in pairwise(calls))
    assert {call.body for call in calls if call.place == ONCE} != {call.body for call in calls if call.place == EACH}


@pytest.mark.parametrize(
    ("name", "effect", "status"),
    [("500", True, 500), ("500", False, 500), ("503", False, 503), ("429", False, 429), ("reset", False, None), ("lost", True, None)],
)  # fmt: skip
def test_it_misbehaves_as_drawn_and_notes_what_it_did(start, name, effect, status):
    receiver = start(1.0)
    assert receiver.post(key_with(name, effect=effect), ONCE) == status
    (call,) = receiver.stop()
    assert (call.manner, call.status, call.effect) == (name, status, effect)


def test_from_its_patience_on_a_key_is_answered_well(start):
    receiver = start(1.0)
    key = key_with("429", effect=False)
    for _ in range(PATIENCE - 1):
        receiver.send(key, ONCE).close()
    assert receiver.post(key, ONCE) == 200


def test_a_call_whose_caller_goes_away_ends_then_and_was_not_answered(start):
    receiver = start(1.0)
    key = key_with("too slow", effect=True)
    receiver.send(key, ONCE).close()
    assert receiver.post(key_with("503", effect=False), ONCE) == 503, "it serves others meanwhile"
    gone = next(call for call in receiver.stop() if call.key == key)
    assert gone.status is None
    assert gone.end - gone.start < DEADLINE


def test_calls_at_the_same_time_are_seen_to_overlap(start):
    receiver = start(1.0)
    key = key_with("too slow", effect=True)
    first = receiver.send(key, ONCE)
    second = receiver.send(key, ONCE, 2)
    receiver.post(key_with("503", effect=False), ONCE)
    first.close()
    second.close()
    one, other = (call for call in receiver.stop() if call.key == key)
    assert other.start < one.end

"""Workers are told to stop while calls hang: what they had not begun is somebody else's at once, and nothing is burnt."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest
from celery import Celery

from acceptance.harness import Line, Stack, freeze, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.celery_options import DELIVER_TASK, options
from reminders.ledger.scheduling import ScheduledReminder
from reminders.settings import Secret

ONE_SLOT = {"REMINDERS_PROCESSES": "1", "REMINDERS_CONCURRENCY": "1"}
LONG_CALLS = {"REMINDERS_HTTP_DEADLINE": "90s", "REMINDERS_CLAIM": "110s", "REMINDERS_GRACE": "100s"}
SHORT_CLAIM = {"REMINDERS_HTTP_DEADLINE": "15s", "REMINDERS_CLAIM": "26s", "REMINDERS_GRACE": "30s"}
"""A call needs its deadline and five seconds more inside the claim; the rest is for a machine that does other things too."""
SETTINGS = {**ONE_SLOT, **LONG_CALLS, "REMINDERS_IN_FLIGHT": "64"}
HANDED_BACK_WITHIN = 20.0
"""Seconds; one should do. On a busy machine it is more, and still far below the end of a hanging call, the grace and every deadline."""
STOPPED_WITHIN = 30.0
"""Seconds for a worker without calls; half of the grace that such a test gives it."""
LONG_GRACE = {"REMINDERS_GRACE": "60s"}


def hang_first_call(receiver: ScriptedReceiver, reference: str) -> threading.Event:
    """The first call about this blocks until the event is set."""
    gate = threading.Event()

    def answer(_key: str, call: int, body: dict[str, object]) -> int:
        if call == 1 and body["reference"] == reference:
            gate.wait(110)
        return 200

    receiver.answer = answer
    return gate


def worker_of(stack: Stack, line: str) -> psutil.Process:
    """The one Celery process of a line, once it is ready."""

    def ready() -> psutil.Process | None:
        with suppress(psutil.Error):  # what runs before the worker may just have ended
            children = [child for child in stack.lines[line].children() if "worker" in child.cmdline()]
            return children[0] if children and " ready." in stack.log(line) else None
        return None

    found = wait_until(ready, 40, f"{line} is ready")
    assert isinstance(found, psutil.Process)
    return found


@pytest.fixture
def send_later(stack: Stack) -> Iterator[Callable[..., None]]:
    """Sends a delivery for a later time (Unix seconds), as a worker does that found Postgres away."""
    app = Celery("sender", set_as_current=False, amqp="reminders.broker.transport:AMQP")
    app.conf.update(options(replace(stack.settings, redis_url=Secret(stack.environ["REDIS_URL"]))))

    def send(made: ScheduledReminder, at: float, queue: str) -> None:
        eta = datetime.fromtimestamp(at, UTC)
        app.send_task(DELIVER_TASK, (str(made.id), made.delivery_key), queue=queue, eta=eta)

    yield send
    app.pool.force_close_all()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("time_has_come", [False, True], ids=["until their time", "behind its busy thread"])
def test_what_a_worker_has_taken_and_not_begun_is_anothers_at_once_when_it_is_told_to_stop(
    stack: Stack, receiver: ScriptedReceiver, send_later: Callable[..., None], time_has_come: bool
) -> None:
    # A call that hangs makes a worker of `deliver` take another message; one of `retry` has its one thread and no more.
    line, queue = ("retry", "retry") if time_has_come else ("worker", "deliver")
    gate = hang_first_call(receiver, "hanging")
    stack.start("beat", "scanner", **SETTINGS)
    hanging, *waiting = stack.schedule(receiver.url, ["hanging", *(f"r{n}" for n in range(12))])
    wait_until(lambda: stack.redis.llen("reminders:deliver") == 13, 30, "their messages are queued")
    stack.stop("scanner", "beat")
    stack.redis.delete("reminders:deliver")
    stack.start(line, **SETTINGS)
    first = worker_of(stack, line)
    # By then the other line must be up.
    ready_at = time.time() + 30
    for made in waiting:
        send_later(made, ready_at, queue)
    wait_until(lambda: stack.redis.hlen("reminders:unacked") == 12, 30, "the worker has taken them all")
    send_later(hanging, time.time(), queue)
    receiver.wait_for(lambda r: r.calls.total() == 1, 30, "its only thread hangs")
    stack.lines["another"] = Line(line, {**stack.environ, **SETTINGS}, stack.home / "another.log")
    worker_of(stack, "another")
    if time_has_come:
        wait_until(lambda: time.time() > ready_at + 1, 40, "their time has come, and no thread is free")
    assert receiver.calls.total() == 1

    first.terminate()
    told = time.time()

    receiver.wait_for(lambda r: len(r.calls) == 13, 80, "the others have come through the other line")
    seen = max(at for at, body in receiver.order if body["reference"] != "hanging")
    assert seen - max(told, ready_at) < HANDED_BACK_WITHIN
    assert first.is_running(), "it is still in its call"
    gate.set()
    stack.wait_all("delivered", 13, 40)
    assert set(receiver.calls.values()) == {1}
    assert stack.query("SELECT DISTINCT claim_number, given_back FROM notification_deliveries") == [(1, 0)]


@pytest.mark.timeout(150)
def test_killed_in_its_shutdown_a_workers_call_is_repeated_with_the_others_and_no_attempt_is_burnt(
    home: Path, receiver: ScriptedReceiver
) -> None:
    """No line serves `alone`, and a burnt attempt would be one too many."""
    gate = hang_first_call(receiver, "hanging")
    with installation(home, REMINDERS_MAX_ATTEMPTS="1", **ONE_SLOT, **SHORT_CLAIM) as stack:
        stack.start("beat", "scanner", "worker")
        worker = worker_of(stack, "worker")
        stack.schedule(receiver.url, ["hanging"])
        receiver.wait_for(lambda r: r.called_at("hanging") is not None, 30, "it is in mid-call")
        worker.terminate()
        (name,) = wait_until(lambda: stack.query("SELECT worker FROM shutdowns"), 30, "its shutdown is on record")
        assert name == stack.query("SELECT worker FROM notification_deliveries")[0]
        worker.kill()
        stack.wait_all("delivered", 1, 90)
        gate.set()
        assert stack.query("SELECT claim_number, outcome, error_class FROM delivery_attempts ORDER BY 1") == [
            (1, "unknown", "worker_shut_down"),
            (2, "delivered", ""),
        ]
        assert receiver.calls.total() == 2


@pytest.mark.timeout(120)
@pytest.mark.parametrize("deduplicates", [True, False], ids=["deduplicates", "does not"])
def test_a_frozen_worker_that_wakes_after_its_claims_end_changes_nothing_but_its_record(
    home: Path, receiver: ScriptedReceiver, deduplicates: bool
) -> None:
    gate = hang_first_call(receiver, "frozen")
    short = {"REMINDERS_HTTP_DEADLINE": "4s", "REMINDERS_CLAIM": "15s", **ONE_SLOT}
    with installation(home, **short) as stack:
        if not deduplicates:
            name = ("--tenant", "t", "--channel", "webhook", "--to", receiver.url)
            stack.schedule(receiver.url, ["later"], due_in=3600)
            stack.cli("destination", "set", *name, "--deduplicates", "no")
        stack.start("beat", "scanner", "worker", "alone")
        worker = worker_of(stack, "worker")
        made = stack.schedule(receiver.url, ["frozen"])[0]
        receiver.wait_for(lambda r: r.calls.total() == 1, 30, "it is in mid-call")
        freeze(worker)
        gate.set()
        ends_as = "delivered" if deduplicates else "dead"
        status = "SELECT 1 FROM reminders_v1 WHERE reference = 'frozen' AND status = %s"
        wait_until(lambda: stack.query(status, ends_as), 40, f"its claim has ended, and it is {ends_as}")
        worker.resume()
        late = "SELECT outcome FROM delivery_attempts WHERE claim_number = 1 AND decision LIKE 'late: %%'"
        (outcome,) = wait_until(lambda: stack.query(late), 40, "the frozen worker has reported")[0]
        assert receiver.calls == {made.delivery_key: 2 if deduplicates else 1}
        assert receiver.overlaps == 0
        # Where nobody had sent it again, a success that it could still read ends the review.
        ends_as = "delivered" if outcome == "delivered" else ends_as
        wait_until(lambda: stack.query(status, ends_as), 30, f"it is {ends_as}")


@pytest.mark.timeout(120)
def test_a_shutdown_that_cannot_be_noted_is_no_slower(home: Path) -> None:
    with installation(home, **ONE_SLOT, **LONG_GRACE) as stack:
        stack.start("worker")
        worker_of(stack, "worker")
        stack.kill_postgres()
        began = time.monotonic()
        assert stack.lines.pop("worker").stop() == 0
        assert time.monotonic() - began < STOPPED_WITHIN
        assert "Traceback" not in stack.log("worker")
        stack.start_services()


@pytest.mark.timeout(120)
def test_told_many_times_within_an_instant_a_worker_stops_no_later(home: Path) -> None:
    """A platform tells every process of a dyno, and our parent tells its children too."""
    with installation(home, **ONE_SLOT, **LONG_GRACE) as stack:
        stack.start("worker")
        worker = worker_of(stack, "worker")
        with suppress(psutil.NoSuchProcess):  # it may stop while it is still being told
            for _ in range(1000):
                worker.terminate()
        began = time.monotonic()
        assert stack.lines.pop("worker").stop() == 0
        assert time.monotonic() - began < STOPPED_WITHIN

"""A worker's prefetch count follows its slow calls up and down, within the bound, at every connection anew."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.common import QoS

from reminders.broker import slow_calls
from reminders.broker.shutdown import shutting_down
from reminders.broker.slow_calls import SlowCalls
from reminders.domain.slow_calls import SLOW_PER_SLOT

SLOTS = 4


class Calls:
    """How many are slow, and what limit was set."""

    many = 0
    limits: tuple[int, int] | None = None

    def slow(self) -> int:
        return self.many

    def limit(self, slots: int, slow: int) -> None:
        self.limits = slots, slow


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()
    monkeypatch.setattr(slow_calls, "open_calls", calls)
    return calls


def connected() -> Any:
    """A consumer with a connection, and its channel's prefetch count in `told`."""
    told = [SLOTS]

    def tell(prefetch_count: int) -> None:
        told.append(prefetch_count)

    return SimpleNamespace(task_consumer=object(), told=told, qos=QoS(tell, SLOTS))  # type: ignore[no-untyped-call]


def started(queues: tuple[str, ...]) -> tuple[Any, list[Any]]:
    """A worker whose step has started, and what its event loop is to do again and again."""
    pool = SimpleNamespace(limit=SLOTS, executor=ThreadPoolExecutor(SLOTS))
    app = SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=dict.fromkeys(queues))))
    worker = SimpleNamespace(pool=pool, app=app, consumer=connected(), steps=[])
    step = SlowCalls(worker)
    step.start(worker)
    timers: list[Any] = []
    hub = SimpleNamespace(call_repeatedly=lambda _every, call, *given: timers.append(lambda: call(*given)))
    step.register_with_event_loop(worker, hub)
    return worker, timers


def test_it_follows_the_slow_calls_within_the_bound(calls: Calls) -> None:
    worker, (adjust,) = started(("deliver",))
    bound = SLOW_PER_SLOT * SLOTS
    assert calls.limits == (SLOTS, bound)
    assert worker.pool.executor._max_workers == SLOTS + bound
    for many, more in ((0, 0), (3, 3), (10 * bound, bound), (5, 5), (5, 5), (0, 0)):
        calls.many = many
        adjust()
        assert worker.consumer.told[-1] == SLOTS + more, many


def test_another_connection_begins_with_the_slots_alone(calls: Calls) -> None:
    worker, (adjust,) = started(("deliver",))
    calls.many = 3
    adjust()
    worker.consumer = connected()
    adjust()
    assert worker.consumer.told[-1] == SLOTS + 3


def test_without_a_connection_or_told_to_stop_it_changes_nothing(calls: Calls, monkeypatch: pytest.MonkeyPatch) -> None:
    worker, (adjust,) = started(("deliver",))
    calls.many = 3
    consumer, worker.consumer = worker.consumer, SimpleNamespace(qos=None)
    adjust()
    worker.consumer = consumer
    consumer.task_consumer = None
    adjust()
    consumer.task_consumer = object()
    monkeypatch.setattr(shutting_down, "is_set", lambda: True)
    adjust()
    assert consumer.told == [SLOTS]


@pytest.mark.parametrize("queue", ["retry", "alone", "scan", "maintenance"])
def test_who_does_not_serve_the_deliver_queue_stays_as_it_is(calls: Calls, queue: str) -> None:
    worker, timers = started((queue,))
    assert timers == []
    assert calls.limits is None
    assert worker.pool.executor._max_workers == SLOTS

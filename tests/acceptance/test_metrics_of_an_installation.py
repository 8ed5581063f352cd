"""An installation as the Procfile starts it: its own metrics call it well, and say so when a line is gone or hangs."""

from __future__ import annotations

import signal
import threading

import pytest

from acceptance.harness import Stack, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from alert_rules import rules
from promql import History, fires, samples
from promql_values import Vector

LINES = ("beat", "scanner", "worker", "retry", "alone", "maintenance")
PROCESSES = {"scan": 1, "deliver": 2, "retry": 1, "alone": 1, "maintenance": 1}


def scrape(stack: Stack) -> Vector:
    return samples(stack.cli("metrics").stdout)


def value(scraped: Vector, name: str, **labels: str) -> float | None:
    return scraped.get(frozenset({("__name__", name), *labels.items()}))


def firing(scraped: Vector) -> set[str]:
    history = History([(0.0, scraped), (60.0, scraped)])
    return {name for name, text in rules().items() if fires(text, history, 60.0)}


@pytest.mark.timeout(400)
def test_it_is_well_and_a_line_that_is_gone_or_hangs_is_named(stack: Stack, receiver: ScriptedReceiver) -> None:
    stack.start(*LINES)
    made = stack.schedule(receiver.url, [f"r{n}" for n in range(5)])
    stack.wait_all("delivered", 5, 60)

    def counted() -> Vector | None:
        found = scrape(stack)
        whole = value(found, "reminders_attempts_total", channel="webhook", outcome="delivered") == 5
        # One of two workers may deliver all of it while the other is still starting.
        up = {queue: value(found, "reminders_processes", queue=queue) for queue in PROCESSES} == PROCESSES
        return found if whole and up and not firing(found) else None

    found = wait_until(counted, 90, "all is counted, all processes are there, and no alert fires", every=1.0)
    assert value(found, "reminders_called_late_seconds_count", channel="webhook") == 5
    assert value(found, "reminders_delivered_late_seconds_bucket", channel="webhook", le="60.0") == 5
    assert (value(found, "reminders_beat_tick_age_seconds") or 0.0) < 70
    for queue in PROCESSES:
        assert (value(found, "reminders_progress_age_seconds", queue=queue) or 0.0) < 15, queue

    # A message that comes a second time is refused, and counted by the process that refused it.
    stack.call("reminders.deliver", "--queue=deliver", f'--args=["{made[0].id}", "{made[0].delivery_key}"]')
    wait_until(
        lambda: value(scrape(stack), "reminders_duplicates_suppressed_total") == 1, 60, "the duplicate is counted"
    )

    stack.stop("retry")
    wait_until(lambda: firing(scrape(stack)) == {"RemindersNoProcess"}, 60, "the line that was stopped is named")
    stack.start("retry")
    wait_until(lambda: firing(scrape(stack)) == set(), 60, "it is back")

    # A process that is there and answers nothing counts as none.
    (scanner, *_) = [each for each in stack.lines["scanner"].children() if "worker" in each.cmdline()]
    scanner.send_signal(signal.SIGSTOP)
    try:
        wait_until(
            lambda: value(scrape(stack), "reminders_processes", queue="scan") == 0, 60, "the frozen scanner is missed"
        )
    finally:
        scanner.send_signal(signal.SIGCONT)


@pytest.mark.timeout(300)
def test_a_worker_whose_calls_do_not_end_is_alive_and_does_not_get_on(stack: Stack, receiver: ScriptedReceiver) -> None:
    gate = threading.Event()
    receiver.answer = lambda key, call, body: 200 if gate.wait(100) else 500
    stack.start(
        "beat", "scanner", "worker", REMINDERS_PROCESSES="1", REMINDERS_CONCURRENCY="2",
        # Still open when a command that asks has started on a busy machine.
        REMINDERS_HTTP_DEADLINE="90s", REMINDERS_CLAIM="110s", REMINDERS_GRACE="100s",
    )  # fmt: skip
    stack.schedule(receiver.url, ["hangs"])
    receiver.wait_for(lambda r: len(r.calls) == 1, 60, "it is called")
    age = wait_until(
        lambda: (value(scrape(stack), "reminders_progress_age_seconds", queue="deliver") or 0.0) >= 3,
        60,
        "its age grows",
    )
    assert age
    gate.set()
    stack.wait_all("delivered", 1, 60)
    wait_until(
        lambda: (value(scrape(stack), "reminders_progress_age_seconds", queue="deliver") or 0.0) < 3,
        60,
        "it gets on again",
    )

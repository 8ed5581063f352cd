"""Servers that lose everything, fall silent or restart in mid-drain, and workers that stay away."""

from __future__ import annotations

import time
from threading import Event

from reminders.ledger.scheduling import ScheduledReminder
from reminders.operate.drills.drill import PATIENT_CALL, Drill
from reminders.operate.drills.stack import Stack

SILENCE = 8.0
"""Seconds without an answer from Redis: more than its clients wait for one."""
LIMIT = 100


def redis_flushed(stack: Stack) -> None:
    """Everything that Redis held is gone while calls are open and the queue is full."""
    gate = Event()
    stack.receiver.answer = lambda _key, _call, _body: 200 if gate.wait(60) else 500
    made = stack.schedule([f"r{number}" for number in range(400)])
    stack.ready()
    stack.receiver.wait_for(
        lambda seen: len(seen.calls) >= stack.settings.concurrency, 60, "all threads are in mid-call"
    )
    stack.wait_until(lambda: stack.queued() > 100, "the queue is full")
    stack.did(f"emptied Redis with {stack.queued()} messages queued and {len(stack.receiver.calls)} calls open")
    stack.redis.flushall()
    gate.set()
    stack.ended({"delivered": 400})
    stack.check("G10", holds=True, text="the ledger alone rebuilt the queue")
    stack.check_called_once_each(made)


def redis_silent(stack: Stack) -> None:
    """Redis answers nobody for a while, with every connection open, as behind a network that drops packets."""
    made = _start_drain(stack, 600)
    with stack.frozen(stack.redis_pid()):
        stack.pass_time(SILENCE)
    stack.did(f"froze Redis for {SILENCE:g} s in mid-drain, its sockets open")
    stack.ended({"delivered": 600}, 120)
    stack.check_called_once_each(made)


def postgres_restarted(stack: Stack) -> None:
    """Postgres is killed in mid-drain and recovers."""
    made = _start_drain(stack, 600)
    started = time.monotonic()
    stack.restart_postgres()
    stack.did(f"killed Postgres with -9 in mid-drain; it was back after {time.monotonic() - started:.1f} s")
    stack.ended({"delivered": 600}, 120)
    stack.check_called_once_each(made)


def workers_away(stack: Stack) -> None:
    """Nobody takes messages for ten times their deadline."""
    made = stack.schedule([f"r{number}" for number in range(3 * LIMIT)])
    stack.scan()
    stack.wait_until(lambda: stack.queued() >= LIMIT, "the queue is full")
    deadline = stack.settings.redeliver
    longest = stack.watch(stack.queued, 10 * deadline)
    stack.did(f"left {3 * LIMIT} due reminders without a worker for ten deadlines of {deadline:g} s")
    most = round(1.2 * LIMIT)
    stack.check(
        "G9", longest <= most, f"the longest the queue ever was: {longest} (the limit is {LIMIT}, with a fifth: {most})"
    )
    stack.start("worker")
    stack.ended({"delivered": 3 * LIMIT})
    stack.check_called_once_each(made)


def _start_drain(stack: Stack, number: int) -> list[ScheduledReminder]:
    """Workers in the middle of `number` reminders, each call taking a moment."""
    pause = Event()
    stack.receiver.answer = lambda _key, _call, _body: 500 if pause.wait(0.1) else 200
    stack.start_supervised("scanner", "worker", "alone")
    stack.tick()
    made = stack.schedule([f"r{each}" for each in range(number)])
    stack.receiver.wait_for(lambda seen: seen.calls.total() > number // 6, 60, "the drain is under way")
    return made


DRILLS = (
    Drill(
        "redis-flushed",
        "Redis is emptied in mid-drain",
        ("G2", "G4", "G10"),
        redis_flushed,
        # Slow calls leave their slots to others: a worker of so few takes 64 messages at most, and the others stay queued.
        {**PATIENT_CALL, "REMINDERS_CONCURRENCY": "8", "REMINDERS_IN_FLIGHT": "256"},
    ),
    Drill(
        "redis-silent",
        "Redis is gone without closing its sockets, then back",
        ("G2", "G4"),
        redis_silent,
        {"REMINDERS_LEASE": "5s"},
    ),
    Drill("postgres-restarted", "Postgres restarts in mid-drain", ("G2", "G4"), postgres_restarted),
    Drill(
        "workers-away",
        "workers are away for ten deadlines",
        ("G2", "G4", "G9"),
        workers_away,
        {"REMINDERS_REDELIVER": "1s", "REMINDERS_IN_FLIGHT": str(LIMIT)},
    ),
)

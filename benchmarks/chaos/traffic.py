"""What applications do meanwhile: schedule, cancel and move reminders, around the instant at which they are claimed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from queue import Empty, PriorityQueue
from random import Random
from typing import Any, TypeVar
from uuid import UUID
from zlib import crc32

import psycopg2

import reminders
from benchmarks.chaos.calls import EACH, ONCE
from reminders.domain.errors import Refused
from reminders.ledger.scheduling import ScheduledReminder

TENANTS = 5
CHANGED = 0.16
"""Share of the reminders that somebody cancels or moves."""
ROLLED_BACK = 0.02
"""Share of the batches whose transaction is rolled back."""
CALLERS = 8
"""Applications that cancel and move at the same time. The changes of one reminder are all made by the same one."""
TICK = 0.5
LEADS = (0.5, 6.0)
"""Seconds between scheduling and the due instant."""
Result = TypeVar("Result")


@dataclass(slots=True)
class Known:
    """A reminder whose transaction committed. `keys` are its delivery keys, oldest first."""

    reference: str
    id: UUID
    place: str
    keys: list[str]


@dataclass(frozen=True, slots=True)
class Promise:
    """What a committed transaction was told about `key`. The instants are taken after the commit."""

    reference: str
    key: str
    answer: str
    """`cancelled`, `requested`, `maybe_sent`, `too_late`, `superseded` or `refused`."""
    monotonic: float
    unix: float


@dataclass
class Book:
    """All that callers know. `never` holds references whose transaction was rolled back."""

    known: dict[str, Known] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)
    never: set[str] = field(default_factory=set)


class Traffic:
    """Schedules `rate` reminders a second until it is stopped, and `at_least` in all."""

    def __init__(self, database_url: str, receiver_url: str, seed: int, rate: float, at_least: int) -> None:
        self.book = Book()
        self._database_url = database_url
        self._receiver_url = receiver_url
        self._random = Random(f"traffic {seed}")
        self._seed = seed
        self._rate = rate
        self._at_least = at_least
        self._changes: list[PriorityQueue[tuple[float, str, str]]] = [PriorityQueue() for _ in range(CALLERS)]
        self._stop = threading.Event()
        self._settled = threading.Event()
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._schedule, name="scheduling", daemon=True)]
        self._threads += [
            threading.Thread(target=self._change, args=(number,), name=f"caller {number}", daemon=True)
            for number in range(CALLERS)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Schedule what is missing to `at_least`, make the changes that were planned, and end."""
        self._stop.set()
        self._threads[0].join()
        self._settled.set()
        for thread in self._threads[1:]:
            thread.join()

    def destinations(self) -> list[tuple[str, str, str]]:
        """Tenant, place and address of each."""
        tenants = [f"tenant-{number}" for number in range(TENANTS)]
        return [
            (tenant, place, f"{self._receiver_url}/{place}/{tenant}") for tenant in tenants for place in (ONCE, EACH)
        ]

    def _schedule(self) -> None:
        client = _Client(self._database_url)
        destinations = self.destinations()
        made, owed = 0, 0.0
        while not self._stop.wait(TICK) or made < self._at_least:
            owed = min(1000.0, owed + self._rate * TICK)
            # Now and then a burst for one instant; what it was early with is left out afterwards.
            burst = self._random.random() < 0.05
            size = int(owed) + (int(self._rate * 5) if burst else 0)
            if self._stop.is_set():
                size = min(500, self._at_least - made)
            if size <= 0:
                continue
            owed -= size
            rolled_back = self._random.random() < ROLLED_BACK
            batch = [self._reminder(destinations, made + number, burst, rolled_back) for number in range(size)]
            if rolled_back:
                size = min(size, 20)
                batch = batch[:size]
                self.book.never.update(each["reference"] for each in batch)
                client.insist(partial(_then_undo, batch))
                owed += size
                continue
            answers = client.insist(partial(_schedule, batch))
            for given, answer in zip(batch, answers, strict=True):
                self._know(given, answer.id, answer.delivery_key)
            made += size
        client.close()

    def _reminder(
        self, destinations: list[tuple[str, str, str]], number: int, burst: bool, rolled_back: bool
    ) -> dict[str, Any]:
        tenant, place, address = self._random.choice(destinations)
        lead = LEADS[1] if burst else self._random.uniform(*LEADS)
        name = "void" if rolled_back else place
        return {
            "tenant_id": tenant, "user_id": f"user-{number % 997}", "kind": "chaos", "channel": "webhook",
            "destination": address, "due_at": datetime.now(UTC) + timedelta(seconds=lead),
            "reference": f"{name}-{number}-{self._random.getrandbits(32):08x}", "data": {"number": number},
        }  # fmt: skip

    def _know(self, given: dict[str, Any], reminder_id: UUID, key: str) -> None:
        reference = given["reference"]
        place = reference.partition("-")[0]
        self.book.known[reference] = Known(reference, reminder_id, place, [key])
        if self._random.random() < CHANGED:
            due = time.monotonic() + (given["due_at"] - datetime.now(UTC)).total_seconds()
            for what in self._random.choice([("cancel",), ("move",), ("cancel",), ("move",), ("cancel", "move")]):
                soon = self._random.random() < 0.7
                offset = self._random.gauss(0.5, 0.7) if soon else self._random.uniform(-1.0, 40.0)
                self._changes[crc32(reference.encode()) % CALLERS].put((due + offset, what, reference))

    def _change(self, number: int) -> None:
        client = _Client(self._database_url)
        changes = self._changes[number]
        random = Random(f"caller {self._seed} {number}")
        while True:
            try:
                at, what, reference = changes.get(timeout=0.2)
            except Empty:
                if self._settled.is_set():
                    break
                continue
            if at > time.monotonic() and not self._settled.is_set():
                changes.put((at, what, reference))
                self._settled.wait(min(0.05, at - time.monotonic()))
                continue
            # An application has more to do before it commits, now and then, or thinks better of it.
            linger = random.uniform(0.05, 3.0) if random.random() < 0.25 else 0.0
            undone = random.random() < 0.1
            self._ask(client, what, self.book.known[reference], linger, undone=undone)
        client.close()

    def _ask(self, client: _Client, what: str, known: Known, linger: float, *, undone: bool) -> None:
        due = datetime.now(UTC) + timedelta(seconds=3)

        def ask(connection: Any) -> tuple[str, str]:
            answer = _cancel(connection, known.id) if what == "cancel" else _move(connection, known.id, due)
            key = reminders.get(connection, known.id).delivery_key
            time.sleep(linger)
            if undone:
                connection.rollback()
            return answer, key

        answer, key = client.insist(ask)
        if undone:
            return
        with self._lock:
            monotonic, unix = time.monotonic(), time.time()
            if key != known.keys[-1]:
                old = known.keys[-1]
                known.keys.append(key)
                self.book.promises.append(Promise(known.reference, old, "superseded", monotonic, unix))
            if answer != "moved":
                self.book.promises.append(Promise(known.reference, key, answer, monotonic, unix))


def _cancel(connection: Any, reminder_id: UUID) -> str:
    with suppress(Refused):
        return reminders.cancel(connection, reminder_id)
    return "refused"


def _move(connection: Any, reminder_id: UUID, due: datetime) -> str:
    with suppress(Refused):
        reminders.reschedule(connection, reminder_id, due_at=due)
        return "moved"
    return "refused"


def _schedule(batch: list[dict[str, Any]], connection: Any) -> list[ScheduledReminder]:
    return reminders.schedule_many(connection, batch)


def _then_undo(batch: list[dict[str, Any]], connection: Any) -> None:
    reminders.schedule_many(connection, batch)
    connection.rollback()


class _Client:
    """An application's connection, opened again when it broke. A transaction that may have committed is done again."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url
        self._connection: Any = None

    def insist(self, ask: Callable[[Any], Result]) -> Result:
        while True:
            try:
                if self._connection is None:
                    self._connection = psycopg2.connect(self._url, connect_timeout=5)
                found = ask(self._connection)
                self._connection.commit()
                return found
            except psycopg2.Error:
                self.close()
                time.sleep(0.3)

    def close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None

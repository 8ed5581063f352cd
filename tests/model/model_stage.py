"""One example: the real ledger and the real stages, between neighbours that the machine commands."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from model.beliefs import Beliefs, Place, Reminder
from model.model_broker import ModelBroker
from model.model_clock import ModelClock
from model.model_database import ModelDatabase
from model.model_ids import ModelIds
from model.model_ledger import begin_again
from model.model_receiver import WINDOW, ModelReceiver
from reminders.domain import identity
from reminders.ledger.audit import AuditPolicy
from reminders.ledger.database import Database
from reminders.ledger.destinations import set_deduplicates
from reminders.pipeline.repair import RepairPolicy
from reminders.pipeline.scan import ScanPolicy

CLAIM, HTTP_DEADLINE, LEASE, REDELIVER = 30.0, 10.0, 60.0, 120.0
MAX_ATTEMPTS, MAX_WAIT, DELAYS = 4, 72 * 3600.0, (5.0, 30.0)
PLACES = (
    Place("tenant-a", "keeps-keys"),
    Place("tenant-a", "forgets"),
    Place("tenant-b", "keeps-keys"),
    Place("tenant-b", "forgets"),
)
IN_FLIGHT = 8
"""Small, so that work waits for room."""
SCANNING = ScanPolicy(
    batch=5, in_flight=IN_FLIGHT, lease=LEASE, redeliver=REDELIVER, repair=RepairPolicy(MAX_ATTEMPTS, MAX_WAIT)
)
AUDITED = AuditPolicy(MAX_ATTEMPTS, MAX_WAIT, WINDOW, IN_FLIGHT)


@dataclass(eq=False)
class Open:
    """An application's transaction that holds a reminder; `then` is what its commit makes true. It equals no other one, though
    that may use the same connection for the same reminder."""

    connection: Any
    reminder: Reminder
    then: Callable[[], object]


@dataclass
class Stage:
    """What every rule of the machine works with."""

    base: ModelDatabase
    clock: ModelClock
    beliefs: Beliefs = field(default_factory=Beliefs)
    broker: ModelBroker = field(default_factory=ModelBroker)
    receiver: ModelReceiver = field(default_factory=ModelReceiver)
    transactions: list[Open] = field(default_factory=list)
    body_format: int = 1
    """What this release's workers pin for a first attempt."""
    looks_up: bool = False
    """This release's workers can ask the far side for a key."""
    garbled: bool = False
    """This release renders another body than the one before."""
    ever_garbled: bool = False
    checked_moves: int = 0

    @classmethod
    def empty(cls, base: ModelDatabase) -> Stage:
        """At the beginning of the model's time, with nothing in the ledger but what operators said of some places."""
        stage = cls(base, ModelClock(base))
        begin_again(base)
        identity.time = identity.os = ModelIds(stage.clock)
        for place in PLACES:
            stage.beliefs.deduplicates[place] = True
            if place.address == "forgets":
                stage.deduplicates(place, False)
        return stage

    def deduplicates(self, place: Place, answer: bool) -> None:
        """An operator says so, and it is so."""
        set_deduplicates(self.database, place.tenant, "log", place.address, deduplicates=answer)
        self.beliefs.deduplicates[place] = answer

    @property
    def database(self) -> Database:
        return self.base.product

    def sql(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        return self.base.sql(query, arguments or None)

    def seconds_to_next_wake(self) -> float:
        """Until something is due, and a moment; nothing if something is due or nothing ever will be."""
        wake_at = self.sql("SELECT min(wake_at) FROM reminders.due")[0][0]
        return 0.0 if wake_at is None else max(0.0, (wake_at - self.clock.now).total_seconds() + 0.001)

    @contextmanager
    def caller(self) -> Iterator[Any]:
        """An application's transaction, committed at the end."""
        connection = self.base.take_caller()
        try:
            with connection:
                yield connection
        finally:
            self.base.give_caller_back(connection)

    def begin(self, reminder: Reminder) -> Open:
        """An application's transaction that stays open, and will hold the reminder."""
        begun = Open(self.base.take_caller(), reminder, int)
        reminder.held = True
        self.transactions.append(begun)
        return begun

    def end(self, transaction: Open, *, commit: bool) -> None:
        """The application commits, or gives up."""
        if commit:
            transaction.connection.commit()
            transaction.then()
        else:
            transaction.connection.rollback()
        transaction.reminder.held = False
        self.transactions.remove(transaction)
        self.base.give_caller_back(transaction.connection)

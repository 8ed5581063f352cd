"""What any drill works with: reminders of its own, a receiver that it scripts, the ledger and the broker."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Event
from uuid import UUID

from celery import Celery
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.broker.publishing import KombuPublisher
from reminders.celery_options import SCAN_TASK, options
from reminders.domain.errors import Conflict
from reminders.ledger import changing, series_changing
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.destinations import set_deduplicates
from reminders.ledger.rehearsal import AttemptMade, LetterOpened, Rehearsal
from reminders.ledger.scheduling import ScheduledReminder, insert
from reminders.operate.drills.drill import Broken, Record, Step
from reminders.operate.drills.scripted_receiver import ScriptedReceiver
from reminders.pipeline.ports import Message
from reminders.pipeline.schedule import to_request
from reminders.pipeline.series_request import to_series_request
from reminders.providers import registry
from reminders.settings import Settings

USER = KIND = "drill"
"""User and kind of every reminder that a drill makes: by them they are told from others."""
PATIENCE = 60.0
"""Seconds for what should take a few, on a machine that does other things too."""
_LOOK_EVERY = 0.05


class Scene:
    """One run of a drill on one installation, for one tenant. What it made is in `made`."""

    def __init__(
        self,
        record: Record,
        settings: Settings,
        database: Database,
        receiver: ScriptedReceiver,
        *,
        tenant: str,
        to: str,
    ) -> None:
        self.record = record
        self.settings = settings
        self.database = database
        self.receiver = receiver
        self.tenant = tenant
        self.made: list[ScheduledReminder] = []
        self._to = to
        self._ledger = Rehearsal(database)
        self._pace = Event()

    def did(self, text: str) -> None:
        self.record.add(Step("did", text))

    def saw(self, text: str) -> None:
        self.record.add(Step("saw", text))

    def check(self, guarantee: str, holds: bool, text: str) -> None:
        """Note that an invariant held. Raises `Broken` if it did not."""
        if not holds:
            raise Broken(f"{guarantee}: not so: {text}")
        self.record.add(Step("held", text, guarantee))

    def ready(self) -> None:
        """Return once scanner and workers are there to do their work."""
        raise NotImplementedError

    # What it does.

    def schedule(self, references: Sequence[str], *, due_in: float = 0.0, place: str = "") -> list[ScheduledReminder]:
        """Schedule one reminder for each reference, `due_in` seconds from now (below zero: overdue), all together.

        `place` tells apart destinations of the drill's receiver.
        """
        return self.schedule_at([(reference, due_in) for reference in references], place=place)

    def schedule_at(self, wanted: Sequence[tuple[str, float]], *, place: str = "") -> list[ScheduledReminder]:
        """Schedule references with a due time each, in seconds from now, in one transaction."""
        provider = registry.load("webhook", self.settings)
        now = datetime.now(UTC)
        requests = [
            to_request(
                lambda _: provider,
                tenant_id=self.tenant,
                user_id=USER,
                kind=KIND,
                channel="webhook",
                destination=self._to + place,
                due_at=now + timedelta(seconds=due_in),
                reference=self.reference(name),
            )
            for name, due_in in wanted
        ]
        with self.database.transaction() as connection:
            answers = insert(connection, self.settings.schema, requests, {"webhook": provider.deduplicates})
        made = []
        for answer in answers:
            if isinstance(answer, Conflict):
                raise answer
            made.append(answer)
        self.made += made
        return made

    def schedule_daily(self, references: Sequence[str], first: datetime) -> None:
        """Schedule a series for each reference that fires every day from the second of `first` (aware) on, in one transaction."""
        provider = registry.load("webhook", self.settings)
        with self.database.transaction() as connection:
            for name in references:
                request = to_series_request(
                    lambda _: provider,
                    tenant_id=self.tenant,
                    user_id=USER,
                    kind=KIND,
                    channel="webhook",
                    destination=self._to,
                    start=first.astimezone(UTC).replace(tzinfo=None, microsecond=0),
                    zone="UTC",
                    rule="FREQ=DAILY",
                    reference=self.reference(name),
                )
                series_changing.schedule(connection, self.settings.schema, request)

    def take_over(self, references: Sequence[str]) -> None:
        """Count what somebody else scheduled under these references as made here."""
        self.made += self.find(references)

    def find(self, references: Sequence[str]) -> list[ScheduledReminder]:
        """The tenant's reminders about these references, as they stand in the ledger."""
        return self._ledger.about(self.tenant, references)

    def reference(self, name: str) -> str:
        """The reference that stands for `name` in this run."""
        return name

    def never_deduplicates(self, place: str) -> None:
        """Say of a destination that it would apply a repeated key again."""
        set_deduplicates(self.database, self.tenant, "webhook", self._to + place, deduplicates=False)

    def cancel(self, reminder: ScheduledReminder) -> str:
        with self.cancelling(reminder) as answer:
            return answer

    @contextmanager
    def cancelling(self, reminder: ScheduledReminder, *, commit: bool = True) -> Iterator[str]:
        """Cancel in a transaction that stays open for the block, as an application's may."""
        with self._transaction(commit=commit) as connection:
            yield changing.cancel(connection, self.settings.schema, reminder.id)

    @contextmanager
    def _transaction(self, *, commit: bool) -> Iterator[DriverConnection]:
        with self.database.transaction() as connection:
            yield connection
            if not commit:
                connection.cursor().execute("ROLLBACK; BEGIN")

    def publish(self, reminders: Sequence[ScheduledReminder]) -> None:
        """Put a delivery message for each on the broker, whatever the ledger says. Raises `Broken` if it takes none."""
        publisher = KombuPublisher(self.settings)
        try:
            messages = [Message(each.id, each.delivery_key, "deliver") for each in reminders]
            if publisher.publish(messages) != len(messages):
                raise Broken("the broker did not take the drill's messages")
        finally:
            publisher.close()

    def tick(self, count: int = 1) -> None:
        """Wake the scan `count` times, as beat does."""
        self.send(SCAN_TASK, count, expires=self.settings.scan_every)

    def send(self, task: str, count: int = 1, *, expires: float | None = None) -> None:
        """Put `count` messages for a task that takes no arguments on its queue."""
        app = Celery(set_as_current=False, amqp="reminders.broker.transport:AMQP")
        app.conf.update(options(self.settings))
        with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
            for _ in range(count):
                app.send_task(task, expires=expires, producer=producer)
        app.close()

    # What it sees.

    @property
    def ids(self) -> list[UUID]:
        return [each.id for each in self.made]

    def counts(self) -> dict[str, int]:
        return self._ledger.counts(self.ids)

    def status(self, reminder: ScheduledReminder) -> str:
        """Of one reminder."""
        return next(iter(self._ledger.counts([reminder.id])))

    def attempts(self) -> list[AttemptMade]:
        return self._ledger.attempts(self.ids)

    def letters(self) -> list[LetterOpened]:
        return self._ledger.letters(self.ids)

    def live(self) -> list[ScheduledReminder]:
        """Those that have not reached their end."""
        live = set(self._ledger.live(self.ids))
        return [each for each in self.made if each.id in live]

    def ticks(self) -> tuple[int, int]:
        """Ticks taken and dropped, of the whole installation."""
        return self._ledger.ticks()

    def claimed_by(self, key: str) -> int:
        """The process that has an open claim on a delivery key, by its own record in the ledger. Raises `Broken`."""
        worker = self._ledger.claimed_by(key)
        if worker is None:
            raise Broken("G3: a call without an open claim on its delivery key")
        return int(worker.split(":")[1])

    def shutdown_noted(self, key: str) -> bool:
        """Whether the process with an open claim on a delivery key was told to stop, as the ledger has it."""
        return self._ledger.shutdown_noted(key)

    def calls(self, reminder: ScheduledReminder) -> int:
        return self.receiver.calls[reminder.delivery_key]

    def wait_until(self, condition: Callable[[], bool], what: str, seconds: float = PATIENCE) -> None:
        """Look until `condition` holds. Raises `Broken` after `seconds`. A Postgres that is away is waited for."""
        end = time.monotonic() + seconds
        while not self._holds(condition):
            if time.monotonic() > end:
                raise Broken(f"not within {seconds:g} s: {what}")
            self._pace.wait(_LOOK_EVERY)

    def pass_time(self, seconds: float) -> None:
        """Let so many seconds go by."""
        self._pace.wait(seconds)

    def wait_for_counts(self, wanted: dict[str, int], seconds: float = PATIENCE) -> None:
        """Return once the drill's reminders are in these states and no others. Raises `Broken`."""
        seen: dict[str, int] = {}

        def reached() -> bool:
            nonlocal seen
            seen = self.counts()
            return seen == wanted

        try:
            self.wait_until(reached, "", seconds)
        except Broken:
            raise Broken(f"G2: not within {seconds:g} s: {told(wanted)}; the ledger has {told(seen)}") from None

    def ended(self, wanted: dict[str, int], seconds: float = PATIENCE) -> None:
        """Wait for the ends that all reminders must come to, and note that they did."""
        self.wait_for_counts(wanted, seconds)
        self.check("G2", holds=True, text=f"every reminder reached its end: {told(wanted)}")

    def check_called_once_each(self, reminders: Sequence[ScheduledReminder]) -> None:
        """One call for each of them, none more."""
        numbers = sorted({self.calls(each) for each in reminders})
        self.check("G4", numbers == [1], f"calls per key: {', '.join(map(str, numbers))} (must be 1)")

    def check_in_review(self) -> None:
        """One dead letter waits for a person, because nobody can tell whether it was sent."""
        letters = [f"{letter.state}, {letter.kind}" for letter in self.letters()]
        self.check(
            "G4",
            letters == ["open, unknown"],
            f"dead letters: {'; '.join(letters) or 'none'} (must be one: open, unknown)",
        )

    def check_bodies(self) -> None:
        """Every attempt carried the same body under its key."""
        most = max((len(bodies) for bodies in self.receiver.bodies.values()), default=0)
        self.check("G4", most <= 1, f"different bodies under one key: {max(0, most - 1)}")

    @staticmethod
    def _holds(condition: Callable[[], bool]) -> bool:
        try:
            return condition()
        except DATABASE_AWAY:
            return False


def told(counts: dict[str, int]) -> str:
    """`3 delivered, 1 dead`."""
    return ", ".join(f"{number} {status}" for status, number in counts.items()) or "none"

"""A ledger with scripted neighbours: the real Postgres, and a broker, a gauge and a provider that do as they are told."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import psycopg2
from psycopg2.extensions import TRANSACTION_STATUS_INERROR, TRANSACTION_STATUS_INTRANS
from sqlalchemy.dialects.postgresql.psycopg2 import PGDialect_psycopg2

import reminders
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.identity import uuid7
from reminders.domain.look_ups import Found
from reminders.domain.outcomes import Delivered
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.closing_letters import redrive
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.review import LetterFilter
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.shadowing import PostgresShadow
from reminders.ledger.template_versions import TemplateVersions
from reminders.ledger.tenant_registry import ALONE, Dispatcher
from reminders.pipeline.deliver import Deliver, DeliverPolicy
from reminders.pipeline.finalize import Finalize, RetryPolicy
from reminders.pipeline.ports import Message, OnBroker, Report
from reminders.pipeline.repair import RepairPolicy, repair
from reminders.pipeline.scan import Scan, ScanPolicy
from reminders.pipeline.shadow import Shadow

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds after which something that has not happened is taken never to happen."""
CLAIM, LEASE, REDELIVER = 30.0, 60.0, 120.0
MAX_ATTEMPTS, MAX_WAIT = 8, 72 * 3600.0
RETRY = RetryPolicy(max_attempts=MAX_ATTEMPTS, delays=(5.0, 30.0, 300.0), max_wait=MAX_WAIT)
NOW = datetime.now(UTC)
"""When this process began: for what lies days away. `World.now` is when the test began: for all that is nearer."""


def until(what: Callable[[], T], wanted: str) -> T:
    """The first true answer of `what`; fails, naming what was wanted, when there is none in time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if answer := what():
            return answer
        time.sleep(0.005)
    raise AssertionError(f"never happened: {wanted}")


class Broker:
    """A publisher and a gauge. Takes what `accepts` allows; shows what it holds, or what `shows` says."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.accepts: int | None = None
        self.shows: int | None = None
        self.away = False
        self.batches: list[list[Message]] = []

    def publish(self, messages: Sequence[Message]) -> int:
        taken = list(messages) if self.accepts is None else list(messages)[: self.accepts]
        self.sent += taken
        self.batches.append(taken)
        return len(taken)

    def in_flight(self) -> OnBroker | None:
        if self.away:
            return None
        return OnBroker(len(self.sent) if self.shows is None else self.shows, 0)

    def take(self) -> list[Message]:
        """What workers would get: everything, once."""
        taken, self.sent = self.sent, []
        return taken


class ScriptedProvider:
    """Answers with the next of its outcomes, or delivers; notes every call. A callable outcome is called first."""

    channel = "log"
    deduplicates = True
    body_format = 1

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = deque(outcomes)
        self.calls: list[tuple[str, bytes, int]] = []
        self.body = b"body"

    def check_destination(self, destination: str) -> None: ...

    def render(self, delivery) -> bytes:
        return self.body

    def send(self, delivery, body: bytes, deadline: float):
        self.calls.append((delivery.delivery_key, body, delivery.attempt))
        outcome = self.outcomes.popleft() if self.outcomes else Delivered(reference=f"ref-{len(self.calls)}")
        return outcome() if callable(outcome) else outcome


class AskedProvider(ScriptedProvider):
    """One whose far side can be asked for a key: answers with the next of `answers`, or has found it."""

    looks_up = True
    settle = 0.0

    def __init__(self, *outcomes: Any, answers: Sequence[Any] = ()) -> None:
        super().__init__(*outcomes)
        self.answers = deque(answers)
        self.asked: list[str] = []

    def look_up(self, delivery, deadline: float):
        self.asked.append(delivery.delivery_key)
        answer = self.answers.popleft() if self.answers else Found("theirs")
        return answer() if callable(answer) else answer


@dataclass
class World:
    """What a test of the ledger needs at hand."""

    database: Any
    broker: Broker = field(default_factory=Broker)
    look_ups: tuple[str, ...] = ()
    """The channels whose far side can be asked for a key."""
    templated: tuple[str, ...] = ()
    """The channels whose messages are written by templates."""
    dispatcher: Dispatcher = ALONE
    """Who scans and claims, unless a test says otherwise."""
    now: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When the test began."""
    _threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max_workers=32))
    _connections: list[Any] = field(default_factory=list)
    _kept: threading.local = field(default_factory=threading.local)
    _names: Any = field(default_factory=itertools.count)

    def connect(self, **options: Any):
        """A caller's own psycopg2 connection."""
        _, given = PGDialect_psycopg2().create_connect_args(self.database.url)
        connection = psycopg2.connect(**{**given, **options})
        self._connections.append(connection)
        return connection

    def _own(self):
        """This thread's connection for what is committed at once: a new one for each such call would cost 15 ms."""
        kept = getattr(self._kept, "connection", None)
        if kept is None or kept.closed:
            kept = self._kept.connection = self.connect()
        return kept

    def close(self) -> None:
        for connection in self._connections:
            if connection.get_transaction_status() in (TRANSACTION_STATUS_INTRANS, TRANSACTION_STATUS_INERROR):
                # Of one that is only closed the server ends the transaction a moment later: the next test might still meet it.
                with suppress(psycopg2.Error):
                    connection.rollback()
            connection.close()
        self._threads.shutdown(wait=True)

    def start(self, work: Callable[..., T], *arguments: Any, **named: Any) -> Future[T]:
        """Run `work` in a thread."""
        return self._threads.submit(work, *arguments, **named)

    def wanted(self, **changed: Any) -> dict[str, Any]:
        """Arguments of `schedule`: due a minute ago, with a reference of its own."""
        given = {
            "tenant_id": "tenant-a",
            "user_id": "user-1",
            "kind": "note",
            "channel": "log",
            "destination": "somewhere",
            "due_at": self.now - timedelta(minutes=1),
            "reference": f"order-{next(self._names)}",
        }
        return {**given, **changed}

    def schedule(self, *, deduplicates: bool = True, **changed: Any):
        """Schedule one reminder and commit; `deduplicates` is what its channel promises by default."""
        with self._own() as connection:
            made = reminders.schedule(connection, **self.wanted(**changed))
            if not deduplicates:
                with connection.cursor() as cursor:
                    cursor.execute("UPDATE reminders.reminders SET deduplicates = false WHERE id = %s", (str(made.id),))
        return made

    def committed(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call an API function in a transaction of its own."""
        with self._own() as connection:
            return call(connection, *arguments, **named)

    def sql(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(query, arguments or None)
            return list(cursor.fetchall()) if cursor.description else []

    def status(self, reminder_id: UUID) -> tuple[str, str | None]:
        """What the reminder and its present delivery are."""
        query = """SELECT v.status, n.status FROM reminders.reminders_v1 v
                   LEFT JOIN reminders.notification_deliveries n ON n.delivery_key = v.delivery_key WHERE v.id = %s"""
        return self.sql(query, str(reminder_id))[0]

    def column(self, table: str, column: str, reminder_id: UUID) -> Any:
        key = "id" if table in {"due", "reminders", "reminders_v1"} else "reminder_id"
        rows = self.sql(f"SELECT {column} FROM reminders.{table} WHERE {key} = %s", str(reminder_id))
        return rows[0][0] if rows else None

    def attempts(self, reminder_id: UUID) -> list[tuple[int, str, str]]:
        """Number, outcome and error class of every attempt on record."""
        query = "SELECT claim_number, outcome, error_class FROM reminders.delivery_attempts WHERE reminder_id = %s ORDER BY 1"
        return self.sql(query, str(reminder_id))

    def letters(self, reminder_id: UUID) -> list[tuple[str, str, str]]:
        """Kind, state and error class of the reminder's dead letters, oldest first."""
        query = "SELECT kind, state, error_class FROM reminders.dead_letters WHERE reminder_id = %s ORDER BY opened_at"
        return self.sql(query, str(reminder_id))

    def lapse(self, seconds: float) -> datetime:
        """The time `seconds` from now, for parts that take a `now`."""
        return datetime.now(UTC) + timedelta(seconds=seconds)

    def scanning(self, *, now: datetime | None = None, dispatcher: Dispatcher | None = None, **policy: Any) -> Scan:
        """A scanner of its own, with its own memory."""
        given: dict[str, Any] = {"batch": 500, "in_flight": 256, "lease": LEASE, "redeliver": REDELIVER}
        whole = ScanPolicy(**{**given, "repair": RepairPolicy(MAX_ATTEMPTS, MAX_WAIT), **policy})
        ledger = PostgresScan(self.database, now, dispatcher=dispatcher or self.dispatcher)
        return Scan(ledger, self.broker, self.broker, whole)

    def published(self, now: datetime | None = None, dispatcher: Dispatcher | None = None) -> list[Message]:
        """Scan once and take what went out."""
        self.scanning(now=now, dispatcher=dispatcher, in_flight=10_000, batch=10_000).once()
        return self.broker.take()

    def called(self, now: datetime | None = None) -> list[UUID]:
        """Scan once, and claim for ever what went out: the ids of what is called, in their order."""
        claims = self.claims(now)
        messages = self.published(now)
        taken = [claims.claim(each.reminder_id, each.delivery_key, uuid7(), 1e6) for each in messages]
        assert None not in taken
        return [each.reminder_id for each in messages]

    def claims(
        self, now: datetime | None = None, worker: str = "worker-1", dispatcher: Dispatcher | None = None
    ) -> PostgresClaims:
        return PostgresClaims(self.database, worker=worker, **self._claiming(now, dispatcher))

    def shadow(self, provider: Any, now: datetime | None = None, dispatcher: Dispatcher | None = None) -> Shadow:
        """What a worker does with what is in shadow."""
        ledger = PostgresShadow(self.database, worker="worker-1", **self._claiming(now, dispatcher))
        return Shadow(ledger, lambda _: provider, TemplateVersions(self.database))

    def _claiming(self, now: datetime | None, dispatcher: Dispatcher | None) -> dict[str, Any]:
        given = {"look_ups": self.look_ups, "templated": self.templated, "now": now}
        return {**given, "formats": {"log": 1}, "dispatcher": dispatcher or self.dispatcher}

    def claim(self, made: Any, *, now: datetime | None = None, worker: str = "worker-1"):
        """Claim a reminder that is leased or published."""
        return self.claims(now, worker).claim(made.id, made.delivery_key, uuid7(), CLAIM)

    def opened(self, made: Any, *, now: datetime | None = None, worker: str = "worker-1"):
        """Publish what is due and claim this one."""
        self.published(now)
        claim = self.claim(made, now=now, worker=worker)
        assert claim is not None
        return claim

    def finalizing(self, *, now: datetime | None = None, policy: RetryPolicy = RETRY, ledger: Any = None) -> Finalize:
        ledger = ledger or PostgresFinalize(self.database, worker="worker-1", now=now)
        return Finalize(ledger, policy, DATABASE_FAULTS, pause=lambda _: None, jitter=lambda: 0.5)

    def finalize(self, claim: Any, outcome: Any, *, now: datetime | None = None, body_hash: bytes | None = None) -> str:
        return self.finalizing(now=now)(claim, Report(outcome, 3, body_hash))

    def deliver(
        self, provider: Any, *, now: datetime | None = None, dispatcher: Dispatcher | None = None, **parts: Any
    ) -> Deliver:
        """A worker; `parts` replaces any of its parts."""
        given: dict[str, Any] = {
            "claims": self.claims(now, dispatcher=dispatcher),
            "shadow": self.shadow(provider, now, dispatcher),
            "providers": lambda _: provider,
            "finalize": self.finalizing(now=now),
            "policy": DeliverPolicy(CLAIM, 10.0),
            "pause": lambda _: None,
        }
        return Deliver(**{**given, **parts})

    def repair(self, seconds: float = CLAIM + 1, limit: int = 100) -> int:
        """Repair as it would be `seconds` from now."""
        policy = RepairPolicy(MAX_ATTEMPTS, MAX_WAIT)
        return repair(PostgresScan(self.database, self.lapse(seconds)), policy, limit)

    def redrive(self, *made: Any, checked: bool = False) -> list[UUID]:
        """As an operator would."""
        wanted = LetterFilter(ids=[each.id for each in made])
        return redrive(self.database, wanted, actor="ada", reason="fixed", checked=checked).done

    def waiting_for(self, waiter: Any, holder: Any) -> None:
        """Return as soon as one connection waits for a lock that the other holds."""
        query = "SELECT pg_blocking_pids(%s) = ARRAY[%s]"
        pids = (waiter.info.backend_pid, holder.info.backend_pid)
        until(lambda: self.sql(query, *pids)[0][0], "the one waits for a lock of the other")

    def waiting_for_a_lock(self, count: int = 1) -> None:
        """Return as soon as `count` connections wait for a lock that somebody holds."""
        query = "SELECT count(*) >= %s FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
        until(lambda: self.sql(query, count)[0][0], f"{count} connections waiting for a lock")

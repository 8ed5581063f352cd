"""What Postgres may answer instead of doing its work costs no attempt: it is asked again, and nothing is called twice."""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg2
import pytest
from psycopg2 import errors

from integration.ledger.world import ScriptedProvider, until
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Retry
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import Database
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Report

TROUBLES = [
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.ReadOnlySqlTransaction,
    errors.TooManyConnections,
    errors.CannotConnectNow,
    errors.AdminShutdown,
    errors.QueryCanceled,
    psycopg2.InterfaceError,
]
HASH = b"h" * 32
SLEEP = Statement("sleep", "SELECT pg_sleep(60)", {})
ONE = Statement("one", "SELECT 1", {})


@dataclass
class Troubled:
    """A part of the ledger whose first calls fail as Postgres would."""

    part: object
    trouble: type[Exception]
    failures: int
    calls: list[str] = field(default_factory=list)

    def __getattr__(self, name):
        def call(*given):
            self.calls.append(name)
            if len(self.calls) <= self.failures:
                raise self.trouble("trouble")
            return getattr(self.part, name)(*given)

        return call


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.__name__)
@pytest.mark.parametrize(("outcome", "status"), [(Delivered("r"), "delivered"), (Retry("busy", ""), "pending")])
def test_an_outcome_is_offered_again_and_recorded_once(world, trouble, outcome, status):
    made = world.schedule()
    claim = world.opened(made)
    ledger = Troubled(PostgresFinalize(world.database, worker="worker-1"), trouble, failures=3)
    world.finalizing(ledger=ledger)(claim, Report(outcome, 1, HASH))
    assert len(ledger.calls) == 4
    assert world.status(made.id)[0] == status
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    assert world.column("due", "attempts", made.id) == (None if status == "delivered" else 1)


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda each: each.__name__)
def test_a_claim_that_was_not_taken_is_the_queues_to_retry_and_burns_nothing(world, trouble):
    made = world.schedule()
    world.published()
    provider = ScriptedProvider()
    claims = Troubled(world.claims(), trouble, failures=1)
    deliver = world.deliver(provider, claims=claims, faults=DATABASE_FAULTS)
    with pytest.raises(DATABASE_FAULTS):
        deliver(made.id, made.delivery_key)
    assert (provider.calls, world.attempts(made.id)) == ([], [])
    assert world.column("due", "attempts", made.id) == 0
    assert deliver(made.id, made.delivery_key) == "delivered"
    assert len(provider.calls) == 1


@pytest.fixture
def crowded(world):
    """A database handle whose role may open a single connection, and the connection that has taken it."""
    world.sql("CREATE ROLE crowded LOGIN PASSWORD 'c' CONNECTION LIMIT 1")
    for schema in ("reminders", "audit"):  # these tests' triggers write to the second one
        world.sql(f"GRANT USAGE ON SCHEMA {schema} TO crowded")
        world.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO crowded")
        world.sql(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA {schema} TO crowded")
    url = world.database.url.set(username="crowded", password="c")
    holder = world.connect(user="crowded", password="c")
    own = Database(url.render_as_string(hide_password=False), schema="reminders", pool_size=2)
    yield own, holder
    own.close()
    holder.close()
    world.sql("DROP OWNED BY crowded")
    world.sql("DROP ROLE crowded")


def test_out_of_connections_it_waits_and_recovers_without_a_restart(world, crowded):
    own, holder = crowded
    made = world.schedule()
    claim = world.opened(made)
    waited = []

    def pause(seconds):
        waited.append(seconds)
        if len(waited) == 3:
            holder.close()

    finalize = world.finalizing(ledger=PostgresFinalize(own, worker="worker-1"))
    ended = type(finalize)(finalize.ledger, finalize.policy, DATABASE_FAULTS, pause=pause, jitter=lambda: 0.5)(
        claim, Report(Retry("busy", ""), 1, HASH)
    )
    assert ended == "parked"
    assert len(waited) >= 3
    assert sorted(waited) == waited, "it backs off"
    assert world.attempts(made.id) == [(1, "retry", "busy")]


def test_out_of_connections_a_claim_is_left_to_the_queue(world, crowded):
    own, holder = crowded
    made = world.schedule()
    world.published()
    claims = PostgresClaims(own, worker="worker-1", formats={"log": 1})
    with pytest.raises(DATABASE_FAULTS, match="too many connections"):
        claims.claim(made.id, made.delivery_key, uuid7(), 30.0)
    pid = holder.info.backend_pid
    holder.close()
    # Its server process still counts until it has ended, which this waits for.
    world.sql("SELECT pg_terminate_backend(%s, 15000)", pid)
    assert claims.claim(made.id, made.delivery_key, uuid7(), 30.0) is not None


def test_who_waits_for_a_connection_while_all_in_use_are_lost_gets_another_one(world):
    """As when Postgres restarts under a busy worker: 30 s later its claims have ended, and its calls are made again."""
    url = world.database.url.render_as_string(hide_password=False)
    database = Database(url, schema="reminders", pool_size=1, application_name="loses-all")
    asleep = "SELECT pid FROM pg_stat_activity WHERE application_name = 'loses-all' AND wait_event = 'PgSleep'"
    user = world.start(database.fetch, SLEEP)
    until(lambda: world.sql(asleep), "the only connection is in use")
    waiting = [world.start(database.fetch, ONE) for _ in range(3)]
    until(lambda: len(database._engine.pool._pool.not_empty._waiters) == 3, "others wait for it")

    world.sql(f"SELECT pg_terminate_backend(pid) FROM ({asleep}) AS busy")

    assert isinstance(user.exception(timeout=10), DATABASE_FAULTS)
    assert [each.result(timeout=10) for each in waiting] == [[(1,)]] * 3
    database.close()

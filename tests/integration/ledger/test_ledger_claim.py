"""The claim: one right to call at a time, for the present key, while nothing stands against it (G3, G4)."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier

import psycopg2
import pytest

import reminders
from integration.ledger.world import CLAIM, ScriptedProvider
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Retry, Unknown
from reminders.ledger.claiming import DEDUP_WINDOW, PostgresClaims
from reminders.ledger.database import Database

LOST = Unknown("timeout", "no answer", timed_out=True)
AGAIN = Retry("busy", "try later")


def test_the_same_message_twice_calls_the_provider_once(world):
    made = world.schedule()
    world.published()
    provider = ScriptedProvider()
    deliver = world.deliver(provider)
    assert deliver(made.id, made.delivery_key) == "delivered"
    assert deliver(made.id, made.delivery_key) == "delivered"
    assert len(provider.calls) == 1
    assert world.attempts(made.id) == [(1, "delivered", "")]


def test_the_same_message_while_the_call_is_open_finds_it_claimed(world):
    made = world.schedule()
    world.published()
    second = ScriptedProvider()
    answers = []

    def meanwhile():
        answers.append(world.deliver(second)(made.id, made.delivery_key))
        return AGAIN

    assert world.deliver(ScriptedProvider(meanwhile))(made.id, made.delivery_key) == "parked"
    assert world.deliver(second)(made.id, made.delivery_key) == "parked"
    assert answers == ["claimed"]
    assert second.calls == []


def test_eight_at_once_get_one_claim(world):
    made = world.schedule()
    world.published()
    barrier = Barrier(8)

    def ask():
        barrier.wait()
        return world.claims().claim(made.id, made.delivery_key, uuid7(), CLAIM)

    claims = [each.result(timeout=20) for each in [world.start(ask) for _ in range(8)]]
    assert [claim.claim_number for claim in claims if claim is not None] == [1]


def test_eight_deliveries_at_once_make_one_call(world):
    made = world.schedule()
    world.published()
    provider, barrier = ScriptedProvider(), Barrier(8)

    def work():
        barrier.wait()
        return world.deliver(provider)(made.id, made.delivery_key)

    answers = [each.result(timeout=20) for each in [world.start(work) for _ in range(8)]]
    assert len(provider.calls) == 1
    assert "delivered" in answers
    assert set(answers) <= {"delivered", "claimed", "busy"}
    assert world.status(made.id) == ("delivered", "delivered")


@pytest.mark.parametrize("table", ["reminders.due", "reminders.reminders"])
def test_foreign_key_locks_of_a_caller_stop_no_claim(world, table):
    made = world.schedule()
    world.published()
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute(f"SELECT 1 FROM {table} WHERE id = %s FOR KEY SHARE", (str(made.id),))
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"
    holder.rollback()


def test_an_applications_own_foreign_key_to_a_reminder_stops_no_claim(world):
    made = world.schedule()
    world.published()
    world.sql(
        "CREATE TABLE IF NOT EXISTS audit.orders (reminder_id uuid REFERENCES reminders.reminders ON DELETE CASCADE)"
    )
    holder = world.connect()
    try:
        with holder.cursor() as cursor:
            cursor.execute("INSERT INTO audit.orders VALUES (%s)", (str(made.id),))
        assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"
    finally:
        holder.rollback()
        world.sql("DROP TABLE audit.orders")


def test_a_message_from_before_a_reschedule_is_superseded(world):
    made = world.schedule()
    world.published()
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now - timedelta(seconds=30))
    provider = ScriptedProvider()
    deliver = world.deliver(provider)
    assert deliver(made.id, made.delivery_key) == "superseded"
    world.published()
    assert deliver(made.id, made.delivery_key) == "superseded"
    assert deliver(made.id, moved.delivery_key) == "delivered"
    assert deliver(made.id, made.delivery_key) == "superseded"
    assert [key for key, *_ in provider.calls] == [moved.delivery_key]


def test_a_reschedule_that_commits_while_the_claim_asks_again_is_seen(world):
    made = world.schedule()
    world.published()
    connection = world.connect()
    reminders.reschedule(connection, made.id, due_at=world.now + timedelta(days=1))
    provider = ScriptedProvider()
    deliver = world.deliver(provider, pause=lambda _: connection.commit())
    assert deliver(made.id, made.delivery_key) == "superseded"
    assert provider.calls == []


@pytest.mark.parametrize("message", [("unknown", "key"), ("known", "another key"), ("known", "")])
def test_a_message_for_nothing_we_know_is_dropped(world, message):
    made = world.schedule()
    world.published()
    reminder_id = made.id if message[0] == "known" else uuid7()
    answer = world.deliver(ScriptedProvider())(reminder_id, message[1])
    assert answer == ("superseded" if message[0] == "known" else "gone")


def test_a_redelivered_message_leaves_a_parked_retry_alone(world):
    made = world.schedule()
    world.published()
    provider = ScriptedProvider(AGAIN)
    deliver = world.deliver(provider)
    assert deliver(made.id, made.delivery_key) == "parked"
    assert deliver(made.id, made.delivery_key) == "parked"
    assert len(provider.calls) == 1


def test_a_message_that_comes_while_the_row_is_leased_again_is_claimed(world):
    made = world.schedule()
    world.published()
    world.broker.accepts = 0
    world.scanning(now=world.lapse(200)).once()
    assert world.status(made.id)[0] == "leased"
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "delivered"


def test_a_message_that_comes_after_a_republish_is_harmless(world):
    made = world.schedule()
    first = world.published()
    again = world.published(world.lapse(130))
    assert first == again
    provider = ScriptedProvider()
    deliver = world.deliver(provider)
    assert [deliver(m.reminder_id, m.delivery_key) for m in first + again] == ["delivered", "delivered"]
    assert len(provider.calls) == 1
    assert world.status(made.id)[0] == "delivered"


def test_expiry_is_looked_at_by_the_claim(world):
    made = world.schedule(expires_at=world.now + timedelta(minutes=5))
    world.published()
    provider = ScriptedProvider()
    late = world.now + timedelta(minutes=5)
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "expired"
    assert provider.calls == []
    assert world.status(made.id) == ("expired", None)
    assert world.letters(made.id) == []


def test_a_moment_before_its_expiry_it_is_sent(world):
    expiry = world.lapse(300)
    made = world.schedule(expires_at=expiry)
    world.published()
    early = expiry - timedelta(microseconds=1)
    assert world.deliver(ScriptedProvider(), now=early)(made.id, made.delivery_key) == "delivered"


def test_a_retry_that_would_come_after_the_expiry_wakes_at_it_and_expires(world):
    expiry = world.lapse(600)
    made = world.schedule(expires_at=expiry)
    world.finalize(world.opened(made), Retry("busy", "much later", after=timedelta(hours=1)))
    assert world.column("due", "wake_at", made.id) == expiry
    late = world.lapse(601)
    world.published(late)
    assert world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key) == "expired"
    assert world.status(made.id) == ("expired", "expired")


def test_an_uncertain_delivery_does_not_expire_but_goes_to_review(world):
    made = world.schedule(expires_at=world.now + timedelta(hours=1))
    world.finalize(world.opened(made), LOST)
    late = world.now + timedelta(hours=1)
    world.published(late)
    provider = ScriptedProvider()
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "dead"
    assert provider.calls == []
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "expired_while_uncertain")]


def test_an_uncertain_delivery_is_not_repeated_after_the_deduplication_window(world):
    """The machines were off for a week: the destination may have forgotten the key."""
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    late = world.lapse(DEDUP_WINDOW + 1)
    world.published(late)
    provider = ScriptedProvider()
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "dead"
    assert provider.calls == []
    assert world.letters(made.id) == [("unknown", "open", "not_repeatable")]


@pytest.mark.parametrize("lost", [False, True])
def test_an_application_that_holds_the_reminder_holds_up_no_worker_that_would_end_it(world, lost):
    made = world.schedule(expires_at=world.lapse(300))
    if lost:
        world.finalize(world.opened(made), LOST)
    late = world.lapse(600)
    world.published(world.lapse(200))
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders WHERE id = %s FOR UPDATE", (str(made.id),))
    provider = ScriptedProvider()
    deliver = world.deliver(provider, now=late)
    assert world.start(deliver, made.id, made.delivery_key).result(timeout=10) == "busy"
    assert world.status(made.id)[0] == "published"
    holder.rollback()
    assert deliver(made.id, made.delivery_key) == ("dead" if lost else "expired")
    assert provider.calls == []


def test_a_retry_that_is_certain_is_repeated_however_late(world):
    made = world.schedule()
    world.finalize(world.opened(made), AGAIN)
    late = world.lapse(DEDUP_WINDOW * 4)
    world.published(late)
    assert world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key) == "delivered"


@pytest.mark.parametrize(("deduplicates", "stamped"), [(True, "repeat"), (False, "review")])
def test_the_claim_stamps_what_follows_from_an_unknown_outcome(world, deduplicates, stamped):
    made = world.schedule(deduplicates=deduplicates)
    claim = world.opened(made)
    assert claim.on_unknown == stamped
    assert world.column("notification_deliveries", "on_unknown", made.id) == stamped
    lasts = world.column("notification_deliveries", "claimed_until - claimed_at", made.id)
    assert lasts == timedelta(seconds=CLAIM)
    assert world.column("due", "wake_at", made.id) == world.column("notification_deliveries", "claimed_until", made.id)


def test_the_first_claim_pins_the_body_format_for_all_attempts(world):
    made = world.schedule()
    world.finalize(world.opened(made), AGAIN)
    late = world.lapse(60)
    world.published(late)
    newer = PostgresClaims(world.database, worker="w2", formats={"log": 2}, now=late)
    claim = newer.claim(made.id, made.delivery_key, uuid7(), CLAIM)
    assert (claim.claim_number, claim.delivery.attempt, claim.delivery.body_format) == (2, 2, 1)


def test_a_database_that_is_away_raises_what_the_queue_retries(world):
    nowhere = Database("postgresql://u:p@127.0.0.1:1/nothing", schema="reminders")
    claims = PostgresClaims(nowhere, worker="w", formats={})
    with pytest.raises(DATABASE_FAULTS):
        world.deliver(ScriptedProvider(), claims=claims)(uuid7(), "key")
    nowhere.close()


def test_a_connection_that_was_cut_is_replaced(world):
    """Postgres restarted: at most one failure per process, then the pool connects anew."""
    made = world.schedule()
    world.published()
    own = Database(world.database.url.render_as_string(hide_password=False), schema="reminders", pool_size=3)
    claims = PostgresClaims(own, worker="w", formats={"log": 1})
    assert claims.refusal(uuid7(), "key") == "gone"
    query = "SELECT pg_terminate_backend(pid, 15000) FROM pg_stat_activity WHERE application_name = 'reminders' AND pid <> pg_backend_pid() AND state = 'idle'"
    world.sql(query)
    with pytest.raises(psycopg2.OperationalError):
        claims.claim(made.id, made.delivery_key, uuid7(), CLAIM)
    assert claims.claim(made.id, made.delivery_key, uuid7(), CLAIM) is not None
    own.close()

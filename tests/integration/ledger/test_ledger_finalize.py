"""Recording outcomes: once, whole, never lost to a lock, a fault or the wording of a reply (G4, G6, G7)."""

from __future__ import annotations

import hashlib
import logging
from datetime import timedelta

import psycopg2
import pytest

import reminders
from integration.ledger.world import MAX_WAIT, ScriptedProvider
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.ledger.finalizing import PostgresFinalize
from reminders.pipeline import finalize as stage
from reminders.pipeline.finalize import RetryPolicy
from reminders.pipeline.ports import Report

AGAIN = Retry("busy", "try later", status_code=503)
LOST = Unknown("timeout", "no answer", timed_out=True)
NO = Rejected("gone", "refused", status_code=404)
HASH = hashlib.sha256(b"body").digest()


def test_a_delivery_is_on_record_with_everything_about_it(world):
    made = world.schedule()
    claim = world.opened(made)
    assert world.finalize(claim, Delivered("ref-1", 200), body_hash=HASH) == "delivered"
    assert world.status(made.id) == ("delivered", "delivered")
    row = world.sql(
        "SELECT claim_number, claimed_at, worker, outcome, status_code, provider_reference, error_class, reason, duration_ms,"
        " decision FROM reminders.delivery_attempts"
    )[0]
    assert row == (1, claim.claimed_at, "worker-1", "delivered", 200, "ref-1", "", "", 3, "delivered")
    assert bytes(world.column("notification_deliveries", "body_hash", made.id)) == HASH
    assert world.column("due", "status", made.id) is None


def test_finalizing_twice_changes_nothing_the_second_time(world):
    made = world.schedule()
    claim = world.opened(made)
    assert world.finalize(claim, Delivered("ref-1", 200)) == "delivered"
    assert world.finalize(claim, NO) == "lapsed"
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.attempts(made.id) == [(1, "delivered", "")]


@pytest.mark.parametrize(
    ("outcome", "after", "again"),
    [
        (Retry("busy", ""), 5.0, "deliver"),
        (Retry("busy", "", after=timedelta(minutes=2)), 120.0, "deliver"),
        (Retry("busy", "", after=timedelta(seconds=1)), 5.0, "deliver"),
        (Unknown("reset", ""), 5.0, "deliver"),
        (Unknown("timeout", "", timed_out=True), 5.0, "retry"),
    ],
    ids=["default", "asked for", "asked for less", "unknown", "timed out"],
)
def test_a_retry_is_parked_in_the_ledger_for_its_delay(world, outcome, after, again):
    made = world.schedule()
    claim = world.opened(made)
    now = world.lapse(2)
    assert world.finalize(claim, outcome, now=now) == "parked"
    assert world.status(made.id) == ("pending", "retrying")
    assert world.column("due", "wake_at", made.id) == now + timedelta(seconds=after)
    assert (world.column("due", "route", made.id), world.column("due", "attempts", made.id)) == (again, 1)
    assert world.published(now + timedelta(seconds=after - 0.1)) == []
    (message,) = world.published(now + timedelta(seconds=after))
    assert (message.delivery_key, message.route) == (made.delivery_key, again)


def test_retries_end_in_a_dead_letter_after_so_many_attempts(world):
    made = world.schedule()
    policy = RetryPolicy(max_attempts=3, delays=(5.0,), max_wait=MAX_WAIT)
    answers = []
    for number in range(3):
        claim = world.opened(made, now=world.lapse(60 * number))
        answers.append(world.finalizing(now=world.lapse(60 * number), policy=policy)(claim, Report(AGAIN, 1, HASH)))
    assert answers == ["parked", "parked", "dead"]
    assert world.status(made.id) == ("dead", "dead")
    assert world.letters(made.id) == [("destination", "open", "busy")]
    assert world.attempts(made.id) == [(number, "retry", "busy") for number in (1, 2, 3)]
    assert world.published(world.lapse(86400 * 30)) == []


def test_all_waiting_together_is_bounded(world):
    made = world.schedule()
    policy = RetryPolicy(max_attempts=1000, delays=(5.0,), max_wait=100.0)

    def attempt(seconds):
        now = world.now + timedelta(seconds=seconds)
        claim = world.opened(made, now=now)
        return claim.waited, world.finalizing(now=now, policy=policy)(claim, Report(AGAIN, 1, HASH))

    assert [attempt(seconds) for seconds in (0, 94, 106)] == [(0, "parked"), (94, "parked"), (106, "dead")]


@pytest.mark.parametrize("wait", [timedelta(days=30), timedelta(days=10**8)])
def test_a_wait_beyond_all_bounds_is_refused_at_once(world, wait):
    made = world.schedule()
    assert world.finalize(world.opened(made), Retry("busy", "", after=wait)) == "dead"


@pytest.mark.parametrize(("deduplicates", "status"), [(True, ("pending", "retrying")), (False, ("dead", "unknown"))])
def test_an_unknown_outcome_is_repeated_only_where_it_deduplicates(world, deduplicates, status):
    made = world.schedule(deduplicates=deduplicates)
    world.finalize(world.opened(made), LOST)
    assert world.status(made.id) == status
    assert world.column("notification_deliveries", "uncertain_since", made.id) is not None
    assert world.letters(made.id) == ([] if deduplicates else [("unknown", "open", "timeout")])


@pytest.mark.parametrize(("outcome", "letter"), [(NO, "unknown"), (Delivered(), None)], ids=["refused", "delivered"])
def test_uncertainty_stays_until_a_delivery_is_confirmed(world, outcome, letter):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    since = world.column("notification_deliveries", "uncertain_since", made.id)
    late = world.lapse(60)
    world.finalize(world.opened(made, now=late), AGAIN, now=late)
    assert world.column("notification_deliveries", "uncertain_since", made.id) == since
    later = world.lapse(600)
    world.finalize(world.opened(made, now=later), outcome, now=later)
    if letter is None:
        assert world.status(made.id) == ("delivered", "delivered")
        assert world.column("notification_deliveries", "uncertain_since", made.id) is None
    else:
        assert world.letters(made.id) == [(letter, "open", "gone")]
        assert world.column("notification_deliveries", "uncertain_since", made.id) == since


@pytest.mark.parametrize(
    "reference",
    ["a\x00b", "\ud800", "x" * 10_000, "", None, 17],
    ids=["NUL", "surrogate", "long", "empty", "none", "int"],
)
def test_a_success_whose_reply_cannot_be_stored_is_still_a_success(world, reference):
    made = world.schedule()
    world.published()
    provider = ScriptedProvider(Delivered(reference=reference, status_code=2**40, reason="\x00\udfff"))
    assert world.deliver(provider)(made.id, made.delivery_key) == "delivered"
    assert world.status(made.id) == ("delivered", "delivered")


@pytest.mark.parametrize("outcome", [Retry("a\x00", "b\ud800"), Rejected("\x00", "\x00"), Unknown("\ud800", "")])
def test_an_outcome_of_unstorable_words_is_on_record_all_the_same(world, outcome):
    made = world.schedule()
    world.finalize(world.opened(made), outcome)
    assert [name for _, name, _ in world.attempts(made.id)] == [outcome.name]


class Faulty:
    """A ledger whose first calls fail as a database that is away does, before or after Postgres has committed."""

    def __init__(self, ledger, *, failures: int, after_commit: bool) -> None:
        self._ledger, self._failures, self._after = ledger, failures, after_commit
        self.calls: list[str] = []

    def __getattr__(self, name):
        def call(*given):
            self.calls.append(name)
            answer = getattr(self._ledger, name)(*given) if self._after or self._failures <= 0 else None
            self._failures -= 1
            if self._failures >= 0:
                raise psycopg2.OperationalError("server closed the connection unexpectedly")
            return answer

        return call


def faulty(world, failures: int, *, after_commit: bool = False) -> Faulty:
    return Faulty(PostgresFinalize(world.database, worker="worker-1"), failures=failures, after_commit=after_commit)


@pytest.mark.parametrize("outcome", [Delivered("r"), AGAIN, NO, LOST], ids=lambda value: value.name)
def test_a_database_that_is_away_is_asked_again_until_it_takes_the_outcome(world, outcome):
    made = world.schedule()
    claim = world.opened(made)
    ledger = faulty(world, 5)
    world.finalizing(ledger=ledger)(claim, Report(outcome, 1, HASH))
    assert len(ledger.calls) == 6
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]


@pytest.mark.parametrize("outcome", [Delivered("r"), AGAIN, NO, LOST], ids=lambda value: value.name)
def test_an_outcome_whose_commit_was_not_confirmed_is_recorded_once(world, outcome):
    made = world.schedule()
    claim = world.opened(made)
    world.finalizing(ledger=faulty(world, 1, after_commit=True))(claim, Report(outcome, 1, HASH))
    assert world.attempts(made.id) == [(1, outcome.name, outcome.error_class)]
    assert world.column("notification_deliveries", "confirmed_late_at", made.id) is None
    status = world.status(made.id)
    world.repair()
    assert world.status(made.id) == status


@pytest.mark.usefixtures("impatient")
def test_an_outcome_recorded_alone_is_recorded_once_however_often_it_is_offered(world):
    """Its commit was not confirmed, and when it is offered again the caller's lock may still be there, or gone."""
    made = world.schedule()
    claim = world.opened(made)
    holder = world.connect()
    assert reminders.cancel(holder, made.id) == "requested"
    ledger = faulty(world, 1, after_commit=True)
    assert world.finalizing(ledger=ledger)(claim, Report(Delivered("r"), 1, HASH)) == "lapsed"
    holder.rollback()
    assert world.finalize(claim, AGAIN) == "lapsed"
    assert world.status(made.id) == ("sending", "delivered")
    world.repair()
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.attempts(made.id) == [(1, "delivered", "")]


def test_giving_back_is_asked_again_too_and_never_raises(world):
    made = world.schedule()
    claim = world.opened(made)
    assert world.finalizing(ledger=faulty(world, 3)).give_back(claim, 1.0) == "given_back"
    assert world.status(made.id) == ("pending", "retrying")


@pytest.mark.parametrize("what", ["outcome", "give_back"])
def test_after_two_minutes_the_outcome_is_in_the_log_alone(world, monkeypatch, caplog, what):
    made = world.schedule()
    claim = world.opened(made)
    clock = iter(range(0, 10_000, 30))
    monkeypatch.setattr(stage.time, "monotonic", lambda: next(clock))
    finalizing = world.finalizing(ledger=faulty(world, 1000))
    with caplog.at_level(logging.CRITICAL):
        answer = (
            finalizing(claim, Report(Delivered("r"), 1, HASH))
            if what == "outcome"
            else finalizing.give_back(claim, 1.0)
        )
    assert answer == "not_recorded"
    assert made.delivery_key in caplog.text
    assert world.status(made.id) == ("sending", "sending")


def test_a_caller_waits_only_for_the_moment_of_finalize(world):
    """No transaction is open during the call: a cancel gets its answer while the provider works."""
    made = world.schedule()
    world.published()
    answers = []

    def meanwhile():
        answers.append(world.committed(reminders.cancel, made.id))
        answers.append(world.sql("SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'")[0][0])
        return Delivered()

    world.deliver(ScriptedProvider(meanwhile))(made.id, made.delivery_key)
    assert answers == ["requested", 0]

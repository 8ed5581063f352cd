"""A provider that breaks its contract in every way costs its own reminder an attempt at most, and the pipeline nothing."""

from __future__ import annotations

import itertools
import logging
from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import AskedProvider, ScriptedProvider
from reminders.domain.errors import InvalidInput
from reminders.domain.look_ups import Absent, Found, Undecided
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.pipeline.deliver import DeliverPolicy
from reminders.providers.log import LogProvider

SECOND = timedelta(seconds=1)
HUGE = "x" * 1_000_000
UNSTORABLE = "a\0b\ud800c"


def published(world, **wanted):
    made = world.schedule(**wanted)
    world.published()
    return made


@pytest.mark.parametrize(
    ("outcome", "status", "record"),
    [
        (Delivered(reference=12), ("delivered", "delivered"), ("delivered", "12", "")),
        (Delivered(reference=object()), ("delivered", "delivered"), ("delivered", None, "")),
        (Delivered(UNSTORABLE, 10**30, HUGE, UNSTORABLE), ("delivered", "delivered"), ("delivered", "a\ufffdb?c", HUGE[:500])),
        (Retry("c", HUGE, after=-100 * SECOND), ("pending", "retrying"), ("retry", None, HUGE[:500])),
        (Retry("c", "r", after=30), ("pending", "retrying"), ("retry", None, "r")),
        (Retry("c", "r", after=timedelta.max), ("dead", "dead"), ("retry", None, "r")),
        (Retry(None, None, "503"), ("pending", "retrying"), ("retry", None, "(NoneType in place of text)")),
        (Rejected("c", UNSTORABLE, gone="perhaps"), ("dead", "dead"), ("rejected", None, "a\ufffdb?c")),
        (Unknown(HUGE, "r", True, "maybe"), ("pending", "retrying"), ("unknown", None, "r")),
        (Blocked("tenant", SECOND, "c", "r"), ("pending", "retrying"), ("retry", None, "r")),
        (Blocked("destination", 5, "c", "r"), ("pending", "retrying"), ("retry", None, "r")),
        (Blocked("destination", timedelta.min, "c", "r"), ("pending", "retrying"), ("blocked", None, "r")),
        (Blocked("provider", timedelta.max, "c", "r"), ("pending", "retrying"), ("blocked", None, "r")),
    ],
)  # fmt: skip
def test_wild_values_keep_no_outcome_from_being_recorded(world, outcome, status, record):
    made = published(world)
    world.deliver(ScriptedProvider(outcome))(made.id, made.delivery_key)
    assert world.status(made.id) == status
    query = "SELECT outcome, provider_reference, reason FROM reminders.delivery_attempts WHERE reminder_id = %s"
    assert world.sql(query, str(made.id)) == [record]
    if status[0] == "pending":
        assert world.column("due", "wake_at", made.id) is not None


def exits():
    raise SystemExit(1)


@pytest.mark.parametrize(("deduplicates", "answer"), [(True, "parked"), (False, "dead")])
def test_a_provider_that_tries_to_end_the_process_may_have_sent(world, deduplicates, answer):
    made = published(world, deduplicates=deduplicates)
    assert world.deliver(ScriptedProvider(exits))(made.id, made.delivery_key) == answer
    assert world.attempts(made.id) == [(1, "unknown", "provider_raised")]


def in_doubt(world, provider):
    made = published(world, deduplicates=False)
    assert world.deliver(provider)(made.id, made.delivery_key) == "parked"
    late = world.lapse(60)
    world.published(late)
    return made, late


@pytest.mark.parametrize(
    ("answer", "outcome", "status"),
    [
        (exits, "unknown", "pending"),
        (Found(b"theirs", "200"), "delivered", "delivered"),
        (Absent(None, 10**30), "retry", "pending"),
        (Undecided(None, HUGE, UNSTORABLE, "no"), "unknown", "pending"),
    ],
    ids=["exits", "found", "absent", "undecided"],
)
def test_wild_answers_of_a_look_up_are_recorded(world, answer, outcome, status):
    world.look_ups = ("log",)
    provider = AskedProvider(Unknown("c", "r"), answers=[answer])
    made, late = in_doubt(world, provider)
    world.deliver(provider, now=late)(made.id, made.delivery_key)
    assert world.attempts(made.id)[-1][1] == outcome
    assert world.status(made.id)[0] == status


def test_a_call_that_outlasts_its_claim_is_repeated_and_its_late_success_counts(world):
    """The hang itself holds one thread of the worker; the ledger goes on without it."""
    made = published(world)

    def hangs_meanwhile():
        assert world.repair() == 1
        late = world.lapse(100)
        world.published(late)
        again = world.deliver(ScriptedProvider(Retry("busy", "later")), now=late)
        assert again(made.id, made.delivery_key) == "parked"
        return Delivered("in the end")

    assert world.deliver(ScriptedProvider(hangs_meanwhile))(made.id, made.delivery_key) == "lapsed"
    late = world.lapse(1000)
    world.published(late)
    world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key)
    assert world.status(made.id) == ("delivered", "delivered")


def test_a_call_that_returns_after_its_deadline_is_named_in_the_log(world, caplog, monkeypatch):
    made = published(world)
    ticks = itertools.count(0, 6)
    monkeypatch.setattr("reminders.pipeline.deliver.time.monotonic", lambda: float(next(ticks)))
    with caplog.at_level(logging.ERROR, logger="reminders.pipeline.deliver"):
        world.deliver(ScriptedProvider(), policy=DeliverPolicy(30.0, 4.9))(made.id, made.delivery_key)
    assert f"deliver.overran channel=log key={made.delivery_key} seconds=" in caplog.text


def test_a_destination_check_that_raises_refuses_the_destination_and_leaves_the_transaction_usable(
    world, monkeypatch, caplog
):
    def check(self, destination):
        raise KeyError(destination)

    with world.connect() as connection, connection.cursor() as cursor:
        with monkeypatch.context() as patched:
            patched.setattr(LogProvider, "check_destination", check)
            with pytest.raises(
                InvalidInput, match=r"^destination: could not be checked: .* channel log raised KeyError$"
            ):
                reminders.schedule(connection, **world.wanted(destination="somebody@example.org"))
        cursor.execute("SELECT 1")
    assert "somebody@" not in caplog.text


def leaks(*_):
    raise ValueError(f"{'some'}body@example.org")


@pytest.mark.parametrize("part", ["send", "render"])
def test_the_text_of_an_exception_is_not_logged_and_where_it_comes_from_is(world, caplog, part):
    made = published(world)
    provider = ScriptedProvider()
    setattr(provider, part, leaks)
    world.deliver(provider)(made.id, made.delivery_key)
    assert "ValueError" in caplog.text
    assert "in leaks" in caplog.text
    assert "somebody" not in caplog.text


def test_nor_is_that_of_a_look_up(world, caplog):
    world.look_ups = ("log",)
    provider = AskedProvider(Unknown("c", "r"), answers=[leaks])
    made, late = in_doubt(world, provider)
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "parked"
    assert "in leaks" in caplog.text
    assert "somebody" not in caplog.text

"""One message carried through: what is called, what is not, and what the ledger shows afterwards (G3, G4, G6)."""

from __future__ import annotations

import hashlib
import logging
from datetime import timedelta

import pytest

import reminders
from integration.ledger.world import CLAIM, MAX_WAIT, ScriptedProvider
from reminders.domain.errors import SettingsError
from reminders.domain.outcomes import Delivered, Rejected, Retry, Unknown
from reminders.pipeline.deliver import DeliverPolicy

AGAIN = Retry("busy", "try later")
LOST = Unknown("timeout", "no answer", timed_out=True)


def published(world, **wanted):
    made = world.schedule(**wanted)
    world.published()
    return made


@pytest.mark.parametrize(
    ("outcome", "answer", "status"),
    [
        (Delivered("r"), "delivered", ("delivered", "delivered")),
        (AGAIN, "parked", ("pending", "retrying")),
        (Rejected("gone", ""), "dead", ("dead", "dead")),
        (LOST, "parked", ("pending", "retrying")),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_outcome_ends_in_its_state(world, outcome, answer, status):
    made = published(world)
    assert world.deliver(ScriptedProvider(outcome))(made.id, made.delivery_key) == answer
    assert world.status(made.id) == status


def test_every_attempt_carries_the_same_key_and_body_and_its_own_number(world):
    made = published(world)
    provider = ScriptedProvider(AGAIN, AGAIN)
    at = 0
    while world.status(made.id)[0] != "delivered":
        world.published(world.lapse(at))
        world.deliver(provider, now=world.lapse(at))(made.id, made.delivery_key)
        at += 400
    assert provider.calls == [(made.delivery_key, b"body", number) for number in (1, 2, 3)]
    assert bytes(world.column("notification_deliveries", "body_hash", made.id)) == hashlib.sha256(b"body").digest()


@pytest.mark.parametrize(("first", "letter"), [(AGAIN, "pipeline"), (LOST, "unknown")], ids=["certain", "uncertain"])
def test_a_body_that_changed_is_not_sent_but_shown_to_our_operators(world, first, letter):
    made = published(world)
    provider = ScriptedProvider(first)
    world.deliver(provider)(made.id, made.delivery_key)
    late = world.lapse(60)
    world.published(late)
    provider.body = b"another body"
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "dead"
    assert len(provider.calls) == 1
    assert world.letters(made.id) == [(letter, "open", "body_changed")]


@pytest.mark.parametrize("body", [None, "text", 7, ValueError("broken"), KeyError("x")], ids=repr)
def test_a_body_that_cannot_be_built_is_a_letter_for_our_operators(world, body, caplog):
    made = published(world)
    provider = ScriptedProvider()

    def render(delivery):
        if isinstance(body, Exception):
            raise body
        return body

    provider.render = render
    assert world.deliver(provider)(made.id, made.delivery_key) == "dead"
    assert provider.calls == []
    assert world.letters(made.id) == [("pipeline", "open", "render_failed")]


def failing(kind):
    def fail():
        raise kind("somewhere@example.org")

    return fail


@pytest.mark.parametrize("kind", [ValueError, OSError, RuntimeError, UnicodeEncodeError.__base__, KeyError])
@pytest.mark.parametrize(("deduplicates", "answer"), [(True, "parked"), (False, "dead")])
def test_a_provider_that_raises_may_have_sent(world, kind, deduplicates, answer):
    made = published(world, deduplicates=deduplicates)
    assert world.deliver(ScriptedProvider(failing(kind)))(made.id, made.delivery_key) == answer
    assert world.attempts(made.id) == [(1, "unknown", "provider_raised")]
    (reason,) = world.sql("SELECT reason FROM reminders.delivery_attempts")[0]
    assert "example" not in reason


@pytest.mark.parametrize("junk", [None, "ok", 200, True, {"outcome": "delivered"}], ids=repr)
def test_a_provider_that_returns_no_outcome_may_have_sent(world, junk):
    made = published(world)
    assert world.deliver(ScriptedProvider(lambda: junk))(made.id, made.delivery_key) == "parked"
    assert world.attempts(made.id) == [(1, "unknown", "no_outcome")]


def missing(_):
    return None


def unusable(_):
    raise SettingsError("REMINDERS_X is not set")


@pytest.mark.parametrize("providers", [missing, unusable])
def test_a_worker_without_the_provider_gives_the_claim_back(world, providers, caplog):
    made = published(world, deduplicates=False)
    with caplog.at_level(logging.ERROR):
        assert world.deliver(None, providers=providers)(made.id, made.delivery_key) == "given_back"
    assert "channel=log" in caplog.text
    assert world.status(made.id) == ("pending", "retrying")
    assert world.column("due", "attempts", made.id) == 0
    assert world.attempts(made.id) == []
    late = world.lapse(61)
    world.published(late)
    assert world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key) == "delivered"


@pytest.mark.parametrize("held", [False, True], ids=["free", "held by a caller"])
@pytest.mark.usefixtures("impatient")
def test_waiting_for_a_provider_does_not_use_up_the_time_for_retries(world, held):
    """The time of a budget begins with its first attempt; a claim given back was none."""
    made = published(world)
    claim = world.claim(made)
    holder = world.connect()
    if held:
        assert reminders.cancel(holder, made.id) == "requested"
    assert world.finalizing().give_back(claim, 1.0) == "given_back"
    holder.rollback()
    world.repair()
    late = world.lapse(MAX_WAIT + 3600)
    world.published(late)
    assert world.deliver(ScriptedProvider(AGAIN), now=late)(made.id, made.delivery_key) == "parked"


def test_a_call_that_no_longer_fits_into_the_claim_is_not_made(world):
    """The machine slept between the claim and the call: the clock that counts runs through suspension."""
    made = published(world)
    provider = ScriptedProvider()
    ticks = iter([1000.0, 1000.0 + CLAIM - 15.0 + 0.01])
    deliver = world.deliver(provider, clock=lambda: next(ticks), policy=DeliverPolicy(CLAIM, 10.0))
    assert deliver(made.id, made.delivery_key) == "given_back"
    assert provider.calls == []
    assert world.attempts(made.id) == []
    late = world.lapse(2)
    world.published(late)
    assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "delivered"


def test_a_call_that_just_fits_is_made(world):
    made = published(world)
    ticks = iter([1000.0, 1000.0 + CLAIM - 15.0])
    deliver = world.deliver(ScriptedProvider(), clock=lambda: next(ticks), policy=DeliverPolicy(CLAIM, 10.0))
    assert deliver(made.id, made.delivery_key) == "delivered"


def test_the_time_spent_asking_for_the_claim_counts(world):
    """A claim granted only at the last question, after a pause that took too long."""
    made = published(world)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due FOR NO KEY UPDATE")
    clock = [0.0]

    def slow(_):
        clock[0] += CLAIM
        holder.rollback()

    deliver = world.deliver(ScriptedProvider(), clock=lambda: clock[0], pause=slow)
    assert deliver(made.id, made.delivery_key) == "given_back"


def test_a_reminder_under_an_expired_claim_is_not_called_twice_at_once(world):
    """The claim must outlive the longest call and its record: the old one is lapsed before a new one is open."""
    made = published(world)
    provider = ScriptedProvider()

    def meanwhile():
        late = world.column("due", "wake_at", made.id) - timedelta(seconds=1)
        world.published(late)
        assert world.deliver(provider, now=late)(made.id, made.delivery_key) == "claimed"
        return Delivered("r")

    assert world.deliver(ScriptedProvider(meanwhile))(made.id, made.delivery_key) == "delivered"
    assert provider.calls == []


def test_what_is_logged_names_no_destination_and_no_data(world, caplog):
    made = published(world, destination="someone@example.org", data={"name": "Ada"})
    with caplog.at_level(logging.DEBUG, logger="reminders"):
        world.deliver(ScriptedProvider(failing(ValueError)))(made.id, made.delivery_key)
        world.deliver(ScriptedProvider())(made.id, made.delivery_key)
        world.repair()
        world.scanning(now=world.lapse(100)).once()
    assert made.delivery_key in caplog.text
    assert "Ada" not in caplog.text
    assert "someone@" not in caplog.text


class LostReplies:
    """Claims whose first reply is lost on its way, after the commit or before it."""

    def __init__(self, claims, *, committed: bool) -> None:
        self.claims = claims
        self.committed = committed
        self.lost = False

    def __getattr__(self, name):
        return getattr(self.claims, name)

    def claim(self, *arguments):
        if self.lost:
            return self.claims.claim(*arguments)
        self.lost = True
        if self.committed:
            assert self.claims.claim(*arguments) is not None
        raise ConnectionError


@pytest.mark.parametrize("deduplicates", [True, False])
def test_a_claim_whose_reply_is_lost_is_asked_for_with_its_token_and_goes_on(world, deduplicates):
    made = world.schedule(deduplicates=deduplicates)
    world.published()
    provider = ScriptedProvider()
    deliver = world.deliver(provider, claims=LostReplies(world.claims(), committed=True), faults=(ConnectionError,))
    assert deliver(made.id, made.delivery_key) == "delivered"
    assert world.attempts(made.id) == [(1, "delivered", "")]
    assert len(provider.calls) == 1
    assert world.letters(made.id) == []


def test_a_claim_that_did_not_commit_is_the_queues_to_retry(world):
    made = world.schedule()
    world.published()
    provider = ScriptedProvider()
    deliver = world.deliver(provider, claims=LostReplies(world.claims(), committed=False), faults=(ConnectionError,))
    with pytest.raises(ConnectionError):
        deliver(made.id, made.delivery_key)
    assert provider.calls == []
    assert deliver(made.id, made.delivery_key) == "delivered"


@pytest.mark.parametrize(("deduplicates", "status"), [(True, "pending"), (False, "dead")])
def test_an_error_that_may_hide_an_effect_is_repeated_only_where_the_destination_deduplicates(
    world, deduplicates, status
):
    made = world.schedule(deduplicates=deduplicates)
    world.published()
    provider = ScriptedProvider(Unknown("http_504", "HTTP 504", 504))
    world.deliver(provider)(made.id, made.delivery_key)
    assert world.status(made.id)[0] == status
    assert [letter[0] for letter in world.letters(made.id)] == ([] if deduplicates else ["unknown"])

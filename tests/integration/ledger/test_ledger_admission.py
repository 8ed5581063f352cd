"""A message of something capped takes its tokens before its claim: refused it waits for its turn, without a claim they go back."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import pytest

import reminders
from integration.ledger.test_ledger_rates import burst, capped
from integration.ledger.world import NOW, ScriptedProvider
from reminders.domain.outcomes import Retry
from reminders.domain.pauses import PauseScope
from reminders.domain.turns import Refused
from reminders.ledger.putting_off import PostgresTurns
from reminders.ledger.rates import KeptRates, remove_rate
from reminders.pipeline.admission import Admission


class ScriptedTokens:
    """Gives what it is told to; notes what is asked and given back."""

    def __init__(self, refuses: float | None = None) -> None:
        self.refuses = refuses
        self.asked: list[list[UUID]] = []
        self.given_back: list[tuple[list[UUID], bool]] = []

    def take(self, caps, holder, seconds):
        self.asked.append([each.id for each in caps])
        return None if self.refuses is None else Refused(caps[-1].id, self.refuses)

    def give_back(self, caps, holder, *, unused):
        self.given_back.append(([each.id for each in caps], unused))


def admission(world, tokens, provider=None, **parts):
    deliver = world.deliver(provider or ScriptedProvider(), **parts)
    return Admission(deliver, KeptRates(world.database), tokens, PostgresTurns(world.database))


def test_a_refused_token_is_a_turn_in_the_ledger_and_no_attempt(world, caplog):
    caplog.set_level("INFO")
    cap = capped(world, burst=5)
    (made,) = burst(world, "loud", 1)
    (message,) = world.published()
    clock = world.sql("SELECT next_at FROM reminders.rates")[0][0]
    tokens, provider = ScriptedTokens(refuses=7.0), ScriptedProvider()
    before = world.lapse(0)
    assert admission(world, tokens, provider)(made.id, made.delivery_key, message.caps) == "rate_limited"
    after = world.lapse(0)
    assert (provider.calls, tokens.given_back, tokens.asked) == ([], [], [[cap.id]])
    ((wake, turn, rate, since, bound, attempts),) = world.sql(
        "SELECT wake_at, turn_at, rate_id, waits_since, give_up_at, attempts FROM reminders.due"
    )
    assert world.status(made.id) == ("pending", None)
    assert (wake, attempts, UUID(str(rate))) == (turn, 0, cap.id)
    assert before <= wake - timedelta(seconds=7) <= after
    assert timedelta(hours=71) < bound - since < timedelta(hours=73)
    # The turn that it had is another's.
    assert clock - world.sql("SELECT next_at FROM reminders.rates")[0][0] == timedelta(seconds=0.1)
    assert f"reason=rate_limited cap={cap.id}" in caplog.text
    assert [each.reminder_id for each in world.published(world.lapse(8))] == [made.id]


def test_a_delivered_one_keeps_its_token_and_gives_its_place_back(world):
    cap = capped(world)
    (made,) = burst(world, "loud", 1)
    (message,) = world.published()
    tokens = ScriptedTokens()
    assert admission(world, tokens)(made.id, made.delivery_key, message.caps) == "delivered"
    assert tokens.given_back == [([cap.id], False)]


def test_a_refused_claim_gives_the_tokens_back(world):
    cap = capped(world)
    (made,) = burst(world, "loud", 1)
    (message,) = world.published()
    assert world.committed(reminders.cancel, made.id) == "cancelled"
    tokens = ScriptedTokens()
    assert admission(world, tokens)(made.id, made.delivery_key, message.caps) == "cancelled"
    assert tokens.given_back == [([cap.id], True)]


def test_a_claim_that_raises_gives_the_tokens_back(world):
    class Away:
        def claim(self, *_):
            raise RuntimeError("away")

    capped(world)
    (made,) = burst(world, "loud", 1)
    (message,) = world.published()
    tokens = ScriptedTokens()
    with pytest.raises(RuntimeError, match="away"):
        admission(world, tokens, claims=Away())(made.id, made.delivery_key, message.caps)
    assert [unused for _, unused in tokens.given_back] == [True]


def test_what_is_not_capped_asks_nobody(world):
    made = world.schedule()
    world.published()
    tokens = ScriptedTokens(refuses=1.0)
    assert admission(world, tokens)(made.id, made.delivery_key) == "delivered"
    assert tokens.asked == []


def test_a_cap_that_was_removed_meanwhile_or_never_was_holds_up_nothing(world):
    capped(world)
    made = burst(world, "loud", 2)
    first, _ = world.published()
    remove_rate(world.database, PauseScope(tenant_id="loud"), actor="ada", reason="r")
    tokens = ScriptedTokens(refuses=1.0)
    assert admission(world, tokens)(made[0].id, made[0].delivery_key, first.caps) == "delivered"
    assert admission(world, tokens)(made[1].id, made[1].delivery_key, [uuid4()]) == "delivered"
    assert tokens.asked == []


def test_a_message_that_is_superfluous_moves_nothing(world):
    capped(world)
    (made,) = burst(world, "loud", 1)
    (message,) = world.published()
    run = admission(world, ScriptedTokens(), ScriptedProvider(Retry("busy", "later")))
    assert run(made.id, made.delivery_key, message.caps) == "parked"
    before = world.sql("SELECT * FROM reminders.due")
    refused = admission(world, ScriptedTokens(refuses=1.0))
    assert refused(made.id, made.delivery_key, message.caps) == "busy"
    assert world.sql("SELECT * FROM reminders.due") == before


def test_a_retry_waits_for_a_turn_of_its_own(world):
    capped(world, per_second=0.001, burst=1)
    (made,) = burst(world, "loud", 1)
    (message,) = world.published()
    run = admission(world, ScriptedTokens(), ScriptedProvider(Retry("busy", "later")))
    assert run(made.id, made.delivery_key, message.caps) == "parked"
    assert world.published(world.lapse(10)) == []
    assert world.column("due", "turn_at = wake_at", made.id) is True
    assert world.column("due", "waits_since", made.id) > NOW

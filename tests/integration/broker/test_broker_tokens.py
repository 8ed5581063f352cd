"""Tokens of caps: all of one message's at once or none, true across connections, and never unlimited, whatever Redis forgets."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from uuid import uuid4

import pytest

from reminders.broker import tokens
from reminders.broker.tokens import RedisTokens
from reminders.domain.turns import KnownCap

SLOW = 0.001
"""Tokens a second that come in no test's time."""


def cap(per_second=SLOW, burst=1, concurrent=None):
    return KnownCap(uuid4(), per_second, burst, concurrent)


@pytest.fixture
def purse(broker_settings):
    purse = RedisTokens(broker_settings)
    yield purse
    purse.close()


def key(of, part):
    return f"reminders:cap:{of.id}:{part}"


def fill(server, of, number):
    """As a bucket is after a quiet time."""
    server.client.hset(key(of, "tokens"), mapping={"tokens": number, "at": server.client.time()[0]})


def taken(purse, caps, times):
    return [purse.take(caps, uuid4(), 30.0) for _ in range(times)]


def test_a_missing_bucket_holds_one_token_and_refused_ones_get_turns_spaced_by_the_rate(purse):
    of = cap(per_second=0.02, burst=100)  # so slow that the time between two questions counts for nothing
    first, *others = taken(purse, [of], 4)
    assert first is None
    assert [each.cap for each in others] == [of.id] * 3
    assert [each.seconds for each in others] == pytest.approx([50, 100, 150], abs=20)


def test_a_full_bucket_gives_its_burst_and_no_more(purse, server):
    of = cap(burst=5)
    fill(server, of, 5)
    assert [each is None for each in taken(purse, [of], 7)] == [True] * 5 + [False] * 2


def test_a_bucket_fills_to_its_size_and_no_further(purse, server):
    of = cap(per_second=1000.0, burst=3)
    server.client.hset(key(of, "tokens"), mapping={"tokens": 0, "at": server.client.time()[0] - 3600})
    assert purse.take([of], uuid4(), 30.0) is None
    # A quarter of a second's worth is the least that may go together; a second's worth may come late.
    assert float(server.client.hget(key(of, "tokens"), "tokens")) <= 1249


def test_who_comes_a_little_earlier_than_the_one_before_is_not_refused(purse, server):
    """At one a second, claimed up to a second after their turns: the bucket evens that out."""
    of = cap(per_second=1.0, burst=1)
    assert purse.take([of], uuid4(), 30.0) is None
    passed = 0
    for late_before, late in [(0.0, 0.9), (0.9, 0.1), (0.1, 0.8), (0.8, 0.0)]:
        # As if the time until the next claim had gone by.
        server.client.hincrbyfloat(key(of, "tokens"), "at", late_before - late - 1.0)
        passed += purse.take([of], uuid4(), 30.0) is None
    assert passed == 4


def test_a_refusal_says_when_there_is_a_token_and_when_its_own_turn_is(purse):
    of = cap(per_second=0.02, burst=1)
    assert purse.take([of], uuid4(), 30.0) is None
    refused = taken(purse, [of], 3)
    assert [each.seconds for each in refused] == pytest.approx([50, 100, 150], abs=20)
    assert [each.token_in for each in refused] == pytest.approx([50] * 3, abs=20)
    busy = cap(per_second=None, concurrent=1)
    assert purse.take([busy], uuid4(), 30.0) is None
    assert purse.take([busy], uuid4(), 30.0).token_in == 0


def test_two_caps_give_both_or_nothing(purse, server):
    wide, narrow = cap(burst=10), cap(burst=1)
    fill(server, wide, 10)
    assert purse.take([narrow, wide], uuid4(), 30.0) is None
    refused = purse.take([narrow, wide], uuid4(), 30.0)
    assert refused.cap == narrow.id
    assert float(server.client.hget(key(wide, "tokens"), "tokens")) == pytest.approx(9, abs=0.01)


def test_many_at_once_over_several_connections_get_no_more_than_there_is(broker_settings, server):
    of = cap(burst=50)
    fill(server, of, 50)
    purses = [RedisTokens(broker_settings) for _ in range(4)]
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda n: purses[n % 4].take([of], uuid4(), 30.0), range(200)))
    assert answers.count(None) == 50
    for each in purses:
        each.close()


def test_a_token_is_given_back_where_no_claim_was_taken(purse, server):
    of = cap(burst=2)
    fill(server, of, 1)
    holder = uuid4()
    assert purse.take([of], holder, 30.0) is None
    purse.give_back([of], holder, unused=True)
    assert [each is None for each in taken(purse, [of], 2)] == [True, False]


def test_calls_at_once_are_capped_and_a_place_is_free_again_after_the_call(purse):
    of = cap(per_second=None, concurrent=2)
    holders = [uuid4() for _ in range(2)]
    assert [purse.take([of], each, 30.0) for each in holders] == [None, None]
    assert purse.take([of], uuid4(), 30.0).cap == of.id
    purse.give_back([of], holders[0], unused=False)
    assert [each is None for each in taken(purse, [of], 2)] == [True, False]


def test_a_killed_workers_place_comes_back_with_its_claims_end(purse, server):
    of = cap(per_second=None, concurrent=1)
    assert purse.take([of], uuid4(), 30.0) is None
    assert purse.take([of], uuid4(), 30.0) is not None
    (member,) = server.client.zrange(key(of, "calls"), 0, -1)
    server.client.zincrby(key(of, "calls"), -31, member)
    assert purse.take([of], uuid4(), 30.0) is None


def test_what_is_kept_ends_by_itself(purse, server):
    of = cap(per_second=10.0, burst=10, concurrent=1)
    assert purse.take([of], uuid4(), 30.0) is None
    assert 3000 < server.client.ttl(key(of, "tokens")) <= 3600
    assert 60 < server.client.ttl(key(of, "calls")) <= 90


def test_a_redis_that_forgot_scripts_and_buckets_starts_with_one_token(purse, server):
    of = cap(burst=50)
    fill(server, of, 50)
    assert purse.take([of], uuid4(), 30.0) is None
    server.client.script_flush()
    assert purse.take([of], uuid4(), 30.0) is None
    server.client.flushall()
    server.client.script_flush()
    assert [each is None for each in taken(purse, [of], 3)] == [True, False, False]


def test_while_redis_is_away_nothing_that_is_capped_goes_and_nobody_waits_for_it_long(purse, server, monkeypatch):
    of = cap(per_second=1000.0, burst=1000)
    fill(server, of, 1000)
    assert purse.take([of], uuid4(), 30.0) is None
    server.kill()
    began = monotonic()
    assert {each.seconds for each in taken(purse, [of], 20)} == {tokens.AWAY_AGAIN}
    purse.give_back([of], uuid4(), unused=True)
    assert monotonic() - began < 5
    server.start()
    monkeypatch.setattr(tokens, "BELIEVED_AWAY", 0.0)
    purse._away_until = float("-inf")
    assert purse.take([of], uuid4(), 30.0) is None

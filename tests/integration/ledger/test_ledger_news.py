"""What the scanner tells of: dead letters, each once; a beat that is silent, once for a silence. And a breaker that opens again."""

from __future__ import annotations

import logging

import pytest

from integration.ledger.test_ledger_breaker import DOWN, POLICY, Samples, finish, finish_message, opened
from integration.ledger.test_ledger_destination_state import GONE, run
from integration.ledger.test_ledger_rates import at
from integration.ledger.world import ScriptedProvider
from reminders.domain.outcomes import Delivered, Rejected
from reminders.ledger.notices import NOTICE_KINDS, count_notices, notices, see
from reminders.ledger.noticing import look_for_news
from reminders.ledger.status import ledger_status
from reminders.pipeline.news import News

REFUSED = Rejected("http_400", "HTTP 400: anna@example.com is unknown", 400)
SILENCE = 120.0


def look(world, seconds=0.0, *, silence=None):
    """What is told, as kind and how often, by a look so many seconds after the test began."""
    news = look_for_news(world.database, silence=silence, now=at(world, seconds))
    return [(each["kind"], each["times"]) for each in news]


def tick(world, seconds):
    """Beat ticks so many seconds after the test began: to the second, however long the test itself takes."""
    world.sql(
        "INSERT INTO reminders.ticks (name, last_at, taken, dropped) VALUES ('scan_due', %s, 1, 0)"
        " ON CONFLICT (name) DO UPDATE SET last_at = EXCLUDED.last_at RETURNING 1",
        at(world, seconds),
    )


def test_dead_letters_are_told_of_once_a_tenant_and_channel_and_counted(world, caplog):
    assert look(world) == []
    for _ in range(3):
        run(world, world.schedule(), ScriptedProvider(REFUSED))
    run(world, world.schedule(tenant_id="tenant-b"), ScriptedProvider(REFUSED))
    with caplog.at_level(logging.WARNING):
        assert look(world) == [("dead_letter", 3), ("dead_letter", 1)]
    assert [each.message.split(" ")[:2] for each in caplog.records] == [["notice.new", "kind=dead_letter"]] * 2
    assert look(world) == []
    run(world, world.schedule(), ScriptedProvider(REFUSED))
    assert look(world) == [("dead_letter", 4)]
    told = {each.tenant_id: each for each in notices(world.database)}
    assert (told["tenant-a"].times, told["tenant-a"].reason) == (4, "destination: http_400")
    assert (told["tenant-b"].times, told["tenant-b"].channel) == (1, "log")
    assert ledger_status(world.database)["notices"] == {"dead_letter": 2}


def test_what_was_closed_before_anybody_looked_is_no_news(world):
    run(world, world.schedule(), ScriptedProvider(REFUSED))
    world.sql(
        "UPDATE reminders.dead_letters SET state = 'discarded', closed_at = now(), actor = 'a', action_reason = 'r' RETURNING 1"
    )
    assert look(world) == []


def test_after_they_were_seen_the_next_letter_is_news(world):
    run(world, world.schedule(), ScriptedProvider(REFUSED))
    assert look(world) == [("dead_letter", 1)]
    assert see(world.database, ids=None, tenant=None, actor="ada") == 1
    assert look(world) == []
    run(world, world.schedule(), ScriptedProvider(REFUSED))
    assert look(world) == [("dead_letter", 1)]
    counted = count_notices(world.database)
    assert set(counted) == set(NOTICE_KINDS)
    assert (counted["dead_letter"].open, counted["dead_letter"].ever) == (1, 2)
    assert counted["beat_silent"].ever == 0


def test_a_letter_that_somebody_holds_is_told_of_when_it_is_free(world):
    run(world, world.schedule(), ScriptedProvider(REFUSED))
    with world.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.dead_letters FOR NO KEY UPDATE")
        assert look(world) == []
    assert look(world) == [("dead_letter", 1)]


def test_two_looks_at_once_tell_of_each_letter_once(world):
    for number in range(20):
        run(world, world.schedule(tenant_id=f"tenant-{number % 4}"), ScriptedProvider(REFUSED))
    both = [world.start(look_for_news, world.database, silence=None) for _ in range(2)]
    for each in both:
        each.result()
    assert sum(each.times for each in notices(world.database)) == 20


def test_a_silence_of_beat_is_told_of_once(world):
    assert look(world, silence=SILENCE) == []  # a beat that never ticked
    tick(world, 0)
    assert look(world, 119, silence=SILENCE) == []
    assert look(world, 121, silence=SILENCE) == [("beat_silent", 1)]
    assert look(world, 200, silence=SILENCE) == []
    (told,) = notices(world.database)
    assert (told.tenant_id, told.channel, told.destination_id) == (None, None, None)
    assert told.reason.startswith("no tick of beat since 20")
    see(world.database, ids=None, tenant=None, actor="ada")
    assert look(world, 300, silence=SILENCE) == []


def test_the_next_silence_is_told_of_again_seen_or_not(world):
    tick(world, 0)
    assert look(world, 130, silence=SILENCE) == [("beat_silent", 1)]
    tick(world, 140)
    assert look(world, 150, silence=SILENCE) == []
    assert look(world, 270, silence=SILENCE) == [("beat_silent", 2)]
    assert look(world, 280, silence=SILENCE) == []
    see(world.database, ids=None, tenant=None, actor="ada")
    assert look(world, 290, silence=SILENCE) == []
    tick(world, 300)
    assert look(world, 430, silence=SILENCE) == [("beat_silent", 1)]


def test_a_scanner_that_was_away_itself_does_not_blame_beat():
    asked: list[float | None] = []
    at = iter((1000.0, 1000.5, 1060.0, 1120.0, 1121.0))
    news = News(asked.append, SILENCE, clock=lambda: next(at))
    for _ in range(5):
        news()
    assert asked == [None, None, None, SILENCE]


def test_a_breaker_that_opens_again_before_the_first_time_was_seen_is_told_of_again(world, caplog):
    opened(world)
    world.schedule()
    (probe,) = world.published(world.lapse(40))
    assert finish_message(world, probe, Delivered("r"), 60) == "delivered"
    caplog.clear()
    opened_again(world)
    (told,) = notices(world.database)
    assert (told.kind, told.times, told.last_at > told.noticed_at) == ("breaker_opened", 2, True)
    assert [each.message.split(":")[0].split(" ")[-1] for each in caplog.records if "notice.new" in each.message] == [
        "times=2"
    ]


def opened_again(world):
    samples = Samples(POLICY)
    made = [world.schedule() for _ in range(3)]
    world.published(world.lapse(90))
    for each in made:
        finish(world, each, DOWN, 100, samples=samples)


@pytest.mark.parametrize("kind", NOTICE_KINDS)
def test_the_kinds_of_the_code_are_those_of_the_table(world, kind):
    ((rule,),) = world.sql("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'notices_kind_check'")
    assert f"'{kind}'" in rule


def test_nothing_personal_is_in_a_notice(world):
    run(world, world.schedule(destination="anna@example.com"), ScriptedProvider(REFUSED))
    run(world, world.schedule(destination="anna@example.com"), ScriptedProvider(GONE))
    look(world)
    # A name of letters up to f alone may be in its id by chance.
    ((row,),) = world.sql("SELECT to_jsonb(n)::text FROM reminders.notices n WHERE kind = 'dead_letter'")
    assert "anna" not in row

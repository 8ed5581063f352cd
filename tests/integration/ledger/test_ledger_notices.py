"""What a person is told once: written with what it tells of, open until it is seen, without personal data."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from integration.ledger.test_ledger_destination_state import GONE, PLACE, run
from integration.ledger.world import ScriptedProvider
from reminders.domain.errors import NotFound
from reminders.domain.outcomes import Blocked
from reminders.ledger.notices import notices, see
from reminders.ledger.status import ledger_status

REFUSED = Blocked("provider", timedelta(minutes=10), "credentials", "our key was refused", 401)
PAUSE = Blocked("destination", timedelta(minutes=10), "http_429", "HTTP 429", 429)


def kinds(world, **wanted):
    return [each.kind for each in notices(world.database, **wanted)]


def test_a_destination_that_is_gone_is_told_of_once(world, caplog):
    made = [world.schedule() for _ in range(3)]
    world.published()
    claims = [world.claim(each) for each in made]
    assert [world.finalize(claim, GONE) for claim in claims] == ["dead"] * 3
    (told,) = notices(world.database)
    assert (told.kind, told.tenant_id, told.channel, told.destination_id) == (
        "destination_gone",
        "tenant-a",
        "log",
        PLACE,
    )
    assert (told.reason, told.seen_at) == ("HTTP 410: moved away", None)
    assert [each.message.split(":")[0] for each in caplog.records] == [
        f"notice.new kind=destination_gone notice={told.id} channel=log destination={PLACE} times=1"
    ]


def test_gone_and_recorded_alone_it_is_told_of_too(world, impatient):
    made = world.schedule()
    claim = world.opened(made)
    with world.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(made.id),))
        world.finalize(claim, GONE)
    assert kinds(world) == ["destination_gone"]


def test_nothing_is_told_by_an_outcome_that_came_too_late(world):
    claim = world.opened(world.schedule())
    world.repair()
    assert world.finalize(claim, GONE) == "lapsed"
    assert kinds(world) == []


def test_refused_credentials_are_told_of_once_for_a_hold_however_many_wait(world):
    made = [world.schedule(destination=f"place-{n}") for n in range(6)]
    world.published()
    claims = [world.claim(each) for each in made]
    ended = [world.start(world.finalize, claim, REFUSED) for claim in claims[:5]]
    assert [each.result() for each in ended] == ["held"] * 5
    (told,) = notices(world.database)
    assert (told.kind, told.channel, told.destination_id) == ("channel_held", "log", None)
    assert told.reason == "our key was refused"
    see(world.database, ids=[told.id], tenant=None, actor="ada")
    # One that was under way reports while the hold stands: no news.
    assert world.finalize(claims[5], REFUSED) == "held"
    assert kinds(world) == []


def test_the_next_hold_is_news_once_the_last_was_seen(world):
    made = world.schedule()
    assert run(world, made, ScriptedProvider(REFUSED)) == "held"
    assert run(world, made, ScriptedProvider(REFUSED), 1000) == "held"
    assert kinds(world) == ["channel_held"]
    assert see(world.database, ids=None, tenant=None, actor="ada") == 1
    assert run(world, made, ScriptedProvider(REFUSED), 3000) == "held"
    assert (kinds(world), kinds(world, seen=True)) == (["channel_held"], ["channel_held"] * 2)


def test_other_tenants_are_told_of_their_own(world):
    for tenant in ("tenant-a", "tenant-b"):
        run(world, world.schedule(tenant_id=tenant), ScriptedProvider(REFUSED))
    assert kinds(world) == ["channel_held"] * 2
    assert kinds(world, tenant="tenant-b") == ["channel_held"]
    assert see(world.database, ids=None, tenant="tenant-b", actor="ada") == 1
    assert [each.tenant_id for each in notices(world.database)] == ["tenant-a"]


def test_a_limit_that_ends_by_itself_is_no_news(world):
    busy = Blocked("provider", timedelta(minutes=10), "twilio_20429", "HTTP 429", 429, passing=True)
    assert run(world, world.schedule(), ScriptedProvider(busy)) == "held"
    assert kinds(world) == []


def test_a_pause_that_a_destination_asks_for_is_no_news(world):
    assert run(world, world.schedule(), ScriptedProvider(PAUSE)) == "held"
    assert kinds(world) == []


def test_open_ones_are_counted_and_seen_by_somebody(world):
    run(world, world.schedule(), ScriptedProvider(GONE))
    assert ledger_status(world.database)["notices_open"] == 1
    (told,) = notices(world.database)
    with pytest.raises(NotFound, match="there is no notice"):
        see(world.database, ids=[told.id, uuid4()], tenant=None, actor="ada")
    assert see(world.database, ids=[told.id], tenant=None, actor="ada") == 1
    assert see(world.database, ids=[told.id], tenant=None, actor="eve") == 0
    (told,) = notices(world.database, seen=True)
    assert (told.seen_by, told.seen_at is not None) == ("ada", True)
    assert ledger_status(world.database)["notices_open"] == 0


def test_no_column_holds_an_address(world):
    run(world, world.schedule(destination="anna@example.com"), ScriptedProvider(GONE))
    ((row,),) = world.sql("SELECT to_jsonb(n)::text FROM reminders.notices n")
    assert "anna" not in row

"""Which dead letters a redrive takes, what it says of the others, and how it spreads them."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier

import pytest

import reminders
from integration.ledger.operators import WORD, discarded, not_sent, redriven, these, why
from integration.ledger.world import ScriptedProvider
from reminders import InvalidInput
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Rejected, Unknown
from reminders.ledger import closing_letters
from reminders.ledger.closing_letters import redrive
from reminders.ledger.review import LetterFilter, letter, letters, read_filter

NO = Rejected("gone", "refused")
LOST = Unknown("timeout", "no answer", timed_out=True)


def dead(world, outcome=NO, **wanted):
    made = world.schedule(**{"deduplicates": outcome is not LOST, **wanted})
    world.finalize(world.opened(made), outcome)
    assert world.status(made.id)[0] == "dead"
    return made


def delivered(world):
    made = world.schedule()
    world.finalize(world.opened(made), Delivered("r"))
    return made


def cancelled(world):
    made = dead(world)
    assert world.committed(reminders.cancel, made.id) == "cancelled"
    return made


def asked_to_cancel(world):
    made = dead(world, LOST)
    assert world.committed(reminders.cancel, made.id) == "maybe_sent"
    return made


def given_up(world):
    made = dead(world)
    discarded(world, made)
    return made


def expired(world):
    made = world.schedule(expires_at=world.now + timedelta(hours=1))
    late = world.now + timedelta(hours=2)
    world.published(late)
    assert world.deliver(ScriptedProvider(), now=late)(made.id, made.delivery_key) == "expired"
    return made


REFUSED = {
    "delivered": delivered,
    "cancelled": cancelled,
    "cancel_requested": asked_to_cancel,
    "under_way": lambda world: world.schedule(),
    "uncertain": lambda world: dead(world, LOST),
    "expired": expired,
    "discarded": given_up,
    "not_found": lambda _: uuid7(),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_refused_is_told_with_its_reason_and_left_as_it_is(world, reason):
    made = REFUSED[reason](world)
    before = world.sql("SELECT * FROM reminders.reminders_v1, reminders.dead_letters ORDER BY 1")
    answer = redriven(world, made)
    assert (answer.done, answer.stay, why(answer)) == ([], 1, [reason])
    assert answer.refused[0].id == getattr(made, "id", made)
    assert answer.refused[0].detail
    assert world.sql("SELECT * FROM reminders.reminders_v1, reminders.dead_letters ORDER BY 1") == before


def test_of_several_the_others_go_all_the_same(world):
    made = {reason: make(world) for reason, make in REFUSED.items()}
    good = dead(world)
    answer = redriven(world, good, *made.values())
    assert answer.done == [good.id]
    assert {each.reason: each.id for each in answer.refused} == {
        reason: getattr(each, "id", each) for reason, each in made.items()
    }
    assert answer.stay == len(REFUSED)


def test_a_letter_of_an_earlier_version_is_superseded(world):
    made = dead(world)
    old = letter(world.database, made.id)
    world.committed(reminders.reschedule, made.id, due_at=world.now + timedelta(days=1))
    assert why(redriven(world, old)) == ["superseded"]
    assert why(redriven(world, made)) == ["under_way"]


def test_a_late_second_click_on_a_letter_does_not_redrive_the_next_one(world):
    made = dead(world)
    old = letter(world.database, made.id)
    assert redriven(world, old).done == [made.id]
    assert why(redriven(world, old)) == ["under_way"]
    world.finalize(world.opened(made), NO)
    assert why(redriven(world, old)) == ["newer_letter"]
    assert redriven(world, letter(world.database, made.id)).done == [made.id]


def test_named_twice_it_goes_once(world):
    made = dead(world)
    first = letter(world.database, made.id)
    assert redriven(world, made, made, first).done == [made.id]
    assert world.sql("SELECT count(*) FROM reminders.due") == [(1,)]
    world.finalize(world.opened(made), NO)
    for named in ((first, made), (made, first)):
        answer = redriven(world, *named, dry_run=True)
        assert (answer.done, answer.stay) == ([made.id], 0)


def test_a_row_that_somebody_holds_is_busy_and_not_waited_for(world):
    held, free = dead(world), dead(world)
    holder = world.connect()
    assert reminders.cancel(holder, held.id) == "cancelled"
    answer = redriven(world, held, free)
    assert (answer.done, answer.stay, why(answer)) == ([free.id], 1, ["busy"])
    holder.rollback()
    assert redriven(world, held).done == [held.id]


def test_the_limit_bounds_what_goes_oldest_first_and_counts_the_rest(world):
    kept = dead(world, LOST)
    made = [dead(world) for _ in range(4)]
    answer = redrive(world.database, LetterFilter(), **WORD, limit=3)
    assert answer.done == [each.id for each in made[:3]]
    assert (answer.stay, why(answer)) == (2, ["uncertain", "limit"])
    assert [each.id for each in answer.refused] == [kept.id, made[3].id]


@pytest.mark.parametrize("limit", [0, -1, 10**7, "5"])
def test_a_limit_that_makes_no_sense_is_refused(world, limit):
    with pytest.raises(InvalidInput, match="limit"):
        redrive(world.database, LetterFilter(), **WORD, limit=limit)


def test_several_at_once_share_the_letters_between_them(world):
    made = [dead(world) for _ in range(24)]
    barrier = Barrier(4)

    def one():
        barrier.wait()
        return redrive(world.database, LetterFilter(), **WORD, limit=6).done

    parts = [each.result(timeout=10) for each in [world.start(one) for _ in range(4)]]
    assert sorted(id_ for part in parts for id_ in part) == sorted(each.id for each in made)
    assert len(world.published()) == 24
    states = world.sql("SELECT state, count(*) FROM reminders.dead_letters GROUP BY 1")
    assert states == [("redriven", 24)]


def test_if_the_command_dies_before_its_commit_nothing_has_happened(world, monkeypatch):
    made = [dead(world), dead(world)]

    def die(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(closing_letters, "_examined", die)
    with pytest.raises(KeyboardInterrupt):
        redriven(world, *made)
    monkeypatch.undo()
    assert world.sql("SELECT count(*) FROM reminders.due") == [(0,)]
    assert redriven(world, *made).done == [each.id for each in made]


def test_a_rate_is_kept_by_the_ledger(world):
    made = [dead(world) for _ in range(3)]
    answer = redrive(world.database, LetterFilter(), **WORD, rate=1 / 60, now=world.now)
    assert answer.done == [each.id for each in made]
    assert answer.last_wake_at == world.now + timedelta(minutes=2)
    wakes = [world.column("due", "wake_at", each.id) for each in made]
    assert wakes == [world.now, world.now + timedelta(minutes=1), world.now + timedelta(minutes=2)]
    assert [world.column("notification_deliveries", "retry_at", each.id) for each in made] == wakes
    # Whoever asked for it is gone; the scans of the coming minutes find one each.
    for minute, each in enumerate(made):
        at = world.now + timedelta(minutes=minute, seconds=1)
        assert [message.reminder_id for message in world.published(at)] == [each.id]
        world.finalize(world.claim(each, now=at), Delivered(), now=at)


def test_its_turn_is_never_later_than_its_expiry(world):
    expires_at = world.now + timedelta(minutes=30)
    made = [dead(world, expires_at=expires_at) for _ in range(2)]
    redrive(world.database, LetterFilter(), **WORD, rate=1 / 3600, now=world.now)
    assert world.column("due", "wake_at", made[1].id) == expires_at


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"tenant": "b"}, [1]),
        ({"kind": "unknown"}, [2]),
        ({"channel": "webhook"}, []),
        ({"channel": "log"}, [0, 1, 2]),
        ({"error_class": "timeout"}, [2]),
        ({"older_than": "90m"}, [0]),
        ({"newer_than": "90m"}, [1, 2]),
        ({"older_than": 1800, "newer_than": 5400.0}, [1]),
        ({"tenant": "a", "error_class": "gone"}, [0]),
    ],
)
def test_the_same_filters_choose_what_is_listed_and_what_is_sent(world, filters, expected):
    made = [dead(world, tenant_id="a"), dead(world, tenant_id="b"), dead(world, LOST, tenant_id="a")]
    for hours, each in zip((2, 1, 0), made, strict=True):
        opened = "UPDATE reminders.dead_letters SET opened_at = %s WHERE reminder_id = %s"
        world.sql(opened, world.now - timedelta(hours=hours), str(each.id))
    wanted = read_filter(**filters)
    listed = letters(world.database, wanted, now=world.now)
    assert [each.reminder_id for each in listed] == [made[number].id for number in expected]
    answer = redrive(world.database, wanted, **WORD, checked=True, now=world.now)
    assert (answer.done, answer.stay) == ([made[number].id for number in expected], 0)


def test_the_destination_chooses_by_its_id(world):
    here, there = dead(world, destination="here"), dead(world, destination="there")
    place = world.column("reminders", "destination_id::text", there.id)
    wanted = read_filter(destination=place)
    assert [each.reminder_id for each in letters(world.database, wanted)] == [there.id]
    assert redrive(world.database, wanted, **WORD).done == [there.id]
    assert world.status(here.id)[0] == "dead"


def test_what_is_named_must_fit_the_filters_too(world):
    made = dead(world, tenant_id="a")
    answer = redrive(world.database, read_filter(ids=[str(made.id)], tenant="b"), **WORD)
    assert (answer.done, why(answer)) == ([], ["no_match"])
    assert redrive(world.database, read_filter(ids=[str(made.id)], tenant="a"), **WORD).done == [made.id]


@pytest.mark.parametrize(
    "wrong",
    [
        {"ids": ["x"]},
        {"ids": [7]},
        {"kind": "odd"},
        {"tenant": ""},
        {"destination": "http://x"},
        {"error_class": " "},
        {"older_than": "soon"},
        {"older_than": "-1h"},
        {"older_than": float("nan")},
        {"newer_than": 10**12},
        {"newer_than": [1]},
    ],
    ids=str,
)
def test_a_filter_that_cannot_be_read_is_refused(wrong):
    with pytest.raises(InvalidInput):
        read_filter(**wrong)


@pytest.mark.parametrize("more", [{}, {"checked": True}, {"ignore_expiry": True}, {"limit": 1}], ids=str)
@pytest.mark.parametrize("by", ["ids", "filter"])
def test_a_dry_run_says_the_same_as_the_redrive_and_changes_nothing(world, by, more):
    made = [make(world) for reason, make in REFUSED.items() if reason != "not_found"]
    made += [dead(world), dead(world)]
    resolved = dead(world, LOST)
    not_sent(world, resolved)
    wanted = these(*made, resolved) if by == "ids" else LetterFilter()
    everything = "SELECT * FROM reminders.reminders r FULL JOIN reminders.dead_letters l ON l.reminder_id = r.id ORDER BY r.id, l.id"
    before = world.sql(everything)
    would = redrive(world.database, wanted, dry_run=True, **more)
    assert world.sql(everything) == before
    did = redrive(world.database, wanted, **WORD, **more)
    assert len(did.done) >= 1
    assert (would.done, would.stay) == (did.done, did.stay)
    known = [each for each in did.refused if each.reason != "limit"]
    assert [each for each in would.refused if each.reason != "limit"][: len(known)] == known


def test_a_dry_run_waits_for_nobody_and_holds_nobody_up(world):
    made = dead(world)
    holder = world.connect()
    assert reminders.cancel(holder, made.id) == "cancelled"
    assert redriven(world, made, dry_run=True).done == [made.id]
    holder.rollback()

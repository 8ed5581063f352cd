"""Giving up for good, and recording what a person found out: what each leaves behind, and who said so."""

from __future__ import annotations

import socket
from datetime import timedelta
from threading import Barrier

import psycopg2
import pytest

import reminders
from integration.ledger.operators import WORD, delivered, discarded, not_sent, redriven, why
from integration.ledger.world import MAX_ATTEMPTS, MAX_WAIT
from reminders import InvalidInput, Refused
from reminders.domain.outcomes import Delivered, Rejected, Unknown
from reminders.ledger.audit import AuditPolicy, audit
from reminders.ledger.closing_letters import discard, redrive, resolve
from reminders.ledger.review import LetterFilter, letter, letters

NO = Rejected("gone", "refused")
HASH = b"\x01" * 32
LOST = Unknown("timeout", "no answer", timed_out=True)
POLICY = AuditPolicy(max_attempts=MAX_ATTEMPTS, max_wait=MAX_WAIT, dedup_window=7 * 86400.0, in_flight=256)


def dead(world, outcome=NO, **wanted):
    made = world.schedule(**{"deduplicates": outcome is not LOST, **wanted})
    world.finalize(world.opened(made), outcome, body_hash=HASH)
    return made


def frozen(world):
    """In review, and then reported delivered by its worker, while an application held the row."""
    made = world.schedule(deduplicates=False)
    claim = world.opened(made)
    world.repair()
    with world.connect() as caller, caller.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders WHERE id = %s FOR UPDATE", (str(made.id),))
        world.finalize(claim, Delivered("first"), body_hash=HASH)
    assert world.status(made.id) == ("dead", "unknown")
    return made


def stories(world, made):
    """State, resolution, actor and reason of the reminder's letters, oldest first."""
    found = letters(world.database, LetterFilter(ids=[made.id]), state=None)
    return [(each.state, each.resolution, each.actor, each.action_reason) for each in found]


def sound(world):
    """The audit finds nothing."""
    found = audit(world.database, POLICY, since=None, limit=5)
    return [(result.check.name, result.shown) for result in found.results if result.count]


@pytest.mark.parametrize("outcome", [NO, LOST], ids=["refused", "unknown"])
def test_discarded_it_stays_dead_and_no_redrive_takes_it(world, outcome):
    made = dead(world, outcome)
    before = world.status(made.id)
    answer = discarded(world, made)
    assert (answer.done, answer.stay) == ([made.id], 0)
    assert world.status(made.id) == before
    (closed,) = letters(world.database, LetterFilter(), state="discarded")
    assert (closed.actor, closed.host, closed.action_reason) == ("ada", socket.gethostname(), "fixed")
    assert redrive(world.database, LetterFilter(), **WORD, checked=True).done == []
    assert why(redriven(world, made, checked=True)) == ["discarded"]
    assert why(discarded(world, made)) == ["discarded"]
    assert why(delivered(world, made)) == ["discarded"]
    assert world.published() == []
    assert sound(world) == []


def test_rescheduling_revives_what_was_discarded_under_a_new_key(world):
    made = dead(world)
    discarded(world, made)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now)
    assert moved.delivery_key != made.delivery_key
    claim = world.opened(moved)
    assert world.finalize(claim, Delivered("r"), body_hash=HASH) == "delivered"
    uncertain = dead(world, LOST)
    discarded(world, uncertain)
    with pytest.raises(Refused, match="may already have been sent"):
        world.committed(reminders.reschedule, uncertain.id, due_at=world.now)


def test_resolved_as_delivered_it_ends_so_with_the_reference(world):
    made = dead(world, LOST)
    answer = delivered(world, made, note="saw it in their log")
    assert (answer.done, answer.stay) == ([made.id], 0)
    assert world.status(made.id) == ("delivered", "delivered")
    assert world.column("notification_deliveries", "provider_reference", made.id) == "ticket-7"
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None
    closed = letter(world.database, made.id)
    assert (closed.state, closed.resolution, closed.resolution_reference, closed.note) == (
        "resolved", "delivered", "ticket-7", "saw it in their log",
    )  # fmt: skip
    assert (closed.actor, closed.host, closed.action_reason) == ("ada", socket.gethostname(), "fixed")
    assert why(redriven(world, made, checked=True)) == ["delivered"]
    assert world.committed(reminders.cancel, made.id) == "too_late"
    assert sound(world) == []


def test_what_the_provider_called_it_is_kept(world):
    made = dead(world, LOST)
    world.sql("UPDATE reminders.notification_deliveries SET provider_reference = 'theirs'")
    delivered(world, made)
    assert world.column("notification_deliveries", "provider_reference", made.id) == "theirs"
    assert letter(world.database, made.id).resolution_reference == "ticket-7"


def test_resolved_as_not_sent_it_is_certain_and_stays_dead(world):
    made = dead(world, LOST)
    assert not_sent(world, made, note="asked them").done == [made.id]
    assert world.status(made.id) == ("dead", "dead")
    assert world.column("notification_deliveries", "uncertain_since", made.id) is None
    assert stories(world, made) == [("resolved", "not_sent", "ada", "fixed")]
    assert world.published(world.lapse(86400)) == []
    assert sound(world) == []


@pytest.mark.parametrize("by", ["id", "letter", "filter"])
def test_sending_it_then_is_a_redrive_of_its_own_which_needs_no_further_word(world, by):
    made = dead(world, LOST)
    not_sent(world, made)
    if by == "filter":
        answer = redrive(world.database, LetterFilter(kind="unknown"), actor="kim", reason="send it")
    else:
        named = made if by == "id" else letter(world.database, made.id)
        answer = redriven(world, named, actor="kim", reason="send it")
    assert answer.done == [made.id]
    assert stories(world, made) == [("resolved", "not_sent", "ada", "fixed"), ("redriven", None, "kim", "send it")]
    claim = world.opened(made)
    assert (claim.claim_number, claim.uncertain, claim.attempts) == (2, False, 0)
    assert world.finalize(claim, Delivered("r"), body_hash=HASH) == "delivered"
    assert sound(world) == []


def test_what_is_resolved_as_not_sent_can_be_rescheduled_cancelled_or_given_up(world):
    moved, ended, given_up = (dead(world, LOST) for _ in range(3))
    not_sent(world, moved, ended, given_up)
    world.committed(reminders.reschedule, moved.id, due_at=world.now + timedelta(days=1))
    assert world.status(moved.id)[0] == "pending"
    assert world.committed(reminders.cancel, ended.id) == "cancelled"
    assert world.status(ended.id) == ("cancelled", "cancelled")
    assert discard(world.database, LetterFilter(kind="unknown"), **WORD).done == [given_up.id]
    assert why(redriven(world, given_up)) == ["discarded"]
    everything = redrive(world.database, LetterFilter(), **WORD)
    assert (everything.done, everything.stay) == ([], 0)
    assert stories(world, given_up) == [("resolved", "not_sent", "ada", "fixed"), ("discarded", None, "ada", "fixed")]
    assert sound(world) == []


def test_not_sent_and_meanwhile_asked_to_cancel_it_ends_cancelled(world):
    made = dead(world, LOST)
    assert world.committed(reminders.cancel, made.id) == "maybe_sent"
    assert not_sent(world, made).done == [made.id]
    assert world.status(made.id) == ("cancelled", "cancelled")
    assert why(redriven(world, made, checked=True)) == ["cancelled"]
    assert sound(world) == []


def test_it_can_be_found_out_later_that_it_was_delivered_after_all(world):
    made = dead(world, LOST)
    not_sent(world, made)
    assert why(not_sent(world, made)) == ["resolved"]
    assert delivered(world, made).done == [made.id]
    assert world.status(made.id) == ("delivered", "delivered")
    assert [resolution for _, resolution, _, _ in stories(world, made)] == ["not_sent", "delivered"]
    assert sound(world) == []


def test_by_filter_only_open_letters_are_resolved(world):
    known, unknown = dead(world, LOST), dead(world, LOST)
    not_sent(world, known)
    answer = resolve(world.database, LetterFilter(kind="unknown"), "delivered", reference="log of 3 May", **WORD)
    assert (answer.done, answer.stay) == ([unknown.id], 0)


@pytest.mark.parametrize("action", [discarded, delivered, not_sent], ids=lambda each: each.__name__)
def test_a_success_reported_late_counts_more_than_what_a_person_says(world, action):
    made = frozen(world)
    rehearsed = action(world, made, dry_run=True)
    assert (rehearsed.done, rehearsed.confirmed_late, rehearsed.stay) == ([], [made.id], 0)
    answer = action(world, made)
    assert (answer.done, answer.confirmed_late, answer.stay) == ([], [made.id], 0)
    assert world.status(made.id) == ("delivered", "delivered")
    assert stories(world, made) == [("resolved", "delivered", "ada", "its success was reported late")]
    assert sound(world) == []


@pytest.mark.parametrize("action", [discarded, delivered, not_sent], ids=lambda each: each.__name__)
def test_what_has_no_letter_is_left_alone(world, action):
    live, done = world.schedule(), world.schedule()
    world.finalize(world.opened(done), Delivered("r"), body_hash=HASH)
    answer = action(world, live, done)
    assert (answer.done, answer.stay, sorted(why(answer))) == ([], 2, ["delivered", "under_way"])
    assert world.status(done.id) == ("delivered", "delivered")


def test_of_two_decisions_at_once_one_is_made(world):
    for _ in range(6):
        made = dead(world)
        barrier = Barrier(3)

        def decide(action, made=made, barrier=barrier):
            barrier.wait()
            return action(world, made)

        running = [world.start(decide, action) for action in (discarded, redriven, not_sent)]
        discard_, redrive_, resolve_ = [each.result(timeout=10).done for each in running]
        states = [state for state, *_ in stories(world, made)]
        # Not sent, and then sent again or given up, is two decisions one after the other.
        assert states in [
            ["discarded"],
            ["redriven"],
            ["resolved"],
            ["resolved", "redriven"],
            ["resolved", "discarded"],
        ]
        assert sorted([*discard_, *redrive_, *resolve_]) == [made.id] * len(states)
        assert world.status(made.id)[0] == ("pending" if redrive_ else "dead")
    assert sound(world) == []


@pytest.mark.parametrize("action", [discarded, not_sent], ids=lambda each: each.__name__)
def test_a_dry_run_counts_and_changes_nothing(world, action):
    made = [dead(world, LOST), dead(world)]
    answer = action(world, *made, dry_run=True, actor="", reason="")
    assert (answer.done, answer.stay) == ([each.id for each in made], 0)
    assert {state for each in made for state, *_ in stories(world, each)} == {"open"}


def test_a_closed_letter_never_changes(world):
    made = dead(world, LOST)
    first = "SELECT * FROM reminders.dead_letters ORDER BY opened_at, id LIMIT 1"
    not_sent(world, made)
    before = world.sql(first)
    redriven(world, made)
    world.finalize(world.opened(made), NO, body_hash=HASH)
    discarded(world, made)
    assert world.sql(first) == before
    assert [state for state, *_ in stories(world, made)] == ["resolved", "redriven", "discarded"]


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("actor", {"actor": " "}),
        ("reason", {"reason": ""}),
        ("resolution", {"reference": None}),
        ("resolution_reference", {"reference": "a\x00"}),
        ("resolution", {"resolution": "not_sent"}),
        ("note", {"note": "x" * 501}),
        ("resolution", {"resolution": "perhaps"}),
        ("limit", {"limit": 0}),
    ],
)
def test_what_is_said_must_make_sense(world, field, given):
    made = dead(world, LOST)
    whole = {"resolution": "delivered", "reference": "r", **WORD, **given}
    with pytest.raises(InvalidInput) as caught:
        resolve(world.database, LetterFilter(), whole.pop("resolution"), **whole)
    assert caught.value.field == field
    assert world.letters(made.id) == [("unknown", "open", "timeout")]


@pytest.mark.parametrize(
    "change",
    [
        "state = 'discarded', closed_at = now()",
        "resolution = 'delivered'",
        "kind = 'expired'",
        "checked = true",
        "lifted_expiry = now()",
        "note = 'x'",
        "state = 'resolved', closed_at = now(), actor = 'a', action_reason = 'r', resolution_reference = 'x'",
        "state = 'resolved', closed_at = now(), actor = 'a', action_reason = 'r', resolution = 'lost'",
    ],
)
def test_impossible_letters_are_impossible(world, change):
    dead(world)
    with pytest.raises(psycopg2.errors.CheckViolation):
        world.sql(f"UPDATE reminders.dead_letters SET {change}")

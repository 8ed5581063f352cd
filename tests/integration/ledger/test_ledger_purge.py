"""Purging: what ended long ago goes, its keys stay, and nothing else is touched, whoever works on it meanwhile."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

import reminders
from integration.ledger.operators import discarded, not_sent, redriven, why
from integration.ledger.world import ScriptedProvider
from reminders.bootstrap import DATABASE_FAULTS
from reminders.domain.outcomes import Delivered, Rejected, Unknown
from reminders.operate import retention
from reminders.operate.retention import Purged, purge, rehearse

DAY = 86400.0
NO = Rejected("gone", "refused", status_code=404)
TABLES = ("reminders", "due", "notification_deliveries", "delivery_attempts", "dead_letters")


def run(world, days=1.0, patience=5.0, **more) -> Purged:
    """A run of the purge as it would be `days` from now, over what ended more than a day before.

    It waits a little for what else is open, such as a transaction of an earlier test that the server still ends.
    """
    return purge(world.database, DAY, now=datetime.now(UTC) + timedelta(days=1 + days), patience=patience, **more)


def emptied(world) -> Purged:
    """A run that marks and one that deletes."""
    run(world)
    return run(world)


def delivered(world, **wanted):
    made = world.schedule(**wanted)
    world.published()
    world.deliver(ScriptedProvider())(made.id, made.delivery_key)
    assert world.status(made.id)[0] == "delivered"
    return made


def dead(world, outcome=NO, **wanted):
    made = world.schedule(**wanted)
    world.finalize(world.opened(made), outcome)
    assert world.status(made.id)[0] == "dead"
    return made


def sizes(world) -> list[int]:
    return [world.sql(f"SELECT count(*) FROM reminders.{table}")[0][0] for table in TABLES]


def exists(world, made) -> bool:
    return world.column("reminders", "1", made.id) == 1


def purged_at(world, made):
    return world.column("keys_seen", "purged_at", made.id)


def test_the_first_run_marks_and_the_next_deletes_all_of_it(world):
    made = delivered(world)
    assert rehearse(world.database, DAY, now=world.now + timedelta(days=2)) == Purged(0, 1, True, 0, [])
    assert (run(world).marked, sizes(world)) == (1, [1, 0, 1, 1, 0])
    assert purged_at(world, made) is None
    assert rehearse(world.database, DAY, now=world.now + timedelta(days=2)) == Purged(1, 0, True, 0, [])
    done = run(world)
    assert (done.purged, done.marked, done.complete) == (1, 0, True)
    assert sizes(world) == [0, 0, 0, 0, 0]
    assert purged_at(world, made) is not None


def test_a_dry_run_changes_nothing(world):
    delivered(world)
    before = sizes(world)
    rehearse(world.database, DAY, now=world.now + timedelta(days=2))
    assert (sizes(world), world.sql("SELECT 1 FROM reminders.keys_seen UNION SELECT 1 FROM reminders.purges")) == (
        before,
        [],
    )


def test_what_is_live_or_ended_lately_stays(world):
    live, late, old = world.schedule(due_at=world.now + timedelta(days=400)), delivered(world), delivered(world)
    world.sql(
        "UPDATE reminders.reminders SET finished_at = now() + interval '1 day 3 hours' WHERE id = %s", str(late.id)
    )
    emptied(world)
    assert [exists(world, each) for each in (live, late, old)] == [True, True, False]


@pytest.mark.parametrize("outcome", [NO, Unknown("timeout", "no answer", timed_out=True)], ids=["refused", "unknown"])
def test_what_waits_for_a_person_stays_however_old(world, outcome):
    made = dead(world, outcome, deduplicates=False)
    run(world, 1000)
    assert (run(world, 1000).purged, exists(world, made)) == (0, True)
    assert [state for _, state, _ in world.letters(made.id)] == ["open"]


@pytest.mark.parametrize("close", [discarded, not_sent])
def test_what_a_person_has_decided_lately_stays_for_as_long_again(world, close):
    made, other = dead(world), delivered(world)
    world.sql("""UPDATE reminders.reminders
                 SET created_at = created_at - interval '100 days', finished_at = finished_at - interval '100 days'""")
    assert close(world, made).done == [made.id]
    run(world, -0.5)
    assert (run(world, -0.5).purged, exists(world, made), exists(world, other)) == (1, True, False)
    emptied(world)
    assert (exists(world, made), sizes(world)) == (False, [0, 0, 0, 0, 0])


def test_moved_and_tried_under_two_keys_nothing_of_it_is_left(world):
    made = world.schedule()
    world.finalize(world.opened(made), NO)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now - timedelta(seconds=1))
    world.published()
    world.deliver(ScriptedProvider())(made.id, moved.delivery_key)
    assert sizes(world) == [1, 0, 2, 2, 1]
    assert emptied(world).purged == 1
    assert sizes(world) == [0, 0, 0, 0, 0]


def test_the_same_request_again_answers_how_it_ended(world):
    wanted = world.wanted()
    made = delivered(world, **wanted)
    emptied(world)
    connection = world.connect()
    again = reminders.schedule(connection, **wanted)
    assert (again.id, again.delivery_key, again.due_at, again.status, again.version, again.created) == (
        made.id, made.delivery_key, made.due_at, "delivered", 1, False,
    )  # fmt: skip
    with pytest.raises(reminders.Conflict, match=f"{made.id} stood for .* was purged"):
        reminders.schedule(connection, **{**wanted, "destination": "elsewhere"})
    connection.commit()
    assert sizes(world) == [0, 0, 0, 0, 0]
    assert world.published() == []


def test_of_many_only_the_new_ones_are_made_in_their_places(world):
    old, standing, new = world.wanted(), world.wanted(), world.wanted()
    first = delivered(world, **old)
    emptied(world)
    second = world.schedule(**standing)
    answers = world.committed(reminders.schedule_many, [new, old, standing, old])
    assert [each.created for each in answers] == [True, False, False, False]
    assert [each.id for each in answers[1:]] == [first.id, second.id, first.id]
    assert sizes(world)[:2] == [2, 2]


def test_one_that_is_marked_and_still_there_stands_as_it_stands(world):
    wanted = world.wanted()
    made = world.schedule(**wanted)
    world.committed(reminders.cancel, made.id)
    run(world)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now + timedelta(days=3))
    again = world.committed(reminders.schedule, **wanted)
    assert (again.id, again.status, again.version, again.created) == (made.id, "pending", 2, False)
    assert again.delivery_key == moved.delivery_key


def test_a_mark_of_one_that_was_revived_deletes_nothing(world):
    made = dead(world)
    assert discarded(world, made).done == [made.id]
    run(world)
    world.committed(reminders.reschedule, made.id, due_at=world.now - timedelta(seconds=1))
    assert (run(world).purged, exists(world, made)) == (0, True)
    world.committed(reminders.cancel, made.id)
    assert (run(world).marked, exists(world, made)) == (1, True), "its new end is marked first"
    assert run(world).purged == 1
    assert world.column("keys_seen", "(status, version)::text", made.id) == "(cancelled,2)"


def test_by_its_id_a_purged_reminder_is_told_of(world):
    made = delivered(world)
    emptied(world)
    ((gone, ended),) = world.sql("SELECT purged_at, finished_at FROM reminders.keys_seen")
    gone_on, ended_on = (each.astimezone(UTC).date() for each in (gone, ended))
    words = rf"{made.id} was purged on {gone_on}; it ended as delivered on {ended_on}"
    for call, more in ((reminders.get, {}), (reminders.cancel, {}), (reminders.reschedule, {"due_at": world.now})):
        with pytest.raises(reminders.NotFound, match=words):
            world.committed(call, made.id, **more)
    for act in (redriven, discarded):
        assert why(act(world, made)) == ["purged"]


def test_a_message_of_a_purged_reminder_gets_no_claim_and_one_line(world, caplog):
    made = delivered(world)
    emptied(world)
    caplog.clear()
    provider = ScriptedProvider()
    with caplog.at_level("INFO", logger="reminders"):
        assert world.deliver(provider)(made.id, made.delivery_key) == "gone"
    assert len([each for each in caplog.records if made.delivery_key in each.getMessage()]) == 1
    assert (provider.calls, sizes(world)) == ([], [0, 0, 0, 0, 0])


def test_an_outcome_that_comes_after_the_purge_begins_no_record(world):
    made = world.schedule()
    claim = world.opened(made)
    assert world.repair() == 1
    world.committed(reminders.cancel, made.id)
    assert not_sent(world, made).done == [made.id]
    assert emptied(world).purged == 1
    world.finalize(claim, Delivered("late"))
    assert sizes(world) == [0, 0, 0, 0, 0]


def test_a_run_is_cut_off_and_goes_on_where_it_was(world, monkeypatch):
    monkeypatch.setattr(retention, "FIRST_SIZE", 2)
    for _ in range(5):
        delivered(world)
    first = run(world, seconds=0.0)
    assert (first.marked, first.complete) == (0, False)
    second = run(world, limit=3)
    assert (second.marked, second.complete) == (3, False)
    third = run(world)
    assert (third.marked, third.purged, third.complete) == (2, 0, True)
    assert world.sql("SELECT count(*), sum(marked) FROM reminders.purges") == [(1, 5)]
    assert (run(world, limit=4).purged, run(world).purged) == (4, 1)


def test_a_step_that_is_cut_off_leaves_nothing_half_done(world, monkeypatch):
    """Its connection ends in the middle of the deleting, as it does when the process is killed."""
    # It waits for the lock until it is cut off: broken off as too slow, it would be between two tries now and then.
    monkeypatch.setattr(retention, "MOST_BROKEN_OFF", 0)
    made = delivered(world)
    run(world)
    before = sizes(world)
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.notification_deliveries FOR UPDATE")
    running = world.start(run, world)
    world.waiting_for_a_lock()
    world.sql(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    )
    with pytest.raises(DATABASE_FAULTS):
        running.result(timeout=10)
    holder.rollback()
    assert (sizes(world), purged_at(world, made)) == (before, None)
    assert run(world).purged == 1
    assert sizes(world) == [0, 0, 0, 0, 0]


def test_what_an_application_holds_is_passed_over(world):
    held, free = delivered(world), delivered(world)
    run(world)
    holder = world.connect()
    with pytest.raises(reminders.Refused):
        reminders.reschedule(holder, held.id, due_at=world.now)
    done = run(world)
    assert ((done.purged, done.complete), exists(world, held), exists(world, free)) == ((1, True), True, False)
    holder.rollback()
    assert run(world).purged == 1


def test_two_at_once_do_everything_once(world, monkeypatch):
    monkeypatch.setattr(retention, "FIRST_SIZE", 3)
    monkeypatch.setattr(retention, "LARGEST_SIZE", 3)
    both_are_there, join = Barrier(2), retention.join_pass

    def joined(*given):
        found = join(*given)
        both_are_there.wait(20)
        return found

    for _ in range(40):
        made = world.schedule()
        world.committed(reminders.cancel, made.id)
    runs = []
    for _ in range(2):
        with monkeypatch.context() as patch:
            patch.setattr(retention, "join_pass", joined)
            runs += [each.result(timeout=20) for each in [world.start(run, world) for _ in range(2)]]
        run(world, -10)
    # They may have begun a pass each, and what the one has marked the other may already delete.
    assert (sum(each.marked for each in runs), sum(each.purged for each in runs)) == (40, 40)
    assert sizes(world) == [0, 0, 0, 0, 0]
    assert world.sql("SELECT count(*) FROM reminders.keys_seen WHERE purged_at IS NOT NULL") == [(40,)]

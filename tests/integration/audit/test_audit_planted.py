"""Every check finds its violation, planted beside healthy neighbours by direct SQL, and nothing else does."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

import reminders
from integration.audit.aging import AGAIN, DAY, HASH, LOST, MINUTE, NO
from integration.audit.consent_stories import quiet, suppressed
from integration.audit.erasure_stories import erased
from integration.audit.limit_stories import calling, opened, removed_just_now, waiting_only
from integration.audit.pause_stories import held_only, held_then_resumed
from integration.audit.secret_stories import rotated
from integration.audit.series_stories import only_series, with_a_turn_moved
from integration.audit.series_stories import planned as planned_by_a_series
from integration.audit.settlement_stories import SETTLEMENT_PLANTS
from integration.audit.template_stories import written
from integration.audit.tenant_stories import off as turned_off
from integration.audit.tenant_stories import shadowed
from integration.ledger.world import CLAIM, REDELIVER, RETRY
from reminders.domain.errors import InvalidInput
from reminders.domain.outcomes import Delivered
from reminders.ledger.audit import CHECKS
from reminders.ledger.rotating import SecretPlace
from reminders.pipeline.ports import Report

DONE = Delivered("r")


QUARANTINE = (
    "INSERT INTO reminders.quarantines (id, since, base, pause_id, letters, actor, host, reason, started_at, cutoff, reached, ended_at)"
    " VALUES (gen_random_uuid(), now() - interval '2 hours', 100, gen_random_uuid(), true, 'a', 'h', 'r', {0}, now(),"
    " 'ffffffff-ffff-ffff-ffff-ffffffffffff', {1})"
)


def planted(make, *statements, id_of=lambda made: made.id):
    """Make a reminder, then run statements; `{id}` and `{key}` are its own."""

    def plant(world):
        made = make(world)
        for statement in statements:
            world.sql(statement.format(id=made.id, key=made.delivery_key))
        return str(id_of(made))

    return plant


def pending(w):
    return w.schedule()


def ended(*outcomes, **wanted):
    return lambda w: w.ended(*outcomes, **wanted)


def sending(w):
    made = w.schedule()
    w.opened(made)
    return made


def cancelled(w):
    made = w.ended(AGAIN)
    assert w.committed(reminders.cancel, made.id) == "cancelled"
    return made


def redriven(w, *outcomes):
    made = w.ended(NO)
    assert w.redrive(made) == [made.id]
    for outcome in outcomes:
        w.run(made, outcome)
    return made


def stuck(make, seconds):
    def made_and_aged(w):
        made = make(w)
        w.age(seconds)
        return made

    return made_and_aged


def published(w):
    made = w.schedule()
    w.published()
    return made


def retried_on_and_on(w):
    made = w.ended(*[AGAIN] * 7)
    w.age(10 * MINUTE)
    more = dataclasses.replace(RETRY, max_attempts=9)
    assert w.finalizing(policy=more)(w.opened(made), Report(AGAIN, 3, HASH)) == "parked"
    return made


def repeated_at_last(w):
    made = w.ended(LOST)
    w.age(10 * DAY)
    w.sql(
        "UPDATE reminders.notification_deliveries SET uncertain_since = now() WHERE delivery_key = %s",
        made.delivery_key,
    )
    w.run(made, DONE)
    return made


def moved(w):
    made = w.ended(AGAIN)
    w.committed(reminders.reschedule, made.id, due_at=w.now + timedelta(days=1))
    return made


def with_own_secret(w):
    rotated(w, SecretPlace("tenant-z", "log"))
    rotated(w)
    return w.schedule(due_at=w.now + timedelta(days=40))


def a_second_letter(w):
    made = w.ended(NO)
    w.sql("DROP INDEX reminders.dead_letters_one_open")
    w.sql(
        """INSERT INTO reminders.dead_letters (id, reminder_id, delivery_key, kind, error_class, reason, attempts)
           SELECT gen_random_uuid(), reminder_id, delivery_key, kind, error_class, reason, attempts FROM reminders.dead_letters
           WHERE reminder_id = %s""",
        str(made.id),
    )
    return made


DUE, REMINDER = (
    "UPDATE reminders.due SET {} WHERE id = '{{id}}'",
    "UPDATE reminders.reminders SET {} WHERE id = '{{id}}'",
)
DELIVERY = "UPDATE reminders.notification_deliveries SET {} WHERE delivery_key = '{{key}}'"
ATTEMPT = "UPDATE reminders.delivery_attempts SET {} WHERE delivery_key = '{{key}}' AND claim_number = 1"
LETTER = "UPDATE reminders.dead_letters SET {} WHERE reminder_id = '{{id}}'"
COPY = """INSERT INTO reminders.delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
          SELECT delivery_key, {}, {}, reminder_id, worker, 'retry', 'busy', '', 'retry' FROM reminders.notification_deliveries WHERE delivery_key = '{{key}}'"""
SERIES = "UPDATE reminders.series SET {} WHERE id = '{{id}}'"
SKIPPED = """INSERT INTO reminders.series_skips (series_id, recurrence_id, due_at, lateness, reason)
SELECT series_id, recurrence_id, due_at, '0', 'paused' FROM reminders.reminders WHERE id = '{id}'"""
GONE = "DELETE FROM reminders.{} WHERE {} = '{{{}}}'"

SEEN = """INSERT INTO reminders.keys_seen
SELECT identity_key, request_hash, id, delivery_key, version, due_at, 'cancelled', now(), gen_random_uuid(), {}
FROM reminders.reminders WHERE id = '{{id}}'"""
PLANTS = {
    **SETTLEMENT_PLANTS,
    "live_without_due": planted(pending, GONE.format("due", "id", "id")),
    "ended_but_due": planted(pending, REMINDER.format("status = 'cancelled', finished_at = now()")),
    "due_under_another_key": planted(pending, DUE.format("delivery_key = 'dk_other'")),
    "sending_without_claim": planted(sending, GONE.format("notification_deliveries", "delivery_key", "key")),
    "claim_without_sending": planted(sending, DUE.format("status = 'pending'")),
    "claim_end_not_watched": planted(sending, DUE.format("wake_at = wake_at + interval '1 hour'")),
    "claim_not_repaired": planted(stuck(sending, CLAIM + 6 * MINUTE)),
    "overdue": planted(stuck(pending, 6 * MINUTE)),
    "message_overdue": planted(stuck(published, REDELIVER + 6 * MINUTE)),
    "waits_beyond_bound": planted(pending, DUE.format("wake_at = 'infinity'")),
    "waits_beyond_its_end": planted(pending, DUE.format("give_up_at = now() + interval '1 hour', wake_at = now() + interval '2 hours'")),
    "not_given_up": planted(stuck(pending, 0), DUE.format("give_up_at = now() - interval '6 minutes', wake_at = now() - interval '6 minutes'")),
    "due_of_another": planted(pending, DUE.format("lane = 'tenant-b'")),
    "too_many_attempts": planted(retried_on_and_on),
    "cancel_not_noted": planted(pending, REMINDER.format("cancel_requested_at = now()")),
    "destination_of_another": planted(
        lambda w: w.schedule(destination="its own"),
        "INSERT INTO reminders.destinations SELECT destination_id, 'tenant-b', channel, destination, false FROM reminders.reminders WHERE id = '{id}'",
    ),
    "key_not_of_its_parts": planted(pending, REMINDER.format("user_id = 'somebody else'")),
    "never_wakes": planted(held_only, "ALTER TABLE reminders.due DROP CONSTRAINT due_held_never_wakes", DUE.format("wake_at = now()")),
    "held_without_pause": planted(held_only, "DELETE FROM reminders.pauses"),
    "held_after_resume": planted(stuck(held_then_resumed, 6 * MINUTE)),
    "turn_without_cap": planted(waiting_only, "UPDATE reminders.rates SET tenant_id = 'somebody else'"),
    "turn_after_removal": planted(stuck(removed_just_now, 6 * MINUTE)),
    "wait_without_bound": planted(waiting_only, DUE.format("give_up_at = NULL")),
    "calls_beyond_cap": planted(lambda w: calling(w, 2), "UPDATE reminders.rates SET concurrent = 1, set_at = set_at - interval '6 minutes'", id_of=lambda _: None),
    "breaker_without_end": planted(opened, "UPDATE reminders.destinations SET hold_until = NULL, hold_reason = NULL", id_of=lambda _: None),
    "attempt_without_claim": planted(ended(AGAIN), COPY.format(2, "now()")),
    "attempt_off_its_claim": planted(ended(AGAIN, DONE), COPY.format(2, "claimed_at + interval '1 ms'")),
    "attempts_overlap": planted(ended(AGAIN, DONE), ATTEMPT.format("recorded_at = now()")),
    "attempts_missing": planted(ended(AGAIN), DUE.format("attempts = 2")),
    "claims_unaccounted": planted(ended(AGAIN, DONE), GONE.format("delivery_attempts", "delivery_key", "key") + " AND claim_number = 1"),
    "open_claim_with_outcome": planted(sending, COPY.format(1, "claimed_at"), DELIVERY.format("body_hash = sha256('')")),
    "claim_after_cancel": planted(cancelled, REMINDER.format("finished_at = created_at")),
    "claim_after_expiry": planted(ended(DONE), REMINDER.format("expires_at = due_at + interval '1 second'")),
    "claim_under_review": planted(lambda w: redriven(w, DONE), LETTER.format("closed_at = now()")),
    "claim_after_success": planted(ended(AGAIN, DONE), ATTEMPT.format("outcome = 'delivered'")),
    "success_forgotten": planted(ended(AGAIN), ATTEMPT.format("outcome = 'delivered'")),
    "unknown_repeated": planted(ended(LOST, DONE), DELIVERY.format("on_unknown = 'review'")),
    "repeated_beyond_window": planted(repeated_at_last),
    "uncertainty_forgotten": planted(ended(LOST), DELIVERY.format("uncertain_since = NULL")),
    "body_not_pinned": planted(ended(DONE), DELIVERY.format("body_hash = NULL")),
    "default_partition_grows": planted(
        ended(DONE),
        ATTEMPT.format("claimed_at = claimed_at + interval '150 days'"),
        DELIVERY.format("claimed_at = claimed_at + interval '150 days', claimed_until = claimed_until + interval '151 days'"),
        id_of=lambda _: None,
    ),
    "delivery_disagrees": planted(cancelled, DELIVERY.format("status = 'retrying', retry_at = now(), finished_at = NULL")),
    "delivered_under_old_key": planted(moved, DELIVERY.format("status = 'delivered'")),
    "delivered_without_attempt": planted(ended(DONE), GONE.format("delivery_attempts", "delivery_key", "key"), DELIVERY.format("given_back = 1")),
    "uncertain_but_closed": planted(cancelled, DELIVERY.format("uncertain_since = now()")),
    "dead_without_letter": planted(ended(NO), GONE.format("dead_letters", "reminder_id", "id")),
    "letter_without_dead": planted(redriven, LETTER.format("state = 'open', closed_at = NULL")),
    "two_open_letters": planted(a_second_letter),
    "without_reminder": planted(cancelled, GONE.format("reminders", "id", "id")),
    "made_again": planted(pending, SEEN.format("now()")),
    "marked_but_gone": planted(pending, SEEN.format("NULL"), GONE.format("due", "id", "id"), GONE.format("reminders", "id", "id")),
    "hold_too_long": planted(
        pending,
        "INSERT INTO reminders.channel_holds VALUES ('tenant-z', 'log', now() + interval '3 days', 'x')",
        id_of=lambda _: None,
    ),
    "claim_while_disabled": planted(
        ended(DONE, destination="disabled"),
        "INSERT INTO reminders.destinations (id, tenant_id, channel, address, disabled_at, disabled_reason)"
        " SELECT destination_id, tenant_id, channel, destination, now() - interval '1 minute', 'x' FROM reminders.reminders WHERE id = '{id}'",
    ),
    "mark_without_secret": planted(with_own_secret, "DELETE FROM reminders.secrets WHERE destination_id IS NOT NULL", id_of=lambda _: None),
    "secret_without_mark": planted(with_own_secret, "UPDATE reminders.destinations SET secret_mark = NULL", id_of=lambda _: None),
    "secret_key_missing": planted(with_own_secret, "UPDATE reminders.secrets SET key_fingerprint = 'lost' WHERE NOT inherited AND destination_id IS NULL", id_of=lambda _: None),
    "pinned_template_gone": planted(
        written, "DELETE FROM reminders.active_templates", "DELETE FROM reminders.templates"
    ),
    "foreign_template_pinned": planted(
        written,
        "INSERT INTO reminders.templates (id, tenant_id, kind, channel, locale, version, parts, actor, host)"
        " VALUES (gen_random_uuid(), 'tenant-z', 'note', 'log', '', 1, '{{}}', 'x', 'x')",
        "UPDATE reminders.notification_deliveries SET template_id = (SELECT id FROM reminders.templates WHERE tenant_id = 'tenant-z')"
        " WHERE delivery_key = '{key}'",
    ),
    "claim_while_suppressed": planted(
        ended(DONE, user_id="user-2"),
        "INSERT INTO reminders.suppressions (id, tenant_id, user_id, reason, source, actor, suppressed_at)"
        " VALUES (gen_random_uuid(), 'tenant-a', 'user-2', 'r', 's', 'a', now() - interval '1 hour')",
    ),
    "claim_in_quiet_hours": planted(
        ended(DONE, user_id="user-2"),
        "INSERT INTO reminders.recipients (tenant_id, user_id, zone, quiet_from, quiet_to, changed_at)"
        " VALUES ('tenant-a', 'user-2', 'UTC', date_trunc('minute', now() AT TIME ZONE 'UTC' - interval '2 hours')::time, date_trunc('minute', now() AT TIME ZONE 'UTC' + interval '2 hours')::time, now() - interval '1 day')",
    ),
    "suppressed_by_nothing": planted(suppressed, "DELETE FROM reminders.suppressions"),
    "quiet_for_too_long": planted(quiet, DUE.format("wake_at = now() + interval '60 hours', quiet_until = now() + interval '60 hours'")),
    "series_not_planned": planted(only_series, SERIES.format("plan_at = now() - interval '6 minutes'"), id_of=lambda _: None),
    "series_faulty": planted(only_series, SERIES.format("fault = 'InvalidInput: zone'"), id_of=lambda _: None),
    "series_planned_ahead": planted(with_a_turn_moved, "UPDATE reminders.reminders SET moved_at = NULL", id_of=lambda _: None),
    "series_planned_in_vain": planted(planned_by_a_series, "UPDATE reminders.series SET status = 'paused', plan_at = NULL"),
    "off_without_hold": planted(turned_off, "UPDATE reminders.tenant_policies SET mode = 'live'", id_of=lambda _: None),
    "claim_while_not_live": planted(
        ended(DONE, tenant_id="tenant-q"),
        "INSERT INTO reminders.tenant_changes (id, tenant_id, mode, dispatcher, reason, actor, host, changed_at)"
        " VALUES (gen_random_uuid(), 'tenant-q', 'shadow', 'main', 'r', 'a', 'h', now() - interval '1 hour')",
    ),
    "shadowed_without_record": planted(shadowed, GONE.format("shadow_deliveries", "delivery_key", "key")),
    "claim_after_shadow": planted(
        ended(DONE),
        "INSERT INTO reminders.shadow_deliveries SELECT delivery_key, id, tenant_id, user_id, kind, channel, reference, slot,"
        " destination_id, 'refused', 'x', NULL, NULL, due_at, due_at, '0' FROM reminders.reminders WHERE id = '{id}'",
    ),
    "shadow_of_nothing": planted(shadowed, GONE.format("reminders", "id", "id")),
    "erased_in_part": planted(erased, "UPDATE reminders.reminders SET data = '{{\"note\": 1}}' WHERE id = '{id}'"),
    "erasure_not_finished": planted(
        erased, "UPDATE reminders.erasures SET finished_at = NULL, started_at = now() - interval '25 hours'", id_of=lambda _: None
    ),
    "facts_beyond_totals": planted(
        ended(DONE), "INSERT INTO reminders.slo_days VALUES (current_date, 'tenant-a', 5, 1, 0)", id_of=lambda _: None
    ),
    "quarantine_unfinished": planted(pending, QUARANTINE.format("now() - interval '1 hour'", "NULL"), id_of=lambda _: None),
    "left_out_of_quarantine": planted(
        pending,
        "UPDATE reminders.reminders SET created_at = now() - interval '1 day' WHERE id = '{id}'",
        QUARANTINE.format("now()", "now()"),
    ),
    "skipped_but_made": planted(planned_by_a_series, SKIPPED),
    "occurrence_without_series": planted(planned_by_a_series, "UPDATE reminders.series SET slot = 'another'"),
}  # fmt: skip


def with_neighbours(world):
    world.ended(LOST, DONE)
    world.ended(NO)
    world.ended(LOST, deduplicates=False)
    world.schedule(due_at=world.now + timedelta(days=40))


def test_every_check_is_planted():
    assert sorted(PLANTS) == sorted(check.name for check in CHECKS)


@pytest.mark.parametrize("name", PLANTS)
def test_it_is_found_and_nothing_else(world, name):
    with_neighbours(world)
    reminder_id = PLANTS[name](world)
    assert [(found, str(each)) for found, each in world.violations()] == [(name, reminder_id)]


@pytest.mark.parametrize(
    ("name", "bounded"),
    [
        ("live_without_due", False),
        ("ended_but_due", False),
        ("claim_without_sending", False),
        ("attempts_missing", False),
        ("two_open_letters", False),
        ("letter_without_dead", False),
        ("key_not_of_its_parts", True),
        ("claim_after_success", True),
        ("attempts_overlap", True),
        ("claims_unaccounted", True),
        ("claim_under_review", True),
        ("delivered_without_attempt", True),
        ("without_reminder", True),
        ("made_again", False),
    ],
)
def test_since_bounds_what_has_ended_and_never_what_is_live(world, name, bounded):
    PLANTS[name](world)
    world.age(3 * DAY)
    assert name in [found for found, _ in world.violations(since=timedelta(days=4))]
    assert name in [found for found, _ in world.violations(since=datetime.now(UTC) - timedelta(days=4))]
    assert (name not in [found for found, _ in world.violations(since=timedelta(days=2))]) == bounded


def test_since_the_future_is_refused(world):
    with pytest.raises(InvalidInput, match="future") as caught:
        world.audit(since=datetime.now(UTC) + timedelta(hours=1))
    assert caught.value.field == "since"


def test_an_age_beyond_the_calendar_means_everything(world):
    PLANTS["claim_after_success"](world)
    found = world.audit(since=timedelta(days=2_000_000))
    assert (found.since, found.violations) == (None, 1)


def test_every_key_is_held_against_its_parts(world):
    one, other, third = world.schedule(), world.schedule(reference=None), world.schedule()
    world.sql("UPDATE reminders.reminders SET destination = 'elsewhere' WHERE id = %s", str(third.id))
    world.sql("UPDATE reminders.reminders SET version = 2 WHERE id = %s", str(one.id))
    world.sql("UPDATE reminders.reminders SET due_at = due_at + interval '1 hour' WHERE id = %s", str(other.id))
    (result,) = [each for each in world.audit().results if each.count]
    assert {each.reminder_id: each.detail for each in result.shown} == {
        str(one.id): "delivery_key is not that of its identity and version 2",
        str(other.id): "identity_key is not that of its tenant, user, reference, kind, channel and slot",
        str(third.id): "destination_id is not that of its tenant, channel and destination",
    }


def test_the_limit_is_for_each_check_and_all_are_counted(world):
    for name in ("ended_but_due", "cancel_not_noted", "key_not_of_its_parts"):
        for _ in range(3):
            PLANTS[name](world)
    found = {each.check.name: each for each in world.audit(limit=2).results if each.count}
    assert {name: (each.count, len(each.shown)) for name, each in found.items()} == {
        "ended_but_due": (3, 2),
        "cancel_not_noted": (3, 2),
        "key_not_of_its_parts": (3, 2),
    }


def test_settings_that_were_tightened_show_what_no_longer_fits(world):
    world.ended(LOST, DONE)
    world.ended(AGAIN)
    assert [name for name, _ in world.violations(max_attempts=1, dedup_window=60.0, max_wait=1.0)] == [
        "waits_beyond_bound",
        "too_many_attempts",
        "repeated_beyond_window",
    ]


def test_all_checks_see_one_snapshot(world):
    """A transaction that commits between two checks is seen by neither: it moves a reminder, which spans two tables."""
    made = world.schedule()
    with world.database.transaction() as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLE reminders.delivery_attempts IN ACCESS EXCLUSIVE MODE")
        found = world.start(world.violations)
        world.waiting_for_a_lock()
        world.sql("DELETE FROM reminders.due WHERE id = %s", str(made.id))
        world.sql("UPDATE reminders.reminders SET status = 'dead', finished_at = now() WHERE id = %s", str(made.id))
    assert found.result(timeout=60) == []
    assert [name for name, _ in world.violations()] == ["delivery_disagrees", "dead_without_letter"]

"""Quiet hours: what comes due in them waits for their end, burns nothing, and is looked at anew then.

Every clock here is given: windows are laid around it, whatever hour it is on the wall.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.world import MAX_WAIT, AskedProvider, ScriptedProvider
from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput
from reminders.domain.outcomes import Blocked, Retry, Unknown
from reminders.ledger import kind_policies, quiet_parking
from reminders.ledger.history import history
from reminders.ledger.holding import HOLD_SPREAD
from reminders.ledger.recipients import preferences, recipients

HOUR = timedelta(hours=1)
LOST, AGAIN = Unknown("reset", ""), Retry("busy", "")
WHO = {"tenant_id": "tenant-a", "user_id": "user-1"}


def the_hour(now: datetime, offset: float, zone: str = "UTC") -> str:
    """The wall time so many hours from then."""
    return f"{(now + offset * HOUR).astimezone(load_zone(zone)):%H:%M}"


def quiet(world, start: float = -1, end: float = 7, zone: str = "UTC") -> datetime:
    """The user's quiet hours begin and end so many hours from now; their end."""
    now = datetime.now(UTC)
    world.committed(
        reminders.set_recipient, **WHO, zone=zone, quiet_hours=(the_hour(now, start, zone), the_hour(now, end, zone))
    )
    return (now + end * HOUR).replace(second=0, microsecond=0)


def handed(world, made, at=0.0, provider=None):
    """What becomes of its message, so many seconds from now."""
    world.published(world.lapse(at))
    return world.deliver(provider or ScriptedProvider(), now=world.lapse(at))(made.id, made.delivery_key)


def wake(world, made):
    return world.column("due", "wake_at", made.id)


def close_after(found: datetime, end: datetime) -> bool:
    return end <= found <= end + timedelta(seconds=HOLD_SPREAD)


def test_it_waits_for_the_end_of_the_window_and_is_sent_then(world, caplog):
    made = world.schedule()
    end = quiet(world)
    provider = ScriptedProvider()
    with caplog.at_level(logging.INFO, logger="reminders.pipeline.deliver"):
        assert handed(world, made, provider=provider) == "quiet_hours"
    assert [each.getMessage() for each in caplog.records] == [
        f"deliver.no_claim reason=quiet_hours key={made.delivery_key}"
    ]
    assert world.status(made.id) == ("pending", None)
    assert close_after(wake(world, made), end)
    assert world.column("reminders_v1", "quiet_until", made.id) == wake(world, made)
    seconds = (end - datetime.now(UTC)).total_seconds()
    assert world.published(world.lapse(seconds - 5)) == []
    assert provider.calls == []
    assert handed(world, made, seconds + HOLD_SPREAD + 1, provider) == "delivered"
    assert len(provider.calls) == 1
    assert world.column("reminders_v1", "quiet_until", made.id) is None


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Asia/Kolkata", "Asia/Kathmandu", "Pacific/Pago_Pago"])
def test_the_window_is_in_the_users_own_zone(world, zone):
    made = world.schedule()
    end = quiet(world, zone=zone)
    assert handed(world, made) == "quiet_hours"
    assert close_after(wake(world, made), end)


def test_outside_of_the_window_it_is_sent_and_its_start_is_worked_out_once(world):
    made, other = world.schedule(), world.schedule()
    end = quiet(world, 2, 9)
    assert handed(world, made) == "delivered"
    noted = world.sql("SELECT clear_until, xmin::text FROM reminders.recipients")
    assert noted[0][0] == end - 7 * HOUR
    assert handed(world, other) == "delivered"
    assert world.sql("SELECT clear_until, xmin::text FROM reminders.recipients") == noted
    late = world.schedule()
    assert handed(world, late, 3 * 3600) == "quiet_hours"


def test_once_worked_out_the_claim_needs_one_statement(world):
    quiet(world, 2, 9)
    handed(world, world.schedule())
    made = world.schedule()
    world.published()
    assert world.claim(made) is not None


def test_somebody_without_quiet_hours_is_sent_to_at_any_time(world):
    world.committed(reminders.set_recipient, **WHO, zone="Europe/Berlin", locale="de")
    assert handed(world, world.schedule()) == "delivered"


def test_a_critical_kind_passes_and_another_tenants_does_not_and_none_passes_a_suppression(world):
    quiet(world)
    kind_policies.set_critical(world.database, "tenant-a", "alarm", critical=True)
    kind_policies.set_critical(world.database, "tenant-b", "note", critical=True)
    assert handed(world, world.schedule(kind="alarm")) == "delivered"
    assert handed(world, world.schedule(kind="note")) == "quiet_hours"
    kind_policies.set_critical(world.database, "tenant-a", "alarm", critical=False)
    assert handed(world, world.schedule(kind="alarm")) == "quiet_hours"
    kind_policies.set_critical(world.database, "tenant-a", "alarm", critical=True)
    world.committed(reminders.suppress, **WHO, reason="left")
    assert handed(world, world.schedule(kind="alarm")) == "suppressed"


def test_everything_is_looked_at_anew_when_the_window_ends(world):
    made = world.schedule()
    quiet(world)
    handed(world, made)
    world.committed(reminders.suppress, **WHO, reason="unsubscribed in the night")
    assert handed(world, made, 8 * 3600) == "suppressed"


def test_other_hours_said_meanwhile_hold_at_the_end_of_the_old_ones(world):
    made = world.schedule()
    quiet(world)
    handed(world, made)
    end = quiet(world, -1, 10)
    assert handed(world, made, 7.5 * 3600) == "quiet_hours"
    assert close_after(wake(world, made), end)


def test_hours_that_are_changed_are_worked_out_anew(world):
    quiet(world, 2, 9)
    assert handed(world, world.schedule()) == "delivered"
    quiet(world)
    assert world.sql("SELECT clear_until FROM reminders.recipients") == [(None,)]
    made = world.schedule()
    assert handed(world, made) == "quiet_hours"
    world.committed(reminders.set_recipient, **WHO, quiet_hours=None)
    assert handed(world, world.schedule()) == "delivered"
    # What waits already is looked at when the old window ends, or when it is moved.
    assert world.published() == []
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now - timedelta(minutes=2))
    assert handed(world, moved) == "delivered"


def test_no_attempt_is_burnt_and_the_wait_does_not_count_against_the_bound(world):
    made = world.schedule()
    world.finalize(world.opened(made), Blocked("destination", timedelta(minutes=1), "http_429", "", 429))
    bound = world.column("due", "give_up_at", made.id)
    quiet(world)
    assert handed(world, made, 120) == "quiet_hours"
    waited = wake(world, made) - world.lapse(120)
    assert abs(world.column("due", "give_up_at", made.id) - bound - waited) < timedelta(seconds=30)
    held_for = world.column("notification_deliveries", "held_for", made.id)
    assert abs(held_for - waited) < timedelta(seconds=30)
    assert world.column("due", "attempts", made.id) == 0
    morning = world.lapse(8 * 3600)
    world.published(morning)
    assert world.claims(morning).refusal(made.id, made.delivery_key) == "busy"
    claim = world.claim(made, now=morning)
    assert claim.waited < 1.1 * 3600
    assert claim.attempts == 0


def test_what_never_waited_gets_no_bound_by_quiet_hours(world):
    made = world.schedule()
    quiet(world)
    handed(world, made)
    assert world.column("due", "give_up_at", made.id) is None
    assert world.column("notification_deliveries", "held_for", made.id) is None


def test_it_expires_on_time_when_the_window_is_longer(world):
    made = world.schedule(expires_at=world.now + 2 * HOUR)
    quiet(world)
    assert handed(world, made) == "quiet_hours"
    assert wake(world, made) == world.now + 2 * HOUR
    world.scanning(now=world.lapse(2.5 * 3600)).once()
    assert world.status(made.id)[0] == "expired"


def test_what_may_have_been_sent_waits_too_and_is_repeated_in_the_morning(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    quiet(world)
    assert handed(world, made, 60) == "quiet_hours"
    assert world.status(made.id) == ("pending", "retrying")
    assert handed(world, made, 8 * 3600) == "delivered"


def test_a_look_up_reaches_nobody_and_does_not_wait(world):
    world.look_ups = ("log",)
    made = world.schedule(deduplicates=False)
    world.finalize(world.opened(made), LOST)
    quiet(world)
    provider = AskedProvider()
    assert handed(world, made, 60, provider) == "delivered"
    assert (provider.calls, len(provider.asked)) == ([], 1)


def test_a_pause_goes_before_quiet_hours(world):
    made = world.schedule()
    quiet(world)
    world.published()
    pauses.paused(world)
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "paused"


def test_it_can_be_cancelled_while_it_waits(world):
    made = world.schedule()
    quiet(world)
    handed(world, made)
    assert world.committed(reminders.cancel, made.id) == "cancelled"


def test_an_application_that_holds_the_recipient_holds_up_no_worker(world):
    """The hours it has not committed do not count; what is worked out is noted by the next claim."""
    made = world.schedule()
    quiet(world, 2, 9)
    connection = world.connect()
    reminders.set_recipient(connection, **WHO, locale="fr")
    assert handed(world, made) == "busy"
    connection.commit()
    assert handed(world, made, 121) == "delivered"


def test_hours_that_change_while_they_are_worked_out_count_as_changed(world):
    """What was worked out of the old ones is not stored: the claim finds the new ones."""
    made = world.schedule()
    quiet(world, 2, 9)
    world.published()
    assert world.claim(made) is None
    ((start, end),) = world.sql("SELECT quiet_from, quiet_to FROM reminders.recipients")
    quiet(world)
    claims = world.claims()
    stale = {"id": str(made.id), "zone": "UTC", "start": start, "end": end, "until": world.lapse(7200)}
    assert world.database.fetch(quiet_parking.NOTE_CLEAR_IF_STILL_SO, **stale) == []
    assert claims.refusal(made.id, made.delivery_key) == "quiet_hours"


def test_ten_thousand_would_not_be_published_round_and_round(world):
    made = [world.schedule() for _ in range(50)]
    quiet(world)
    messages = world.published()
    assert len(messages) == 50
    worker = world.deliver(ScriptedProvider())
    assert {worker(each.reminder_id, each.delivery_key) for each in messages} == {"quiet_hours"}
    for at in (1, 60, 3600):
        assert world.published(world.lapse(at)) == []
    assert world.status(made[0].id)[0] == "pending"


def test_a_zone_that_this_release_does_not_know_is_read_as_utc_and_said(world, caplog):
    made = world.schedule()
    end = quiet(world)
    world.sql("UPDATE reminders.recipients SET zone = 'Mars/Base'")
    assert handed(world, made) == "quiet_hours"
    assert close_after(wake(world, made), end)
    assert "quiet_hours.unknown_zone zone=Mars/Base" in caplog.text


def test_quiet_hours_end_within_what_a_reminder_may_wait(world):
    """Nothing that waits for them is given up for having waited."""
    made = world.schedule()
    world.sql("UPDATE reminders.due SET give_up_at = %s", world.lapse(MAX_WAIT))
    quiet(world)
    handed(world, made)
    assert world.column("due", "give_up_at", made.id) > world.lapse(MAX_WAIT + 6 * 3600)


def test_what_is_left_out_stays_and_none_takes_it_back(world):
    def said(**given):
        world.committed(reminders.set_recipient, **WHO, **given)
        (found,) = recipients(world.database, tenant="tenant-a")
        return found.zone, found.locale, found.quiet_hours and str(found.quiet_hours)

    assert said(zone="Europe/Berlin") == ("Europe/Berlin", None, None)
    assert said(locale="pt-BR", quiet_hours=("22:00", "07:00")) == ("Europe/Berlin", "pt-BR", "22:00-07:00")
    assert said(zone="Asia/Tokyo") == ("Asia/Tokyo", "pt-BR", "22:00-07:00")
    with pytest.raises(InvalidInput, match="zone: is needed as long as there are quiet hours"):
        said(zone=None)
    assert said(quiet_hours=None, zone=None, locale=None) == (None, None, None)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"zone": "../etc/passwd"}, "zone"),
        ({"zone": ""}, "zone"),
        ({"locale": "de DE"}, "locale"),
        ({"locale": ""}, "locale"),
        ({"quiet_hours": ("22:00", "22:00"), "zone": "UTC"}, "quiet_hours"),
        ({"quiet_hours": ("22:00", "07:00")}, "zone"),
        ({"user_id": ""}, "user_id"),
    ],
)
def test_what_is_refused_leaves_the_transaction_usable(world, given, field):
    with world.connect() as connection:
        with pytest.raises(InvalidInput) as caught:
            reminders.set_recipient(connection, **{**WHO, **given})
        assert caught.value.field == field
        reminders.set_recipient(connection, **WHO, zone="UTC")


def test_who_only_has_preferences_is_listed_too(world):
    world.committed(reminders.set_preference, **{**WHO, "user_id": "user-2"}, allowed=False)
    world.committed(reminders.set_recipient, **WHO, zone="UTC")
    assert [(each.user_id, each.zone) for each in recipients(world.database, tenant=None)] == [
        ("user-1", "UTC"),
        ("user-2", None),
    ]
    (said,) = preferences(world.database, "tenant-a", "user-2")
    assert (said.kind, said.channel, said.allowed, said.ended_at) == (None, None, False, None)


def test_its_history_says_why_it_waits(world):
    made = world.schedule()
    quiet(world)
    handed(world, made)
    assert history(world.database, made.id).standing.quiet_until == wake(world, made)

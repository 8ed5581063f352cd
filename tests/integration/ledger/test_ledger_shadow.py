"""A tenant in shadow: everything up to the call is decided as for a live one, written down, and nothing is sent."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta

import pytest

import reminders
from integration.ledger import pauses
from integration.ledger.tenants import WORD, moded, shadow_rows
from integration.ledger.world import PATIENCE, ScriptedProvider
from reminders.domain.allowed_places import from_rules
from reminders.domain.errors import InvalidInput, NotFound, NotPublic, Refused, ServiceUnavailable
from reminders.domain.outcomes import Retry, Unknown
from reminders.ledger.destination_state import disable
from reminders.ledger.shadow_reading import shadows
from reminders.ledger.shadow_release import release
from reminders.ledger.template_versions import TemplateVersions
from reminders.operate.retention import purge
from reminders.pipeline.shadow import Shadow


class Placed(ScriptedProvider):
    """One that refuses destinations."""

    def __init__(self, refusal: Exception) -> None:
        super().__init__()
        self.refusal = refusal

    def check_destination(self, destination: str) -> None:
        raise self.refusal

    def go_by(self, allowed_to) -> None: ...


def shadowed(world, provider=None, now=None, **wanted):
    """Schedule in shadow, let a message come, and say what became of it."""
    made = world.schedule(**wanted)
    return made, delivered(world, made, provider, now)


def delivered(world, made, provider=None, now=None):
    world.published(now)
    provider = provider or ScriptedProvider()
    word = world.deliver(provider, now=now)(made.id, made.delivery_key)
    assert provider.calls == []
    return word


def test_it_ends_shadowed_and_what_would_have_been_sent_is_written_down_without_the_address(world):
    moded(world, "shadow")
    made, word = shadowed(world, reference="order-1", slot="early")
    assert (word, world.status(made.id)) == ("shadowed", ("shadowed", None))
    columns = (
        "reminder_id::text",
        "delivery_key",
        "user_id",
        "reference",
        "slot",
        "decision",
        "why",
        "body_hash",
        "destination_id::text",
    )
    place = world.column("reminders", "destination_id::text", made.id)
    body = hashlib.sha256(b"body").digest()
    (row,) = shadow_rows(world, *columns)
    assert (*row[:7], bytes(row[7]), row[8]) == (
        str(made.id), made.delivery_key, "user-1", "order-1", "early", "send", None, body, place,
    )  # fmt: skip
    (found,) = shadows(world.database, "tenant-a", since=None, decision=None, limit=9)
    assert found.due_at == made.due_at
    assert abs(found.lateness - (found.decided_at - made.due_at).total_seconds()) < 0.001
    assert found.lateness > 60
    ((text,),) = world.sql("SELECT string_agg(s::text, ' ') FROM reminders.shadow_deliveries s")
    assert "somewhere" not in text


def test_nothing_else_is_changed(world):
    moded(world, "shadow")
    shadowed(world)
    for table in (
        "notification_deliveries",
        "delivery_attempts",
        "dead_letters",
        "destinations",
        "channel_holds",
        "notices",
        "due",
    ):
        assert world.sql(f"SELECT count(*) FROM reminders.{table}") == [(0,)], table


def test_what_was_shadowed_is_not_sent_when_the_tenant_goes_live(world):
    moded(world, "shadow")
    made, _ = shadowed(world)
    moded(world, "live")
    assert world.published() == []
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "shadowed"
    assert provider.calls == []


def test_what_was_not_decided_yet_is_sent_once_it_is_live(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    moded(world, "live")
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "delivered"
    assert len(provider.calls) == 1


def test_released_by_name_it_is_sent_once_under_a_new_version(world):
    moded(world, "shadow")
    made, _ = shadowed(world)
    with pytest.raises(Refused, match="tenant tenant-a is in shadow"):
        release(world.database, made.id, **WORD)
    moded(world, "live")
    done = release(world.database, made.id, **WORD)
    assert (done.version, done.delivery_key != made.delivery_key) == (2, True)
    (message,) = world.published()
    assert message.delivery_key == done.delivery_key
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, done.delivery_key) == "delivered"
    assert [call[0] for call in provider.calls] == [done.delivery_key]
    assert shadow_rows(world, "released_by", "released_reason") == [("ada", "rehearsal")]
    with pytest.raises(Refused, match="is delivered: only what is shadowed is released"):
        release(world.database, made.id, **WORD)


def test_released_twice_at_once_it_is_pending_once(world):
    moded(world, "shadow")
    made, _ = shadowed(world)
    moded(world, "live")

    def once():
        try:
            return release(world.database, made.id, **WORD).version
        except Refused:
            return "refused"

    answers = [each.result(10) for each in [world.start(once) for _ in range(4)]]
    assert sorted(map(str, answers)) == ["2", "refused", "refused", "refused"]


def test_what_has_expired_or_is_not_there_is_not_released(world):
    moded(world, "shadow")
    made, _ = shadowed(world, expires_at=datetime.now(UTC) + timedelta(hours=1))
    moded(world, "live")
    world.sql("UPDATE reminders.reminders SET expires_at = due_at + interval '1 second' WHERE id = %s", str(made.id))
    with pytest.raises(Refused, match="has expired"):
        release(world.database, made.id, **WORD)
    with pytest.raises(NotFound):
        release(world.database, made.id.__class__(int=1), **WORD)
    with pytest.raises(InvalidInput, match="actor"):
        release(world.database, made.id, actor="", reason="x")


def test_the_application_cancels_what_is_shadowed_and_then_it_is_not_released(world):
    moded(world, "shadow")
    made, _ = shadowed(world)
    assert world.committed(reminders.cancel, made.id) == "cancelled"
    moded(world, "live")
    with pytest.raises(Refused, match="is cancelled"):
        release(world.database, made.id, **WORD)


def test_the_application_moves_what_is_shadowed(world):
    moded(world, "shadow")
    made, _ = shadowed(world)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now - timedelta(seconds=5))
    assert world.status(made.id) == ("pending", None)
    assert delivered(world, moved) == "shadowed"
    assert [row[0] for row in shadow_rows(world, "delivery_key")] == [made.delivery_key, moved.delivery_key]


def test_a_suppressed_user_is_noted_with_the_reason_and_ends_suppressed(world):
    moded(world, "shadow")
    given = {"reason": "asked us to stop", "source": "form", "actor": "ada"}
    world.committed(reminders.suppress, tenant_id="tenant-a", user_id="user-1", **given)
    made, word = shadowed(world)
    assert (word, world.status(made.id)[0]) == ("suppressed", "suppressed")
    assert shadow_rows(world, "decision", "why") == [("suppressed", "asked us to stop")]


def test_what_has_expired_is_noted(world):
    moded(world, "shadow")
    made = world.schedule(expires_at=world.now + timedelta(minutes=1))
    world.published(world.lapse(120))
    assert world.status(made.id) == ("expired", None)
    assert shadow_rows(world, "decision", "why") == [("expired", "it had expired")]


def test_a_disabled_destination_is_noted_and_opens_no_letter(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    disable(world.database, ("tenant-a", "log", "somewhere"), "gone")
    assert delivered(world, made) == "shadowed"
    assert shadow_rows(world, "decision", "why") == [("undeliverable", "its destination is disabled")]
    assert world.letters(made.id) == []


def test_what_a_pause_covers_is_held(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    by = pauses.paused(world, kind="note")
    assert delivered(world, made) == "paused"
    pauses.resumed(world, by)
    pauses.release(world)
    assert delivered(world, made) == "shadowed"


def test_quiet_hours_are_waited_for(world):
    moded(world, "shadow")
    night = datetime(2031, 1, 1, 23, 0, tzinfo=UTC)
    who = {"tenant_id": "tenant-a", "user_id": "user-1"}
    world.committed(reminders.set_recipient, **who, zone="UTC", quiet_hours=("22:00", "06:00"))
    made, word = shadowed(world, now=night)
    assert word == "quiet_hours"
    assert delivered(world, made, now=night + timedelta(hours=7, minutes=1)) == "shadowed"
    ((lateness,),) = shadow_rows(world, "decided_at")
    assert lateness == night + timedelta(hours=7, minutes=1)


def test_a_message_that_cannot_be_written_is_noted(world):
    moded(world, "shadow")

    class Faulty(ScriptedProvider):
        def render(self, delivery):
            raise ValueError("no")

    made, word = shadowed(world, Faulty())
    assert word == "shadowed"
    assert shadow_rows(world, "decision", "why", "body_hash") == [
        ("fault", "render_failed: ValueError while rendering the body", None)
    ]
    assert world.letters(made.id) == []


def test_a_channel_with_templates_lacking_one_is_noted(world):
    world.templated = ("log",)
    moded(world, "shadow")
    provider = ScriptedProvider()
    provider.template_parts = {"text": "required"}
    shadowed(world, provider)
    ((decision, why),) = shadow_rows(world, "decision", "why")
    assert decision == "fault"
    assert why.startswith("no_template: ")


@pytest.mark.parametrize(
    ("rules", "decision", "why"),
    [
        ((), "refused", "forbidden_address: the host is not public, and the tenant is not allowed it"),
        (("hooks.corp",), "send", None),
    ],
)
def test_the_allow_list_decides_about_hosts_that_are_not_public(world, rules, decision, why):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    provider = Placed(NotPublic("destination", "the host of somewhere is not public", "hooks.corp"))
    given = {"allowed_to": lambda tenant: from_rules(list(rules))}
    whole = Shadow(world.shadow(provider).ledger, lambda _: provider, TemplateVersions(world.database), **given)
    assert world.deliver(provider, shadow=whole)(made.id, made.delivery_key) == "shadowed"
    assert shadow_rows(world, "decision", "why") == [(decision, why)]


def test_while_nobody_knows_what_the_tenant_is_allowed_it_waits(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    provider = Placed(NotPublic("destination", "no", "hooks.corp"))

    def away(tenant):
        raise ServiceUnavailable("away")

    whole = Shadow(world.shadow(provider).ledger, lambda _: provider, TemplateVersions(world.database), away)
    assert world.deliver(provider, shadow=whole)(made.id, made.delivery_key) == "given_back"
    assert world.status(made.id)[0] == "pending"


def test_a_destination_that_the_channel_refuses_is_noted_without_it(world):
    moded(world, "shadow")
    shadowed(world, Placed(InvalidInput("destination", "'somewhere' is no URL")))
    assert shadow_rows(world, "decision", "why") == [
        ("refused", "unsendable: the channel cannot deliver to such a destination")
    ]


def test_a_worker_that_lacks_the_channel_leaves_it_to_others(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    deliver = world.deliver(ScriptedProvider(), shadow=world.shadow(None))
    assert deliver(made.id, made.delivery_key) == "given_back"
    assert world.status(made.id) == ("pending", None)
    assert delivered(world, made, now=world.lapse(61)) == "shadowed"


def test_a_retry_of_before_gives_its_key_up(world):
    made = world.schedule()
    world.finalize(world.opened(made), Retry("busy", "later"))
    moded(world, "shadow")
    assert delivered(world, made, now=world.lapse(60)) == "shadowed"
    assert world.status(made.id) == ("shadowed", "superseded")


def test_what_may_have_been_sent_before_goes_to_review_and_is_not_forgotten(world):
    made = world.schedule()
    world.finalize(world.opened(made), Unknown("deadline", "no answer"))
    moded(world, "shadow")
    assert delivered(world, made, now=world.lapse(60)) == "dead"
    assert world.letters(made.id) == [("unknown", "open", "shadowed_while_uncertain")]
    assert shadow_rows(world, "decision") == []


def test_the_same_message_twice_is_noted_once(world):
    moded(world, "shadow")
    made, _ = shadowed(world)
    assert delivered(world, made) == "shadowed"
    assert len(shadow_rows(world, "decision")) == 1


def test_eight_at_once_note_it_once(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    deliver = world.deliver(ScriptedProvider())
    words = [each.result(20) for each in [world.start(deliver, made.id, made.delivery_key) for _ in range(8)]]
    assert set(words) <= {"shadowed", "busy"}
    assert len(shadow_rows(world, "decision")) == 1


def test_a_mode_that_changes_between_the_look_and_the_note_sends_or_notes_never_both(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    seen = world.shadow(ScriptedProvider()).ledger.would_call(made.id, made.delivery_key)
    moded(world, "live")
    ledger = world.shadow(ScriptedProvider()).ledger
    assert ledger.shadow_if_still_so(seen, "send", body_hash=bytes(32)) is False
    provider = ScriptedProvider()
    assert world.deliver(provider)(made.id, made.delivery_key) == "delivered"
    assert shadow_rows(world, "decision") == []


def test_an_application_that_holds_the_row_is_not_waited_for(world):
    moded(world, "shadow")
    made = world.schedule()
    world.published()
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(made.id),))
        assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "busy"
        holder.rollback()
    assert delivered(world, made) == "shadowed"


def test_what_was_noted_is_purged_with_its_reminder(world):
    moded(world, "shadow")
    shadowed(world)
    for days in (2, 3):
        purge(world.database, 86400.0, now=datetime.now(UTC) + timedelta(days=days), patience=PATIENCE)
    assert world.sql("SELECT count(*) FROM reminders.reminders") == [(0,)]
    assert shadow_rows(world, "decision") == []
    assert world.sql("SELECT status FROM reminders.keys_seen") == [("shadowed",)]

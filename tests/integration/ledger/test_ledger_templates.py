"""Templates in the ledger: versions that never change, which one a first attempt pins, and that it is kept (G4)."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier
from typing import ClassVar

import psycopg2
import pytest

import reminders
from integration.ledger.world import ScriptedProvider
from reminders.domain.errors import NotFound
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Rejected, Retry, Unknown
from reminders.ledger.template_trials import would_pin
from reminders.ledger.template_versions import TemplateVersions
from reminders.ledger.templates import (
    activate_template,
    add_template,
    template,
    templates,
    withdraw_template,
)
from reminders.providers.templating import render_part

AGAIN = Retry("busy", "try later")
LOST = Unknown("timeout", "no answer", timed_out=True)
BY = {"actor": "ada", "host": "desk"}


class Written(ScriptedProvider):
    """Sends what its template says."""

    template_parts: ClassVar = {"text": "required", "subject": "optional"}

    def render(self, delivery):
        return render_part(delivery, "text").encode()

    @property
    def said(self):
        return [body.decode() for _, body, _ in self.calls]


@pytest.fixture
def written(world):
    """A world whose channel `log` has templates."""
    world.templated = ("log",)
    return world


def add(world, text, *, tenant="", kind="note", locale="", **more):
    given = {"tenant": tenant, "kind": kind, "channel": "log", "locale": locale, "parts": {"text": text}, **BY, **more}
    return add_template(world.database, **given)


def run(world, made, provider, **parts):
    return world.deliver(provider, templates=TemplateVersions(world.database), **parts)(made.id, made.delivery_key)


def pinned(world, made):
    (row,) = world.sql(
        "SELECT template_id::text FROM reminders.notification_deliveries WHERE delivery_key = %s", made.delivery_key
    )
    return row[0]


def test_versions_count_from_one_in_each_place_and_the_newest_is_active(world):
    first, second = add(world, "one"), add(world, "two")
    other = add(world, "one", tenant="tenant-a")
    assert [(each.kept.template.version, each.created) for each in (first, second, other)] == [
        (1, True),
        (2, True),
        (1, True),
    ]
    assert [kept.template.name for kept in templates(world.database, limit=9)] == [
        "*/note/log/*@2",
        "tenant-a/note/log/*@1",
    ]
    assert [kept.template.version for kept in templates(world.database, tenant="", every=True, limit=9)] == [2, 1]
    assert (second.kept.activated_by, second.kept.activated_host, second.kept.actor) == ("ada", "desk", "ada")
    assert template(world.database, first.kept.template.id).activated_at is None


def test_the_same_words_again_make_no_version_and_leave_an_operators_choice_alone(world):
    first, second = add(world, "one"), add(world, "two")
    activate_template(world.database, first.kept.template.id, **BY)
    again = add(world, "two")
    assert (again.created, again.kept.template.id, again.kept.activated_at) == (False, second.kept.template.id, None)
    assert [kept.template.version for kept in templates(world.database, limit=9)] == [1]
    back = add(world, "one")
    assert (back.created, back.kept.template.version) == (True, 3)
    assert [kept.template.version for kept in templates(world.database, limit=9)] == [3]


def test_a_version_added_for_later_is_not_active(world):
    add(world, "one")
    later = add(world, "two", activate=False)
    assert [kept.template.version for kept in templates(world.database, limit=9)] == [1]
    kept, changed = activate_template(world.database, later.kept.template.id, **BY)
    assert (changed, kept.activated_at is not None) == (True, True)
    assert activate_template(world.database, later.kept.template.id, **BY)[1] is False


def test_a_version_never_changes(world):
    kept = add(world, "one").kept
    with pytest.raises(psycopg2.errors.RaiseException, match="never changes"):
        world.sql("UPDATE reminders.templates SET parts = '{}' WHERE id = %s", str(kept.template.id))
    assert template(world.database, kept.template.id).template.parts == {"text": "one"}


def test_what_is_active_belongs_to_its_place(world):
    kept = add(world, "one").kept
    with pytest.raises(psycopg2.errors.ForeignKeyViolation):
        world.sql("UPDATE reminders.active_templates SET kind = 'other' WHERE template_id = %s", str(kept.template.id))


def test_an_unknown_version_is_not_found(world):
    for call in (template, withdraw_template):
        with pytest.raises(NotFound, match="no template version"):
            call(world.database, uuid7())
    with pytest.raises(NotFound):
        activate_template(world.database, uuid7(), **BY)


def test_eight_adding_at_once_get_eight_numbers(world):
    barrier = Barrier(8)

    def work(number):
        barrier.wait()
        return add(world, f"text {number}").kept.template.version

    numbers = [each.result(timeout=20) for each in [world.start(work, number) for number in range(8)]]
    assert sorted(numbers) == list(range(1, 9))
    assert [kept.template.version for kept in templates(world.database, limit=9)] == [8]


@pytest.mark.parametrize(
    ("locale", "there", "chosen"),
    [
        ("de-AT", [("tenant-a", "de-at"), ("tenant-a", "de"), ("tenant-a", ""), ("", "de-at")], ("tenant-a", "de-at")),
        ("de-AT", [("tenant-a", "de"), ("tenant-a", ""), ("", "de-at")], ("tenant-a", "de")),
        ("de-AT", [("tenant-a", ""), ("", "de-at"), ("", "de")], ("tenant-a", "")),
        ("de_AT", [("", "de-at"), ("", "de"), ("", "")], ("", "de-at")),
        ("de-AT", [("", "de"), ("", ""), ("tenant-b", "de-at")], ("", "de")),
        ("de-AT", [("", ""), ("", "de-ch"), ("", "d")], ("", "")),
        ("zh-Hant-TW", [("", "zh"), ("", "zh-hant"), ("", "")], ("", "zh-hant")),
        ("de", [("", "de-at"), ("", "")], ("", "")),
        (None, [("tenant-a", "de"), ("", "")], ("", "")),
        (None, [("tenant-a", "de")], None),
        ("fr", [("tenant-b", "")], None),
    ],
)
def test_the_tenants_own_goes_first_and_the_nearer_locale(written, locale, there, chosen):
    if locale is not None:
        written.committed(reminders.set_recipient, tenant_id="tenant-a", user_id="user-1", locale=locale)
    for tenant, spoken in there:
        add(written, "text", tenant=tenant, locale=spoken)
        add(written, "text", tenant=tenant, locale=spoken, kind="another kind")
    claim = written.opened(written.schedule())
    found = None if claim.template_id is None else template(written.database, claim.template_id).template
    assert (found and (found.tenant_id, found.locale, found.kind)) == (chosen and (*chosen, "note"))


def test_the_version_is_pinned_at_the_first_attempt_and_kept_through_retries_edits_and_redrives(written):
    first = add(written, "Hello {{ reference }}")
    made = written.schedule(reference="order-1")
    written.published()
    provider = Written(AGAIN, Rejected("no", "no"))
    assert run(written, made, provider) == "parked"
    assert pinned(written, made) == str(first.kept.template.id)
    second = add(written, "Good day {{ reference }}")
    written.published(written.lapse(60))
    assert run(written, made, provider) == "dead"
    written.redrive(made)
    written.published()
    assert run(written, made, provider) == "delivered"
    assert provider.said == ["Hello order-1"] * 3
    assert pinned(written, made) == str(first.kept.template.id)
    other = written.schedule(reference="order-2")
    written.published()
    assert run(written, other, provider) == "delivered"
    assert (provider.said[-1], pinned(written, other)) == ("Good day order-2", str(second.kept.template.id))


def test_what_may_have_been_sent_keeps_its_words_after_a_redrive_on_somebodys_word(written):
    first = add(written, "one")
    made = written.schedule(deduplicates=False)
    written.published()
    provider = Written(LOST)
    assert run(written, made, provider) == "dead"
    add(written, "two")
    written.redrive(made, checked=True)
    written.published()
    assert run(written, made, provider) == "delivered"
    assert (provider.said, pinned(written, made)) == (["one", "one"], str(first.kept.template.id))


def test_a_claim_that_was_lost_with_its_worker_keeps_its_words(written):
    first = add(written, "one")
    made = written.schedule()
    assert written.opened(made).template_id == first.kept.template.id
    add(written, "two")
    assert written.repair() == 1
    written.published(written.lapse(60))
    provider = Written()
    assert run(written, made, provider) == "delivered"
    assert provider.said == ["one"]


def test_a_claim_whose_reply_was_lost_learns_its_template(written):
    first = add(written, "one")
    made = written.schedule()
    written.published()
    token = uuid7()
    claims = written.claims()
    taken = claims.claim(made.id, made.delivery_key, token, 30.0)
    again = claims.claimed_with(made.id, made.delivery_key, token)
    assert (taken.template_id, again.template_id) == (first.kept.template.id, first.kept.template.id)


def test_moved_to_another_time_it_is_another_delivery_and_pins_anew(written):
    add(written, "one")
    made = written.schedule()
    written.published()
    assert run(written, made, Written(AGAIN)) == "parked"
    add(written, "two")
    moved = written.committed(reminders.reschedule, made.id, due_at=written.now - timedelta(seconds=5))
    written.published()
    provider = Written()
    assert run(written, moved, provider) == "delivered"
    assert provider.said == ["two"]


def test_without_a_template_nothing_is_sent_and_the_letter_says_what_is_missing(written):
    made = written.schedule(tenant_id="ten ant", kind="pay'ment")
    written.published()
    provider = Written()
    assert run(written, made, provider) == "dead"
    assert provider.calls == []
    assert written.letters(made.id) == [("pipeline", "open", "no_template")]
    (reason,) = written.sql("SELECT reason FROM reminders.dead_letters")[0]
    assert "tenant ten ant has no active template for kind pay'ment on channel log, nor have all tenants" in reason
    assert """reminders template add --all-tenants --kind 'pay'"'"'ment' --channel log --text FILE""" in reason
    added = add(written, "now there", kind="pay'ment")
    written.redrive(made)
    written.published()
    assert run(written, made, provider) == "delivered"
    assert (provider.said, pinned(written, made)) == (["now there"], str(added.kept.template.id))


def test_a_withdrawn_template_is_no_longer_chosen_but_still_sent_where_it_is_pinned(written):
    own, all_tenants = add(written, "own", tenant="tenant-a"), add(written, "all")
    made = written.schedule()
    written.published()
    provider = Written(AGAIN)
    assert run(written, made, provider) == "parked"
    kept, changed = withdraw_template(written.database, own.kept.template.id)
    assert (changed, kept.activated_at) == (True, None)
    assert withdraw_template(written.database, own.kept.template.id)[1] is False
    written.published(written.lapse(60))
    assert run(written, made, provider) == "delivered"
    other = written.schedule()
    written.published()
    assert run(written, other, provider) == "delivered"
    assert provider.said == ["own", "own", "all"]
    assert pinned(written, other) == str(all_tenants.kept.template.id)


def test_a_template_that_cannot_be_filled_in_ends_as_our_own_fault_and_pins_anew_after_it_is_mended(written):
    broken = add(written, "Hello\n{{ data.order.total }}")
    made = written.schedule(data={"order": {"number": "SECRET-17"}})
    written.published()
    provider = Written()
    assert run(written, made, provider) == "dead"
    assert provider.calls == []
    assert written.letters(made.id) == [("pipeline", "open", "template_fault")]
    (reason,) = written.sql("SELECT reason FROM reminders.dead_letters")[0]
    assert reason.startswith("*/note/log/*@1, text, line 2: ")
    assert "total" in reason
    assert "SECRET" not in reason
    assert pinned(written, made) == str(broken.kept.template.id)
    mended = add(written, "Hello {{ data.order.number }}")
    written.redrive(made)
    written.published()
    assert run(written, made, provider) == "delivered"
    assert (provider.said, pinned(written, made)) == (["Hello SECRET-17"], str(mended.kept.template.id))


def test_a_fault_after_something_was_sent_keeps_the_pinned_version(written):
    first = add(written, "{{ reference }}")
    made = written.schedule()
    written.published()
    provider = Written(AGAIN)
    assert run(written, made, provider) == "parked"
    provider.render = lambda delivery: render_part(delivery, "gone").encode()
    written.published(written.lapse(60))
    assert run(written, made, provider) == "dead"
    assert written.letters(made.id) == [("pipeline", "open", "template_fault")]
    add(written, "other words")
    written.redrive(made)
    written.published()
    del provider.render
    assert run(written, made, provider) == "delivered"
    assert provider.said[0] == provider.said[1] == made_reference(written, made)
    assert pinned(written, made) == str(first.kept.template.id)


def made_reference(world, made):
    return world.column("reminders", "reference", made.id)


def test_a_pinned_version_that_is_gone_sends_nothing(written):
    kept = add(written, "one").kept
    made = written.schedule()
    claim = written.opened(made)
    assert claim.template_id == kept.template.id
    written.sql("DELETE FROM reminders.active_templates")
    written.sql("DELETE FROM reminders.templates")
    written.repair()
    written.published(written.lapse(60))
    provider = Written()
    assert run(written, made, provider) == "dead"
    assert (provider.calls, written.letters(made.id)) == ([], [("unknown", "open", "template_gone")])


def test_while_the_ledger_does_not_give_the_template_the_claim_goes_back_and_burns_nothing(written):
    add(written, "one")
    made = written.schedule()
    written.published()

    def away(_version):
        raise psycopg2.OperationalError("away")

    provider = Written()
    deliver = written.deliver(provider, templates=away, faults=(psycopg2.OperationalError,))
    assert deliver(made.id, made.delivery_key) == "given_back"
    assert (provider.calls, written.attempts(made.id)) == ([], [])
    written.published(written.lapse(60))
    assert run(written, made, provider) == "delivered"


def test_a_channel_without_templates_pins_none(world):
    add(world, "one")
    made = world.schedule()
    world.published()
    assert run(world, made, ScriptedProvider()) == "delivered"
    assert pinned(world, made) is None


def test_the_choice_that_is_shown_is_the_claims(written):
    given = {"tenant": "tenant-a", "user": "user-1", "kind": "note", "channel": "log"}
    assert would_pin(written.database, **given) is None
    first = add(written, "one")
    assert would_pin(written.database, **given) == first.kept.template.id
    made = written.schedule()
    written.opened(made)
    second = add(written, "two")
    assert would_pin(written.database, **given) == second.kept.template.id
    assert would_pin(written.database, **given, key=made.delivery_key) == first.kept.template.id


def test_a_version_is_read_once_whoever_asks(world):
    kept = add(world, "one").kept
    asked = []

    class Counting:
        def fetch(self, statement, **given):
            asked.append(given["id"])
            return world.database.fetch(statement, **given)

    versions, barrier = TemplateVersions(Counting(), most=2), Barrier(8)

    def work():
        barrier.wait()
        return versions(kept.template.id)

    found = [each.result(timeout=20) for each in [world.start(work) for _ in range(8)]]
    assert found == [kept.template] * 8
    assert asked == [str(kept.template.id)]
    others = [add(world, text).kept.template.id for text in ("two", "three")]
    assert [versions(each).parts["text"] for each in others] == ["two", "three"]
    assert len(versions._kept) == 2
    assert versions(kept.template.id) == kept.template
    assert len(asked) == 4
    nobody = uuid7()
    assert (versions(nobody), versions(nobody), len(asked)) == (None, None, 6)

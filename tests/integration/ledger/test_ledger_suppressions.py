"""Consent withdrawn: what is suppressed is not begun any more, ends with the reason when it comes due, and stays so."""

from __future__ import annotations

from datetime import timedelta

import pytest

import reminders
from integration.ledger.test_ledger_pauses import stuck_claim
from integration.ledger.world import CLAIM, ScriptedProvider
from reminders.domain.errors import InvalidInput, NotFound, Refused, ServiceUnavailable
from reminders.domain.identity import destination_id, uuid7
from reminders.domain.outcomes import Delivered, Retry, Unknown
from reminders.domain.suppressions import read_scope
from reminders.ledger import suppressing
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.consent_rules import MAY_BE_QUIET, SUPPRESSED_BY
from reminders.ledger.database import Database

LOST, AGAIN = Unknown("reset", ""), Retry("busy", "")
HOME = destination_id("tenant-a", "log", "somewhere")
WORD = {"tenant_id": "tenant-a", "reason": "unsubscribed"}
USER = {**WORD, "user_id": "user-1"}
SCOPE = read_scope(tenant_id="tenant-a", user_id="user-1")


def suppress(world, **given):
    return world.committed(
        reminders.suppress, **{**(WORD if "destination" in given or "destination_id" in given else USER), **given}
    )


def prefer(world, **given):
    world.committed(reminders.set_preference, tenant_id="tenant-a", user_id="user-1", **given)


def delivered(world, made, *, now=None, provider=None):
    """What becomes of its message."""
    provider = provider or ScriptedProvider()
    said = world.deliver(provider, now=now)(made.id, made.delivery_key)
    assert (said == "delivered") == bool(provider.calls)
    return said


def ends(world, **wanted):
    made = world.schedule(**wanted)
    world.published()
    return delivered(world, made)


def shown(world, made):
    return world.sql(
        "SELECT status, suppressed_by::text, suppressed_reason FROM reminders.reminders_v1 WHERE id = %s", str(made.id)
    )[0]


def test_withdrawn_between_publish_and_claim_it_ends_suppressed_with_the_reason(world):
    made = world.schedule()
    world.published()
    added = suppress(world)
    assert delivered(world, made) == "suppressed"
    assert shown(world, made) == ("suppressed", str(added.id), "unsubscribed")
    assert world.column("due", "id", made.id) is None
    assert (world.attempts(made.id), world.letters(made.id)) == ([], [])


def test_the_same_message_again_finds_it_suppressed(world):
    made = world.schedule()
    world.published()
    suppress(world)
    assert [delivered(world, made) for _ in range(2)] == ["suppressed"] * 2


def test_committed_with_the_callers_own_rows_or_not_at_all(world):
    made = world.schedule()
    world.published()
    connection = world.connect()
    reminders.suppress(connection, **USER)
    connection.rollback()
    assert delivered(world, made) == "delivered"


@pytest.mark.parametrize(
    ("said", "covered"),
    [
        ({}, True),
        ({"user_id": "user-2"}, False),
        ({"tenant_id": "tenant-b"}, False),
        ({"channel": "log"}, True),
        ({"channel": "email"}, False),
        ({"kind": "note"}, True),
        ({"kind": "offer"}, False),
        ({"kind": "note", "channel": "log"}, True),
        ({"kind": "note", "channel": "email"}, False),
        ({"destination": "somewhere", "channel": "log"}, True),
        ({"destination": "elsewhere", "channel": "log"}, False),
        ({"destination": "somewhere@shop.example", "channel": "email"}, False),
        ({"destination_id": HOME}, True),
        ({"destination_id": str(HOME), "kind": "note"}, True),
        ({"destination_id": HOME, "kind": "offer"}, False),
        ({"destination_id": HOME, "tenant_id": "tenant-b"}, False),
    ],
)
def test_what_a_suppression_covers(world, said, covered):
    suppress(world, **said)
    assert ends(world) == ("suppressed" if covered else "delivered")


@pytest.mark.parametrize(
    ("said", "allowed"),
    [
        ([], True),
        ([("note", "log", False)], False),
        ([("note", None, False)], False),
        ([(None, "log", False)], False),
        ([(None, None, False)], False),
        ([("offer", None, False), ("note", "email", False)], True),
        ([(None, None, False), ("note", None, True)], True),
        ([(None, None, False), (None, "log", True)], True),
        ([("note", None, True), (None, "log", False)], True),
        ([("note", None, False), (None, "log", True)], False),
        ([("note", None, True), ("note", "log", False)], False),
        ([("note", None, False), ("note", "log", True)], True),
        ([("note", None, False), ("note", None, True)], True),
        ([("note", None, False), ("note", None, None)], True),
        ([("note", None, None)], True),
    ],
)
def test_the_narrowest_preference_counts(world, said, allowed):
    for kind, channel, word in said:
        prefer(world, kind=kind, channel=channel, allowed=word)
    assert ends(world) == ("delivered" if allowed else "suppressed")


def test_a_preference_is_named_as_the_reason_and_allows_nothing_that_is_suppressed(world):
    prefer(world, kind="note", channel="log", allowed=False)
    made = world.schedule()
    world.published()
    delivered(world, made)
    (by,) = world.sql("SELECT id::text FROM reminders.preferences")[0]
    assert shown(world, made) == ("suppressed", by, "the user does not want note by log")
    prefer(world, kind="note", channel="log", allowed=True)
    assert ends(world) == "delivered"
    suppress(world)
    assert ends(world) == "suppressed"


def test_preferences_keep_their_history(world):
    for allowed in (False, False, True, None, False):
        prefer(world, kind="note", allowed=allowed, source="settings page")
    rows = world.sql("SELECT allowed, ended_at IS NULL, source FROM reminders.preferences ORDER BY said_at")
    page = "settings page"
    assert rows == [(False, False, page), (True, False, page), (False, True, page)]


def test_two_that_say_otherwise_at_once_leave_one_word_the_later_one(world):
    first = world.connect()
    reminders.set_preference(first, tenant_id="tenant-a", user_id="user-1", kind="note", allowed=False)
    second = world.start(prefer, world, kind="note", allowed=True)
    world.waiting_for_a_lock()
    first.commit()
    second.result()
    assert world.sql("SELECT allowed FROM reminders.preferences WHERE ended_at IS NULL") == [(True,)]


def test_suppressed_while_parked_the_delivery_ends_too(world):
    made = world.schedule()
    world.finalize(world.opened(made), AGAIN)
    suppress(world)
    world.published(world.lapse(60))
    assert delivered(world, made, now=world.lapse(60)) == "suppressed"
    assert world.status(made.id) == ("suppressed", "suppressed")


def test_what_may_have_been_sent_goes_to_review_and_after_a_persons_word_ends_suppressed(world):
    made = world.schedule()
    world.finalize(world.opened(made), LOST)
    suppress(world)
    world.published(world.lapse(60))
    assert delivered(world, made, now=world.lapse(60)) == "dead"
    assert world.status(made.id) == ("dead", "unknown")
    assert world.letters(made.id) == [("unknown", "open", "suppressed_while_uncertain")]
    assert shown(world, made)[1:] == (None, None)
    assert world.redrive(made, checked=True) == [made.id]
    world.published(world.lapse(120))
    assert delivered(world, made, now=world.lapse(120)) == "suppressed"


def test_what_has_expired_and_is_suppressed_has_expired(world):
    made = world.schedule(expires_at=world.now + timedelta(hours=1))
    suppress(world)
    world.published(world.lapse(3500))
    assert delivered(world, made, now=world.lapse(3700)) == "expired"


def test_a_disabled_destination_makes_no_letter_of_what_is_suppressed(world):
    world.sql(
        "INSERT INTO reminders.destinations (id, tenant_id, channel, address, disabled_at, disabled_reason) VALUES (%s, 'tenant-a', 'log', 'somewhere', now(), 'x')",
        str(HOME),
    )
    suppress(world)
    assert ends(world) == "suppressed"


def test_what_a_pause_holds_and_is_suppressed_ends_when_it_is_let_go(world):
    made = world.schedule()
    world.published()
    suppress(world)
    world.sql("INSERT INTO reminders.pauses (id, reason, actor, host) VALUES (%s, 'r', 'a', 'h')", str(made.id))
    assert delivered(world, made) == "suppressed"


def test_lifted_what_comes_due_later_is_sent_and_what_ended_stays_so_until_it_is_rescheduled(world):
    made = world.schedule()
    world.published()
    suppress(world)
    delivered(world, made)
    assert world.committed(reminders.unsuppress, **{**USER, "reason": "subscribed again"})
    assert ends(world) == "delivered"
    assert world.status(made.id)[0] == "suppressed"
    with pytest.raises(Refused, match="is suppressed: nothing is left to cancel"):
        world.committed(reminders.cancel, made.id)
    moved = world.committed(reminders.reschedule, made.id, due_at=world.now - timedelta(minutes=1))
    assert shown(world, made) == ("pending", None, None)
    world.published()
    assert delivered(world, moved) == "delivered"


def test_scheduling_a_suppressed_reminder_again_answers_how_it_ended(world):
    wanted = world.wanted()
    made = world.committed(reminders.schedule, **wanted)
    suppress(world)
    world.published()
    delivered(world, made)
    again = world.committed(reminders.schedule, **wanted)
    assert (again.id, again.status, again.created) == (made.id, "suppressed", False)


def test_said_twice_it_is_one_and_lifted_it_is_on_record(world):
    one = suppress(world)
    again = suppress(world, reason="another reason")
    assert (one.created, again.created, again.id) == (True, False, one.id)
    assert world.committed(reminders.unsuppress, **{**USER, "reason": "mistake"}, actor="bo") is True
    assert world.committed(reminders.unsuppress, **{**USER, "reason": "mistake"}) is False
    (kept,) = suppressing.suppressions(world.database, lifted=True)
    assert (kept.id, kept.reason, kept.lifted_by, kept.lifted_reason) == (one.id, "unsubscribed", "bo", "mistake")
    assert suppressing.suppressions(world.database) == []
    assert suppress(world).created


def test_two_that_say_the_same_at_once_make_one(world):
    first = world.connect()
    made = reminders.suppress(first, **USER)
    second = world.start(suppress, world)
    world.waiting_for_a_lock()
    first.commit()
    assert second.result() == suppressing.Added(made.id, created=False)


def test_lifting_reaches_exactly_what_is_named(world):
    whole, part = suppress(world), suppress(world, kind="note")
    assert world.committed(reminders.unsuppress, **{**USER, "reason": "r"}, kind="note")
    assert [each.id for each in suppressing.suppressions(world.database)] == [whole.id]
    schema = world.database.schema
    lifted = world.committed(suppressing.lift, schema, whole.id, actor="bo", reason="r")
    assert lifted == whole.id
    assert suppressing.suppression(world.database, part.id).lifted_at is not None
    with pytest.raises(NotFound):
        suppressing.suppression(world.database, uuid7())


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"user_id": None}, "user_id"),
        ({"destination": "somewhere", "channel": "log"}, "user_id"),
        ({"user_id": None, "destination": "somewhere"}, "channel"),
        ({"user_id": None, "destination_id": "no id"}, "destination_id"),
        ({"user_id": ""}, "user_id"),
        ({"tenant_id": "a\x00b"}, "tenant_id"),
        ({"kind": "k" * 65}, "kind"),
        ({"channel": 3}, "channel"),
        ({"reason": " "}, "reason"),
        ({"source": "x" * 501}, "source"),
    ],
)
def test_what_is_refused_leaves_the_transaction_usable(world, given, field):
    with world.connect() as connection:
        with pytest.raises(InvalidInput) as caught:
            reminders.suppress(connection, **{**USER, **given})
        assert caught.value.field == field
        assert reminders.suppress(connection, **USER).created


def test_no_address_is_stored(world):
    suppress(world, destination="ada@example.com", channel="email")
    rows = world.sql("SELECT to_jsonb(x)::text FROM reminders.suppressions x")
    assert "ada@example.com" not in rows[0][0]


@pytest.mark.usefixtures("patient")
def test_a_claim_that_began_before_commits_before_the_command_returns_and_is_reported(world):
    made = world.schedule()
    world.schedule()
    world.published()
    claiming, blocker = stuck_claim(world, made)
    suppress(world)
    waiting = world.start(suppressing.live_under, world.database, SCOPE)
    late = world.schedule()
    world.published()
    assert delivered(world, late) == "suppressed"
    assert not waiting.done()
    blocker.rollback()
    assert claiming.result() is not None
    found = waiting.result()
    assert (found.reminders, found.open_claims) == (2, 1)
    assert found.claims_end_at == world.column("due", "wake_at", made.id)


@pytest.mark.usefixtures("patient")
def test_the_wait_for_claims_is_bounded_and_it_stands_all_the_same(world):
    made = world.schedule()
    world.published()
    claiming, blocker = stuck_claim(world, made)
    suppress(world)
    with pytest.raises(ServiceUnavailable, match=r"The suppression of user user-1 of tenant-a is in force, but claims"):
        suppressing.live_under(world.database, SCOPE, wait=0.05)
    blocker.rollback()
    claiming.result()


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read"])
def test_a_claim_that_begins_after_the_commit_sees_it(world, isolation):
    """The claim has been sent, and waits for its mark: what it sees must not be older than that."""
    made = world.schedule()
    world.published()
    spaced = isolation.replace(" ", "\\ ")
    url = world.database.url.update_query_dict({"options": f"-c default_transaction_isolation={spaced}"})
    own = Database(url.render_as_string(hide_password=False), schema="reminders")
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("LOCK TABLE reminders.pauses IN EXCLUSIVE MODE")
    claims = PostgresClaims(own, worker="w", formats={"log": 1})
    claiming = world.start(claims.claim, made.id, made.delivery_key, uuid7(), CLAIM)
    world.waiting_for_a_lock()
    suppress(world)
    holder.commit()
    assert claiming.result() is None
    own.close()
    assert delivered(world, made) == "suppressed"


def test_an_open_claim_goes_on_and_its_retry_is_suppressed(world):
    made = world.schedule()
    claim = world.opened(made)
    suppress(world)
    assert world.finalize(claim, AGAIN) == "parked"
    world.published(world.lapse(60))
    assert delivered(world, made, now=world.lapse(60)) == "suppressed"
    other = world.schedule(user_id="user-2")
    sending = world.opened(other)
    suppress(world, user_id="user-2")
    assert world.finalize(sending, Delivered("r")) == "delivered"


def test_a_suppression_sweeps_nothing_and_an_open_one_stops_nobody(world):
    made = [world.schedule() for _ in range(3)]
    connection = world.connect()
    reminders.suppress(connection, **USER)
    world.published()
    assert delivered(world, made[0]) == "delivered"
    connection.commit()
    assert [world.status(each.id)[0] for each in made[1:]] == ["published"] * 2


def test_many_are_added_in_one_statement_and_those_that_stand_stay(world):
    suppress(world)
    scopes = [read_scope(tenant_id="tenant-a", user_id=f"user-{n % 50}") for n in range(1, 100)]
    wanted = [suppressing.new_suppression(each, reason="r", source="list", actor="bo") for each in scopes]
    with world.connect() as connection:
        assert suppressing.add_many(connection, "reminders", wanted) == 49
        assert suppressing.add_many(connection, "reminders", wanted) == 0
        assert suppressing.add_many(connection, "reminders", []) == 0
    assert world.sql("SELECT count(*) FROM reminders.suppressions") == [(50,)]


def test_the_claims_look_ups_read_indexes_only_however_many_there_are(world):
    """Each look-up is a probe."""
    made = world.schedule()
    world.published()
    world.sql(
        """INSERT INTO reminders.suppressions (id, tenant_id, user_id, reason, source, actor)
           SELECT gen_random_uuid(), 'tenant-a', 'other-' || i, 'r', 's', 'a' FROM generate_series(1, 3000) i"""
    )
    query = f"""EXPLAIN WITH t AS MATERIALIZED (SELECT now() AS now)
                SELECT {SUPPRESSED_BY}, {MAY_BE_QUIET} FROM {{s}}.reminders r WHERE r.id = '{made.id}'""".replace(
        "{s}", "reminders"
    )
    with world.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
        cursor.execute(query)
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan" not in plan
    for index in (
        "suppressions_of_user",
        "suppressions_of_destination",
        "preferences_standing",
        "recipients_pkey",
        "kind_policies_pkey",
    ):
        assert index in plan

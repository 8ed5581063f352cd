"""Erasing a user: no trace of address, data and id; the proof stays; and nothing is ever sent again of it."""

from __future__ import annotations

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest

import reminders
from integration.ledger.operators import why
from integration.ledger.series_stage import NOON
from integration.ledger.world import PATIENCE, ScriptedProvider
from reminders.domain.errors import Refused
from reminders.domain.outcomes import Delivered, Rejected, Unknown
from reminders.domain.suppressions import read_scope
from reminders.ledger import series_changing
from reminders.ledger.audit import AuditPolicy, audit
from reminders.ledger.closing_letters import redrive
from reminders.ledger.destinations import set_deduplicates
from reminders.ledger.pausing import pause
from reminders.ledger.pausing import read_scope as pause_scope
from reminders.ledger.recipients import change, prefer
from reminders.ledger.review import LetterFilter
from reminders.ledger.suppressing import add, lift, new_suppression, suppressions
from reminders.operate import erasure
from reminders.operate.erasure import erase, rehearse
from reminders.operate.retention import purge
from traces import rows, traces

ADDRESS = "ada.lovelace+vip@münchen.example"
USER = "ada-1815"
SECRET = "analytical engine"
POLICY = AuditPolicy(8, 72 * 3600.0, 7 * 86400.0, 256)
NO = Rejected("gone", f"no mailbox {ADDRESS}", status_code=404)


def hers(**more):
    return {"user_id": USER, "destination": ADDRESS, "data": {"note": SECRET}, **more}


def erased(world, user=USER, **more):
    given = {"actor": "dpo", "reason": "asked by letter", "patience": 0.0, **more}
    return erase(world.database, "tenant-a", user, **given)


def left(world, *texts):
    with world.database.transaction() as connection, connection.cursor() as cursor:
        return traces(texts or (ADDRESS, USER, SECRET), rows(cursor))


def violations(world):
    return [
        (each.check.name, each.shown)
        for each in audit(world.database, POLICY, since=None, limit=5).results
        if each.count
    ]


def delivered(world, **more):
    made = world.schedule(**hers(**more))
    world.published()
    world.deliver(ScriptedProvider(Delivered(reference="far-77")))(made.id, made.delivery_key)
    return made


def dead(world, outcome=NO, **more):
    made = world.schedule(**hers(**more))
    world.published()
    world.deliver(ScriptedProvider(outcome))(made.id, made.delivery_key)
    assert world.status(made.id)[0] == "dead"
    return made


def test_no_trace_is_left_and_the_proof_stays(world):
    sent, refused, unknown = delivered(world), dead(world), dead(world, Unknown("timeout", "?"), deduplicates=False)
    live = world.schedule(**hers(due_at=world.now + timedelta(days=1)))
    attempt = world.sql("SELECT claimed_at FROM reminders.delivery_attempts WHERE reminder_id = %s", str(sent.id))
    done = erased(world)
    assert left(world) == []
    assert done.complete
    assert (done.touched["reminders"], done.touched["delivery_attempts"], done.touched["dead_letters"]) == (4, 3, 2)
    proof = "SELECT delivery_key, outcome, provider_reference, claimed_at FROM reminders.delivery_attempts WHERE reminder_id = %s"
    assert world.sql(proof, str(sent.id)) == [(sent.delivery_key, "delivered", "far-77", *attempt[0])]
    statuses = [world.status(each.id)[0] for each in (sent, refused, unknown, live)]
    assert statuses == ["delivered", "dead", "dead", "cancelled"]
    assert world.sql("SELECT DISTINCT state, actor FROM reminders.dead_letters") == [("discarded", "dpo")]
    assert violations(world) == []


def test_the_same_again_is_known_and_sends_nothing(world):
    wanted = world.wanted(**hers())
    made = world.committed(reminders.schedule, **wanted)
    erased(world)
    for changed in ({}, {"data": {"other": 1}, "destination": "elsewhere"}):
        again = world.committed(reminders.schedule, **{**wanted, **changed})
        assert (again.id, again.status, again.created) == (made.id, "cancelled", False)
    assert world.published() == []


def test_after_the_purge_too(world):
    wanted = world.wanted(**hers())
    made = world.committed(reminders.schedule, **wanted)
    erased(world)
    for days in (2, 3):
        purge(world.database, 86400.0, now=datetime.now(UTC) + timedelta(days=days), patience=PATIENCE)
    assert world.sql("SELECT count(*) FROM reminders.reminders") == [(0,)]
    again = world.committed(reminders.schedule, **{**wanted, "data": {"other": 1}})
    assert (again.id, again.status, again.created) == (made.id, "cancelled", False)
    assert violations(world) == []


def test_a_mark_of_the_purge_goes_on_as_if_nothing_had_happened(world):
    delivered(world)
    late = {"now": datetime.now(UTC) + timedelta(days=2), "patience": PATIENCE}
    assert purge(world.database, 86400.0, **late).marked == 1
    assert erased(world).touched["keys_seen"] == 1
    assert purge(world.database, 86400.0, **late).purged == 1


def test_what_is_scheduled_anew_is_sent(world):
    delivered(world)
    erased(world)
    made = delivered(world)
    assert world.status(made.id)[0] == "delivered"


def test_nothing_brings_it_back(world):
    made, letter = dead(world), dead(world)
    world.sql("UPDATE reminders.dead_letters SET state = 'resolved', resolution = 'not_sent', closed_at = now(), actor = 'a',"
              " action_reason = 'r' WHERE reminder_id = %s", str(letter.id))  # fmt: skip
    erased(world)
    with pytest.raises(Refused, match="was erased"):
        world.committed(reminders.reschedule, made.id, due_at=world.now + timedelta(days=1))
    answer = redrive(world.database, LetterFilter(ids=(made.id, letter.id)), actor="a", reason="r", checked=True)
    assert (answer.done, set(why(answer))) == ([], {"erased"})


def test_an_open_claim_is_waited_for_and_told(world):
    made = world.schedule(**hers())
    claim = world.opened(made)
    done = erased(world)
    assert (done.complete, done.being_sent) == (False, 1)
    assert done.claims_end_at is not None
    assert ADDRESS in str(world.sql("SELECT destination FROM reminders.reminders"))
    world.finalize(claim, Delivered(reference="far-1"))
    assert erased(world).complete
    assert left(world) == []
    assert world.sql("SELECT count(*), count(finished_at) FROM reminders.erasures") == [(1, 1)]


def test_cut_off_anywhere_the_next_run_finishes(world, monkeypatch):
    for _ in range(3):
        dead(world)
    set_deduplicates(world.database, "tenant-a", "log", ADDRESS, deduplicates=True)
    monkeypatch.setattr(erasure, "STEP", 1)
    steps = ("erase_words", "erase_files", "erase_calendars", "erase_series", "erase_consent", "erase_places", "finish")
    for name in steps:
        with monkeypatch.context() as cut:
            cut.setattr(erasure, name, _killed)
            with pytest.raises(KeyboardInterrupt):
                erased(world)
    done = erased(world)
    assert done.complete
    assert (done.touched["reminders"], done.touched["destinations"]) == (3, 1)
    assert left(world) == []
    assert violations(world) == []


def _killed(*_, **__):
    raise KeyboardInterrupt


def test_out_of_time_it_says_so_and_goes_on_later(world, monkeypatch):
    for _ in range(3):
        dead(world)
    monkeypatch.setattr(erasure, "STEP", 1)
    assert not erased(world, seconds=0.0).complete
    assert world.sql("SELECT count(erased_at) FROM reminders.reminders") == [(1,)]
    assert erased(world).touched["reminders"] == 3


def test_again_it_finds_nothing(world):
    dead(world)
    token = erased(world).user_token
    again = erased(world)
    assert (again.user_token, again.touched, again.complete) == (token, {}, True)
    assert re.fullmatch(r"erased-[0-9a-f]{32}", token)


def test_what_a_user_refuses_stays_refused_and_can_be_taken_back(world):
    scope = read_scope(tenant_id="tenant-a", user_id=USER)
    world.committed(add, "reminders", new_suppression(scope, reason=f"{ADDRESS} complained", source="mail", actor=USER))
    world.committed(
        prefer, "reminders", "tenant-a", USER, kind="offer", channel=None, allowed=False, source="page", actor=USER
    )
    world.committed(change, "reminders", "tenant-a", USER, zone="Europe/Berlin")
    done = erased(world)
    assert left(world) == []
    assert (done.touched["preferences"], done.touched["suppressions"], done.touched["recipients"]) == (1, 1, 1)
    made = world.schedule(**hers())
    world.published()
    world.deliver(ScriptedProvider())(made.id, made.delivery_key)
    assert world.status(made.id)[0] == "suppressed"
    assert len(suppressions(world.database, tenant="tenant-a", user=USER)) == 1
    assert world.committed(lift, "reminders", scope, actor="a", reason="she came back") is not None
    assert world.status(delivered(world).id)[0] == "delivered"
    offer = world.schedule(**hers(kind="offer"))
    world.published()
    world.deliver(ScriptedProvider())(offer.id, offer.delivery_key)
    assert world.status(offer.id)[0] == "suppressed"
    world.committed(
        prefer, "reminders", "tenant-a", USER, kind="offer", channel=None, allowed=True, source="page", actor=USER
    )
    assert world.status(delivered(world, kind="offer").id)[0] == "delivered"
    assert violations(world) == []


def test_erased_twice_the_later_word_counts(world):
    for allowed in (False, True):
        world.committed(
            prefer, "reminders", "tenant-a", USER, kind=None, channel=None, allowed=allowed, source="s", actor="a"
        )
        world.committed(
            add,
            "reminders",
            new_suppression(
                read_scope(tenant_id="tenant-a", user_id=USER, kind="offer"), reason="r", source="s", actor="a"
            ),
        )
        erased(world)
    assert world.status(delivered(world).id)[0] == "delivered"
    assert world.sql("SELECT count(*) FROM reminders.suppressions WHERE lifted_at IS NULL") == [(1,)]


def test_a_suppression_of_the_address_holds(world):
    dead(world)
    scope = read_scope(tenant_id="tenant-a", destination=ADDRESS, channel="log")
    world.committed(add, "reminders", new_suppression(scope, reason=f"{ADDRESS} bounced", source="s", actor="a"))
    erased(world)
    assert left(world) == []
    other = world.schedule(user_id="bea", destination=ADDRESS)
    world.published()
    world.deliver(ScriptedProvider())(other.id, other.delivery_key)
    assert world.status(other.id)[0] == "suppressed"


def test_series_and_calendars_are_not_left(world, stage):
    series = stage.schedule(**hers(reference="pills"))
    world.sql(
        "INSERT INTO reminders.calendars (id, tenant_id, user_id, kind, channel, import_id) VALUES (gen_random_uuid(), 'tenant-a', %s, 'k', 'log', gen_random_uuid())",
        USER,
    )
    world.sql(
        "INSERT INTO reminders.calendar_entries SELECT id, 'k', 'u', '', 0, 'h', now(), gen_random_uuid() FROM reminders.calendars"
    )
    world.sql(
        "INSERT INTO reminders.calendar_revisions SELECT id, 'u', '', false, 0, '', false FROM reminders.calendars"
    )
    done = erased(world)
    assert [
        done.touched[each] for each in ("reminders", "series", "calendars", "calendar_entries", "calendar_revisions")
    ] == [1] * 5
    assert left(world) == []
    assert violations(world) == []
    again, created = stage.committed(
        series_changing.schedule, stage.request(**hers(reference="pills", rule="FREQ=WEEKLY")), now=NOON
    )
    assert (again.id, again.status, created) == (series.id, "cancelled", False)
    assert world.sql("SELECT count(*) FROM reminders.due") == [(0,)]


def test_what_shadow_decided_and_a_kept_file_say_are_erased(world):
    made = world.schedule(**hers())
    shadowed = """INSERT INTO reminders.shadow_deliveries (delivery_key, reminder_id, tenant_id, user_id, kind, channel, reference, slot, destination_id,
                      decision, why, due_at, decided_at, lateness)
                  SELECT delivery_key, id, tenant_id, user_id, kind, channel, reference, slot, destination_id, 'refused', %s, due_at, now(), '1 s'
                  FROM reminders.reminders"""
    world.sql(shadowed, f"no {ADDRESS}")
    for number, status in enumerate(("done", "receiving")):
        file = """INSERT INTO reminders.reconciliation_files (id, source, name, status, sha256, header, actor)
                  VALUES (%s, 's', 'f', %s, %s, 'id,mail', 'a')"""
        world.sql(file, str(uuid.UUID(int=number)), status, bytes(32))
        page = "INSERT INTO reminders.reconciliation_file_pages VALUES (%s, 1, 1, 1, %s)"
        world.sql(page, str(uuid.UUID(int=number)), f'1,"{ADDRESS}"\n'.encode())
    done = erased(world)
    assert (done.complete, done.files_in_use) == (False, 1)
    world.sql("UPDATE reminders.reconciliation_files SET status = 'done'")
    done = erased(world)
    assert (done.complete, done.touched["reconciliation_files"], done.touched["shadow_deliveries"]) == (True, 2, 1)
    assert world.status(made.id)[0] == "cancelled"
    assert left(world) == []


def test_words_of_operators_that_name_her_go_and_others_stay(world):
    dead(world)
    for reason in (f"bounces at {ADDRESS.upper()}", f"({USER}) asked", "ada-18155 is another", "maintenance"):
        pause(world.database, pause_scope(tenant="tenant-a", kind=f"k{len(reason)}"), actor="op", reason=reason)
    erased(world)
    assert sorted(row[0] for row in world.sql("SELECT reason FROM reminders.pauses")) == [
        "ada-18155 is another",
        "erased",
        "erased",
        "maintenance",
    ]


def test_an_address_that_somebody_else_has_is_theirs(world):
    dead(world)
    set_deduplicates(world.database, "tenant-a", "log", ADDRESS, deduplicates=True)
    other = world.schedule(user_id="bea", destination=ADDRESS)
    assert "destinations" not in erased(world).touched
    assert world.sql("SELECT destination FROM reminders.reminders WHERE id = %s", str(other.id)) == [(ADDRESS,)]
    assert world.sql("SELECT address FROM reminders.destinations") == [(ADDRESS,)]
    assert erased(world, user="bea").touched["destinations"] == 1
    assert left(world, ADDRESS) == []


def test_a_dry_run_counts_and_changes_nothing(world):
    dead(world)
    world.schedule(**hers())
    before = world.sql("SELECT * FROM reminders.reminders ORDER BY id")
    found = rehearse(world.database, "tenant-a", USER)
    assert (found["reminders"], found["live_reminders"], found["dead_letters"]) == (2, 1, 1)
    assert world.sql("SELECT * FROM reminders.reminders ORDER BY id") == before
    assert world.sql("SELECT 1 FROM reminders.erasures UNION SELECT 1 FROM reminders.erasure_key") == []


def test_what_a_frozen_worker_reports_after_the_erasure_brings_nothing_back(world):
    made = world.schedule(**hers(), deduplicates=False)
    claim = world.opened(made)
    assert world.repair() == 1
    assert erased(world).complete
    assert left(world) == []
    world.finalize(claim, Delivered(reference=f"queued as 7 for {ADDRESS}", reason=f"250 ok {ADDRESS}"))
    assert left(world) == []
    assert world.attempts(made.id)[0][1] == "delivered"


def test_nor_what_it_reports_of_a_refusal(world):
    claim = world.opened(world.schedule(**hers(), deduplicates=False))
    assert world.repair() == 1
    assert erased(world).complete
    world.finalize(claim, NO)
    assert left(world) == []

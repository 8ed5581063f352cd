"""Every table has a rule; each rule removes what is over for long enough, and nothing else, tenant by tenant."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta

import pytest

from integration.ledger.series_stage import NOON
from integration.ledger.world import PATIENCE, ScriptedProvider
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.identity import destination_id
from reminders.domain.outcomes import Rejected
from reminders.ledger import series_changing
from reminders.ledger.audit import AuditPolicy, audit
from reminders.ledger.destination_state import disable, enable
from reminders.ledger.retention_policies import policies, remove_policy, set_policy
from reminders.ledger.retention_rules import GOES, STAYS, WITH_OTHERS
from reminders.operate import other_retention
from reminders.operate.other_retention import purge_others
from reminders.operate.retention import purge
from tables import TABLES

DAY = 86400.0
CATALOGUE = """SELECT c.relname FROM pg_class c
WHERE c.relnamespace = 'reminders'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition"""
A = "tenant-a"
NOW = "clock_timestamp()"


def ago(days):
    return f"clock_timestamp() - interval '{days} days'"


def others(world, reminders=10, evidence=100, **more):
    return purge_others(world.database, reminders=reminders * DAY, evidence=evidence * DAY, **more)


def test_every_table_of_the_schema_has_exactly_one_rule(world):
    tables = sorted(row[0] for row in world.sql(CATALOGUE))
    named = sorted([*GOES, *WITH_OTHERS, *STAYS])
    assert named == sorted(set(named))
    assert tables == named, "say in retention_rules.py what deletes its rows, or why they stay"
    assert all(STAYS.values())


def test_tests_empty_every_table_that_has_rows_of_theirs():
    kept = {"schema_version", "known_channels", "known_zones"}
    assert {*GOES, *WITH_OTHERS, *STAYS} - kept == {*TABLES}


ROWS = {
    "notices": "(id, kind, tenant_id, channel, reason, seen_at, seen_by, seen_host) VALUES ({id}, 'channel_held', '{t}', 'log{n}', 'r', {at}, 'a', 'h')",
    "channel_holds": "(tenant_id, channel, hold_until, hold_reason) VALUES ('{t}', 'c{n}', {at}, 'r')",
    "secrets": "(id, tenant_id, channel, inherited, created_at, retires_at) VALUES ({id}, '{t}', 'c', true, {at}, {at})",
    "pauses": "(id, tenant_id, reason, actor, host, ended_at, ended_by, ended_host, released_at) VALUES ({id}, '{t}', 'r', 'a', 'h', {at}, 'a', 'h', {at})",
    "rates": "(id, tenant_id, concurrent, reason, actor, host, removed_at, removed_by, removed_host, removed_reason) VALUES ({id}, '{t}', 1, 'r', 'a', 'h', {at}, 'a', 'h', 'r')",
    "tenant_changes": "(id, tenant_id, mode, dispatcher, reason, actor, host, changed_at) VALUES ({id}, '{t}', 'live', 'main', 'r', 'a', 'h', {at})",
    "secret_changes": "(id, tenant_id, channel, action, fingerprints, reason, actor, host, changed_at) VALUES ({id}, '{t}', 'c', 'revoke', '{{}}', 'r', 'a', 'h', {at})",
    "allowed_places": "(id, tenant_id, place, reason, actor, host, ended_at, ended_by, ended_host, ended_reason) VALUES ({id}, '{t}', 'p{n}', 'r', 'a', 'h', {at}, 'a', 'h', 'r')",
    "preferences": "(id, tenant_id, user_id, allowed, source, actor, ended_at) VALUES ({id}, '{t}', 'u', true, 's', 'a', {at})",
    "suppressions": "(id, tenant_id, user_id, reason, source, actor, lifted_at, lifted_by, lifted_reason) VALUES ({id}, '{t}', 'u', 'r', 's', 'a', {at}, 'a', 'r')",
    "recipients": "(tenant_id, user_id, changed_at) VALUES ('{t}', 'u{n}', {at})",
    "destinations": "(id, tenant_id, channel, address, created_at) VALUES ({id}, '{t}', 'log', 'a{n}', {at})",
    "templates": "(id, tenant_id, kind, channel, locale, version, parts, added_at, actor, host) VALUES ({id}, '{t}', 'k{n}', 'c', '', 1, '{{}}', {at}, 'a', 'h')",
    "erasures": "(id, tenant_id, user_token, reason, actor, host, finished_at) VALUES ({id}, '{t}', 'x', 'r', 'a', 'h', {at})",
    "purges": "(id, older_than, cutoff, ended_at, waits_for, settled_at) VALUES ({id}, 1, {at}, {at}, '{{}}', {at})",
    "quarantines": "(id, since, base, pause_id, letters, actor, host, reason, cutoff, ended_at) VALUES ({id}, {at}, 1, {id}, true, 'a', 'h', 'r', {at}, {at})",
    "dispatchers": "(name, seen_at, claim) VALUES ('d{n}', {at}, 30)",
    "shutdowns": "(worker, asked_at) VALUES ('w{n}', {at})",
    "calendars": "(id, tenant_id, user_id, kind, channel, import_id, imported_at) VALUES ({id}, '{t}', 'u', 'k', 'c', {id}, {at})",
}
ALONE = [table for table in GOES if table in ROWS]


def kept(table):
    """For how many days a row of `ROWS` is kept; nobody has said anything of its destination."""
    return 10 if GOES[table].about == "reminders" or table == "destinations" else 100


def put(world, table, n, at, tenant=A):
    row = ROWS[table].format(id=f"'{uuid.UUID(int=n + 1)}'", t=tenant, n=n, at=at)
    world.sql(f"INSERT INTO reminders.{table} {row}")


def number(world, table):
    return world.sql(f"SELECT count(*) FROM reminders.{table}")[0][0]


@pytest.mark.parametrize("table", ALONE)
def test_what_has_been_over_for_long_goes_and_what_has_not_stays(world, table, monkeypatch):
    monkeypatch.setattr("reminders.ledger.walking.PAGE", 2)
    keep = kept(table)
    for n in range(5):
        put(world, table, n, ago(keep + 1 if n != 2 else keep - 1))
    assert others(world, dry_run=True).gone == {table: 4}
    assert number(world, table) == 5
    assert others(world).gone == {table: 4}
    assert (number(world, table), others(world).gone) == (1, {})


@pytest.mark.parametrize("table", [each for each in ALONE if GOES[each].tenant is not None])
def test_a_tenant_may_have_it_otherwise(world, table):
    set_policy(world.database, "tenant-b", "reminders", 30 * DAY, actor="a", reason="r")
    set_policy(world.database, "tenant-b", "evidence", 300 * DAY, actor="a", reason="r")
    keep = kept(table)
    put(world, table, 1, ago(keep * 2))
    put(world, table, 2, ago(keep * 2), tenant="tenant-b")
    put(world, table, 3, ago(keep * 4), tenant="tenant-b")
    assert others(world).gone == {table: 2}


@pytest.mark.parametrize("table", ["pauses", "preferences", "suppressions", "notices", "rates", "allowed_places"])
def test_what_stands_stays_for_ever(world, table):
    rows = {
        "pauses": "(id, tenant_id, reason, actor, host, paused_at) VALUES ({id}, '{t}', 'r', 'a', 'h', {at})",
        "preferences": "(id, tenant_id, user_id, allowed, source, actor, said_at) VALUES ({id}, '{t}', 'u', true, 's', 'a', {at})",
        "suppressions": "(id, tenant_id, user_id, reason, source, actor, suppressed_at) VALUES ({id}, '{t}', 'u', 'r', 's', 'a', {at})",
        "notices": "(id, kind, tenant_id, channel, reason, noticed_at) VALUES ({id}, 'channel_held', '{t}', 'c', 'r', {at})",
        "rates": "(id, tenant_id, concurrent, reason, actor, host, set_at) VALUES ({id}, '{t}', 1, 'r', 'a', 'h', {at})",
        "allowed_places": "(id, tenant_id, place, reason, actor, host, allowed_at) VALUES ({id}, '{t}', 'p', 'r', 'a', 'h', {at})",
    }
    row = rows[table].format(id=f"'{uuid.UUID(int=1)}'", t=A, at=ago(5000))
    world.sql(f"INSERT INTO reminders.{table} {row}")
    assert others(world).gone == {}


def test_what_somebody_holds_is_passed_over(world):
    put(world, "notices", 1, ago(50))
    holder = world.connect()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.notices FOR UPDATE")
        assert others(world).gone == {}
    holder.rollback()
    assert others(world).gone == {"notices": 1}


def test_out_of_time_the_rest_is_left_and_cut_off_it_goes_on(world, monkeypatch):
    for n in range(4):
        put(world, "notices", n, ago(50))
    assert not others(world, seconds=0.0).complete
    monkeypatch.setattr(other_retention, "REMOVED", 1)
    original, calls = other_retention.remove, []

    def killed(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return original(*arguments)

    with monkeypatch.context() as cut:
        cut.setattr(other_retention, "remove", killed)
        with pytest.raises(KeyboardInterrupt):
            others(world)
    assert number(world, "notices") == 2
    assert others(world).gone == {"notices": 2}


def test_a_series_that_is_over_keeps_only_that_it_was_there(world, stage):
    series = stage.schedule(data={"note": "secret"})
    stage.committed(series_changing.cancel, series.id, now=NOON)
    world.sql("UPDATE reminders.series SET changed_at = now() - interval '50 days'")
    assert others(world).gone == {}
    world.sql("DELETE FROM reminders.due")
    world.sql("DELETE FROM reminders.reminders")
    assert others(world).gone == {"series": 1}
    assert world.sql("SELECT user_id, destination, data, rule FROM reminders.series") == [("purged", "", {}, None)]
    assert others(world).gone == {}
    again, created = stage.committed(series_changing.schedule, stage.request(), now=NOON)
    assert (again.id, again.status, created) == (series.id, "cancelled", False)
    with pytest.raises(Refused, match="cancelled"):
        stage.edit(series, NOON, rule="FREQ=WEEKLY")
    assert world.sql("SELECT count(*) FROM reminders.reminders") == [(0,)]


def test_skips_and_calendars_go_once_their_time_is_over(world, stage):
    series = stage.schedule()
    skip = "INSERT INTO reminders.series_skips (series_id, recurrence_id, due_at, lateness, reason, skipped_at) VALUES (%s, %s, {0}, '1 s', 'cap', {0})"
    for number, days in enumerate((11, 13)):
        world.sql(skip.format(ago(days)), str(series.id), f"turn-{number}")
    put(world, "calendars", 1, ago(50))
    entry = """INSERT INTO reminders.calendar_entries (calendar_id, entry_key, uid_key, recurrence_id, sequence, content_hash, due_at, reminder_id)
               SELECT id, %s, '\\x01', '', 0, '\\x01', {0}, %s FROM reminders.calendars"""
    world.sql(entry.format(ago(-50)), b"later", str(uuid.uuid4()))
    world.sql(entry.format(ago(50)), b"over", str(uuid.uuid4()))
    world.sql(entry.format(ago(50)), b"kept", str(stage.id_of(series, stage.rows(series)[0][0])))
    assert others(world).gone == {"series_skips": 1, "calendar_entries": 1}
    world.sql("DELETE FROM reminders.calendar_entries")
    assert others(world).gone == {"calendars": 1}


def test_a_destination_stays_while_a_reminder_has_it_and_while_an_operator_has_set_it(world):
    made = world.schedule(destination="far")
    put(world, "destinations", 7, ago(500))
    world.sql("UPDATE reminders.reminders SET destination_id = %s WHERE id = %s", str(uuid.UUID(int=8)), str(made.id))
    put(world, "destinations", 9, ago(500))
    world.sql("UPDATE reminders.destinations SET deduplicates = false WHERE id = %s", str(uuid.UUID(int=10)))
    put(world, "destinations", 11, ago(500))
    assert others(world).gone == {"destinations": 1}


def at_rest(world, place):
    """As if everything that is on record of the destination had been so long ago."""
    world.sql(
        """UPDATE reminders.destinations SET created_at = created_at - interval '50 days', disabled_at = disabled_at - interval '50 days',
           enabled_at = enabled_at - interval '50 days' WHERE id = %s""",
        str(place),
    )


def test_a_destination_that_an_operator_has_disabled_stays_and_one_that_was_enabled_is_evidence(world):
    place = destination_id(A, "log", "far")
    disable(world.database, (A, "log", "far"), "asked to stop")
    for _ in range(20):
        at_rest(world, place)
    assert others(world).gone == {}
    enable(world.database, (A, "log", "far"), "asked to go on")
    at_rest(world, place)
    assert others(world).gone == {}
    at_rest(world, place)
    at_rest(world, place)
    assert others(world).gone == {"destinations": 1}


def test_one_that_a_call_has_disabled_goes_with_its_last_reminder_unless_an_operator_says_so_too(world):
    gone = Rejected("http_410", "no mailbox far", 410, gone=True)
    for place in ("far", "near"):
        made = world.schedule(destination=place)
        world.published()
        world.deliver(ScriptedProvider(gone))(made.id, made.delivery_key)
        at_rest(world, destination_id(A, "log", place))
    disable(world.database, (A, "log", "near"), "asked to stop")
    world.sql("UPDATE reminders.notices SET noticed_at = now() - interval '50 days'")
    assert others(world).gone == {}
    world.sql("DELETE FROM reminders.reminders")
    assert others(world).gone == {"destinations": 1, "notices": 1}
    assert world.sql("SELECT address, disabled_reason FROM reminders.destinations") == [("near", "no mailbox far")]


def test_one_that_is_held_still_stays_until_the_hold_is_over(world):
    put(world, "destinations", 1, ago(50))
    world.sql("UPDATE reminders.destinations SET hold_until = now() + interval '1 hour', hold_reason = 'r'")
    assert others(world).gone == {}
    world.sql("UPDATE reminders.destinations SET hold_until = now() - interval '1 second'")
    assert others(world).gone == {"destinations": 1}


def delivered(world, **more):
    made = world.schedule(**more)
    world.published()
    world.deliver(ScriptedProvider())(made.id, made.delivery_key)
    return made


def test_reminders_go_by_their_tenants_word(world):
    for tenant in (A, "longer", "shorter"):
        delivered(world, tenant_id=tenant)
    set_policy(world.database, "longer", "reminders", 30 * DAY, actor="a", reason="a lawsuit")
    set_policy(world.database, "shorter", "reminders", 2 * DAY, actor="a", reason="promised")
    left = "SELECT tenant_id FROM reminders.reminders ORDER BY 1"

    def after(days):
        for _ in range(2):
            purge(world.database, 10 * DAY, now=datetime.now(UTC) + timedelta(days=days), patience=PATIENCE)
        return [row[0] for row in world.sql(left)]

    assert after(1) == ["longer", "shorter", A]
    assert after(3) == ["longer", A]
    assert after(11) == ["longer"]
    assert after(31) == []
    assert [
        each.check.name
        for each in audit(world.database, AuditPolicy(8, 72 * 3600.0, 7 * DAY, 256), since=None, limit=5).results
        if each.count
    ] == []


def test_a_tenants_word_is_checked_listed_and_taken_back(world):
    for wrong in ((3600.0, "reminders"), (DAY, "everything")):
        with pytest.raises(InvalidInput):
            set_policy(world.database, A, wrong[1], wrong[0], actor="a", reason="r")
    set_policy(world.database, A, "evidence", 9 * DAY, actor="a", reason="r")
    set_policy(world.database, A, "evidence", 8 * DAY, actor="b", reason="r")
    assert [(each.tenant_id, each.about, each.keep, each.actor) for each in policies(world.database)] == [
        (A, "evidence", 8 * DAY, "b")
    ]
    remove_policy(world.database, A, "evidence")
    with pytest.raises(NotFound):
        remove_policy(world.database, A, "evidence")

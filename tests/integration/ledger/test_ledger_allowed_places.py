"""Places that a tenant is allowed: at scheduling in the caller's transaction, and as a process keeps them."""

from __future__ import annotations

import psycopg2
import pytest

import reminders
from reminders import api
from reminders.bootstrap import deliver_of
from reminders.domain.errors import InvalidInput, NotFound, NotPublic, ServiceUnavailable
from reminders.ledger import allowed_places
from reminders.ledger.allowed_places import KeptAllowedPlaces, allow, disallow, rules
from reminders.providers.deadline_sockets import DeadlineSocket
from reminders.settings import Secret, Settings

SAID = {"actor": "ada", "reason": "their receivers are there"}
BY_ADDRESS = "https://10.20.1.5:8443/hook"


@pytest.fixture(autouse=True)
def production(monkeypatch):
    monkeypatch.setattr(api, "_settings", Settings)


def schedule(world, destination, tenant="tenant-a"):
    return world.schedule(channel="webhook", destination=destination, tenant_id=tenant)


@pytest.mark.parametrize(
    ("place", "destination"),
    [
        ("10.20.0.0/16", BY_ADDRESS),
        ("10.20.1.5/32", BY_ADDRESS),
        ("fd12::/16", "https://[fd12::5]/hook"),
        ("hooks.corp", "https://Hooks.Corp./hook"),
        ("hooks", "https://hooks/hook"),
        ("127.0.0.1/32", "https://127.0.0.1/hook"),
    ],
)
def test_what_is_allowed_is_scheduled_for_that_tenant_alone(world, place, destination):
    with pytest.raises(NotPublic):
        schedule(world, destination)
    assert allow(world.database, "tenant-a", place, **SAID)
    made = schedule(world, destination)
    assert world.column("reminders", "destination", made.id) == destination
    with pytest.raises(NotPublic):
        schedule(world, destination, "tenant-b")
    disallow(world.database, "tenant-a", place, **SAID)
    with pytest.raises(NotPublic):
        schedule(world, destination)


@pytest.mark.parametrize(
    ("place", "destination"),
    [
        ("10.20.0.0/16", "https://10.21.0.1/"),
        ("10.20.0.0/16", "https://hooks.corp/"),
        ("hooks.corp", BY_ADDRESS),
        ("hooks.corp", "https://other.corp/"),
        ("10.20.0.0/16", "https://[::ffff:10.20.1.5]/"),
        ("10.20.0.0/16", "http://10.20.1.5/"),
        ("hooks.corp", "http://hooks.corp/"),
        ("hooks.corp", "https://user@hooks.corp/"),
        ("10.20.0.0/16", "https://169.254.169.254/"),
    ],
)
def test_it_opens_nothing_else(world, place, destination):
    allow(world.database, "tenant-a", place, **SAID)
    with pytest.raises(InvalidInput, match="destination"):
        schedule(world, destination)


def test_the_refusal_leaves_the_callers_transaction_as_it_was(world):
    with world.connect() as connection:
        with pytest.raises(NotPublic):
            reminders.schedule(connection, **world.wanted(channel="webhook", destination=BY_ADDRESS))
        made = reminders.schedule(connection, **world.wanted())
    assert world.status(made.id)[0] == "pending"


def test_only_a_destination_that_would_be_refused_is_asked_about_and_once_for_many(world, monkeypatch):
    allow(world.database, "tenant-a", "10.20.0.0/16", **SAID)
    asked = []
    real = allowed_places.fetch
    monkeypatch.setattr(
        allowed_places, "fetch", lambda *given, **named: asked.append(named["tenant"]) or real(*given, **named)
    )
    schedule(world, "https://hooks.example.com/")
    assert asked == []
    wanted = [world.wanted(channel="webhook", destination=f"https://10.20.1.{last}/") for last in range(1, 50)]
    made = world.committed(reminders.schedule_many, wanted)
    assert (len(made), asked) == (49, ["tenant-a"])


def test_a_rule_of_the_same_transaction_counts(world):
    with world.connect() as connection:
        with connection.cursor() as cursor:
            cursor.execute(
                """INSERT INTO reminders.allowed_places (id, tenant_id, place, reason, actor, host)
                   VALUES (gen_random_uuid(), 'tenant-a', 'hooks.corp', 'r', 'a', 'h')"""
            )
        made = reminders.schedule(connection, **world.wanted(channel="webhook", destination="https://hooks.corp/"))
    assert made.created


def test_who_said_it_when_and_why_stays_on_record(world):
    assert allow(world.database, "tenant-a", "hooks.corp", **SAID)
    assert not allow(world.database, "tenant-a", "hooks.corp", actor="eve", reason="again")
    disallow(world.database, "tenant-a", "hooks.corp", actor="bob", reason="they moved")
    with pytest.raises(NotFound, match=r"hooks\.corp is not allowed to tenant tenant-a"):
        disallow(world.database, "tenant-a", "hooks.corp", actor="bob", reason="twice")
    assert allow(world.database, "tenant-a", "hooks.corp", actor="eve", reason="back")
    assert [each.actor for each in rules(world.database, tenant="tenant-a", ended=False, limit=9)] == ["eve"]
    first, second = rules(world.database, tenant=None, ended=True, limit=9)
    assert (first.actor, first.reason, first.ended_by, first.ended_reason) == (
        "ada",
        SAID["reason"],
        "bob",
        "they moved",
    )
    assert (second.reason, second.ended_at) == ("back", None)


def test_a_process_asks_once_and_again_after_half_a_minute(world, monkeypatch):
    clock = iter([0.0, 29.9, 30.1, 30.2])
    monkeypatch.setattr(allowed_places.time, "monotonic", lambda: next(clock))
    kept = KeptAllowedPlaces(world.database)
    assert not kept.of("tenant-a").opens("hooks.corp")
    allow(world.database, "tenant-a", "hooks.corp", **SAID)
    assert not kept.of("tenant-a").opens("hooks.corp")
    assert kept.of("tenant-a").opens("hooks.corp")
    assert not kept.of("tenant-b").opens("hooks.corp")


def test_while_postgres_is_away_nothing_old_is_believed(world, monkeypatch):
    clock = iter([0.0, 31.0])
    monkeypatch.setattr(allowed_places.time, "monotonic", lambda: next(clock))
    allow(world.database, "tenant-a", "hooks.corp", **SAID)
    kept = KeptAllowedPlaces(world.database)
    assert kept.of("tenant-a").opens("hooks.corp")

    def away(*_, **__):
        raise psycopg2.OperationalError("server closed the connection")

    monkeypatch.setattr(world.database, "fetch", away)
    with pytest.raises(ServiceUnavailable, match="cannot be read"):
        kept.of("tenant-a")


def test_a_worker_goes_by_what_the_ledger_says(world, monkeypatch):
    allow(world.database, "tenant-a", "10.20.0.0/16", **SAID)
    made = [schedule(world, BY_ADDRESS) for _ in range(2)]
    connected = []

    def connect(_, address):
        connected.append(address)
        raise ConnectionRefusedError(111, "refused")

    monkeypatch.setattr(DeadlineSocket, "connect", connect)
    settings = Settings(webhook_secret=Secret("s" * 24))
    world.published()
    assert deliver_of(settings, world.database, worker="w-1")(made[0].id, made[0].delivery_key) == "parked"
    assert connected == [("10.20.1.5", 8443)]
    disallow(world.database, "tenant-a", "10.20.0.0/16", **SAID)
    # Another process, or this one half a minute later.
    assert deliver_of(settings, world.database, worker="w-2")(made[1].id, made[1].delivery_key) == "dead"
    assert (world.letters(made[1].id), len(connected)) == ([("destination", "open", "unsendable")], 1)

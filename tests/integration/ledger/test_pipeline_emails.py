"""E-mail all the way: a real local mail server, the real provider and the ledger."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from integration.mail_server import CLOSE, HANG, MailServer, Manner, provider_for
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.template_versions import TemplateVersions
from reminders.ledger.templates import add_template
from reminders.providers import registry

PARTS = {"subject": "Order {{ data.order }} is due", "text": "Dear {{ user_id }}, order {{ data.order }} is due.\n"}
PLACE = {"tenant": "tenant-a", "kind": "note", "channel": "email", "locale": ""}


@pytest.fixture(autouse=True)
def installed(monkeypatch):
    """The channel as it is found in an installation of this release."""
    names = {"email": "reminders.providers.email:provider", "log": "reminders.providers.log:provider"}
    points = [EntryPoint(name, value, registry.GROUP) for name, value in names.items()]
    monkeypatch.setattr(registry, "entry_points", lambda **_: points)
    registry._installed.cache_clear()
    registry.load.cache_clear()
    yield
    monkeypatch.undo()
    registry._installed.cache_clear()
    registry.load.cache_clear()


@pytest.fixture
def server():
    server = MailServer()
    yield server
    server.stop()


@pytest.fixture
def deliver(world, server):
    """Publish what is due, and let a worker with the real provider carry all of it through."""
    provider = provider_for(server, user="shop", password="secret")
    add_template(world.database, **PLACE, parts=PARTS, actor="ada", host="desk")

    def run(now=None, **policy):
        claims = PostgresClaims(world.database, worker="worker-1", formats={"email": 1}, templated=["email"], now=now)
        templates = TemplateVersions(world.database)
        worker = world.deliver(provider, now=now, claims=claims, templates=templates, **policy)
        return [worker(each.reminder_id, each.delivery_key) for each in world.published(now)]

    return run


def schedule(world, **changed):
    return world.schedule(channel="email", destination="anna@customer.example", **{"data": {"order": 7}, **changed})


def test_a_mail_is_sent_once_and_the_servers_name_for_it_kept(world, server, deliver):
    made = schedule(world)
    assert deliver() == ["delivered"]
    (kept,) = server.kept
    assert kept.recipient == "anna@customer.example"
    assert f"Message-ID: <{made.delivery_key}@shop.example>".encode() in kept.text
    assert b"Subject: Order 7 is due\r\n" in kept.text
    query = "SELECT provider_reference, status_code FROM reminders.delivery_attempts WHERE reminder_id = %s"
    assert world.sql(query, str(made.id)) == [("4XyZ1abcD", 250)]


def test_a_mail_whose_fate_is_unknown_goes_to_review_and_is_never_repeated(world, server, deliver):
    server.manners["dot"] = [CLOSE]
    made = schedule(world)
    assert deliver() == ["dead"]
    assert world.letters(made.id) == [("unknown", "open", "closed")]
    assert deliver(world.lapse(86400)) == []
    assert len(server.kept) == 1


def test_a_mail_that_was_put_off_is_retried_with_the_same_body(world, server, deliver):
    server.manners["RCPT"] = [Manner(b"451 4.7.1 greylisted\r\n"), None]
    made = schedule(world)
    assert deliver() == ["parked"]
    assert deliver(world.lapse(60)) == ["delivered"]
    assert world.attempts(made.id) == [(1, "retry", "smtp_451"), (2, "delivered", "")]
    assert len(server.kept) == 1


def test_a_refused_mailbox_is_a_dead_letter_and_its_destination_stays_enabled(world, server, deliver):
    server.manners["RCPT"] = [Manner(b"550 5.1.1 no such user\r\n"), None]
    made = schedule(world)
    assert deliver() == ["dead"]
    assert world.letters(made.id) == [("destination", "open", "smtp_550")]
    schedule(world)
    assert deliver() == ["delivered"]


def test_refused_credentials_hold_the_channel_and_keep_the_reminders(world, server, deliver):
    server.manners["AUTH"] = [Manner(b"535 5.7.8 wrong\r\n"), None]
    made = [schedule(world) for _ in range(5)]
    assert sorted(deliver()) == ["channel_held"] * 4 + ["held"]
    assert server.accepted == 1
    assert all(world.letters(each.id) == [] for each in made)
    assert sorted(deliver(world.lapse(700))) == ["delivered"] * 5
    assert len(server.kept) == 5


def test_a_hanging_mail_server_before_the_message_is_a_retry(world, server, deliver):
    server.manners["EHLO"] = [HANG, None]
    made = schedule(world)
    from reminders.pipeline.deliver import DeliverPolicy

    assert deliver(policy=DeliverPolicy(30.0, 0.5)) == ["parked"]
    assert world.attempts(made.id) == [(1, "retry", "deadline_before_send")]


def test_a_subject_that_data_would_break_is_our_own_fault_and_not_a_storm(world, server, deliver):
    made = schedule(world, data={"order": "7\nBcc: eve@evil.example"})
    assert deliver() == ["dead"]
    ((kind, state, _),) = world.letters(made.id)
    assert (kind, state) == ("pipeline", "open")
    assert (server.accepted, server.kept) == (0, [])

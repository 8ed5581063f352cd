"""Secrets of one's own all the way: claims, a real worker and a real receiver, judged by the public verifier."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from integration.listening import end_listening
from integration.raw_receiver import MASTER, Receiver
from own_keys import KEY, LOST_KEY
from reminders.bootstrap import DATABASE_FAULTS, own_secrets_of
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.keyring import Keyring
from reminders.ledger.rotating import Said, SecretPlace, revoke, rotate
from reminders.pipeline.own_secrets import OwnSecrets
from reminders.providers.signing import derive_secret, format_secret
from reminders.providers.webhook import WebhookProvider
from reminders.receiver import WrongSignature, verify
from reminders.settings import Secret, Settings

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
SETTINGS = Settings(webhook_secret=Secret(MASTER), allow_private=True, keys=(Secret(KEY),))
SAID = Said("ada", "leaked")
DAY = 86400.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver(lambda connection, _: connection.sendall(OK))
    yield one
    end_listening(one.listener)


class Sender:
    """A worker with the real provider, that lives as long as this does."""

    def __init__(self, world, receiver, settings=SETTINGS) -> None:
        self.world, self.receiver = world, receiver
        self.place = SecretPlace("tenant-a", "webhook", receiver.url)
        self.secrets = own_secrets_of(settings, world.database)
        self.provider = WebhookProvider(settings)

    def rotate(self, *, grace=DAY, place=None) -> bytes:
        keyring = Keyring(SETTINGS.keys)
        return rotate(self.world.database, keyring, place or self.place, grace=grace, said=SAID).secret

    def worker(self, **parts):
        claims = PostgresClaims(self.world.database, worker="worker-1", formats={"webhook": 1})
        given = {"claims": claims, "secrets": self.secrets, "faults": DATABASE_FAULTS, **parts}
        return self.world.deliver(self.provider, **given)

    def send(self, **wanted):
        """Send one reminder; the request that arrived."""
        self.world.schedule(channel="webhook", destination=self.receiver.url, **wanted)
        (message,) = self.world.published()
        assert self.worker()(message.reminder_id, message.delivery_key) == "delivered"
        return self.receiver.requests[-1]

    def derived(self, tenant="tenant-a") -> bytes:
        return derive_secret(MASTER.encode(), tenant, "webhook", self.receiver.url)


@pytest.fixture
def sender(world, receiver):
    return Sender(world, receiver)


def accepts(secret: bytes, request) -> bool:
    """What both the public library and our kit say; they must agree."""
    said = []
    for check in (
        lambda: Webhook(format_secret(secret)).verify(request.body, request.headers),
        lambda: verify(request.body, request.headers, [secret]),
    ):
        try:
            check()
            said.append(True)
        except (WebhookVerificationError, WrongSignature):
            said.append(False)
    assert said[0] == said[1]
    return said[0]


def signatures(request) -> int:
    return len(request.headers["webhook-signature"].split())


def test_while_the_grace_lasts_both_are_accepted_and_then_the_new_one_alone(sender, monkeypatch):
    former = sender.rotate(grace=0.0)
    new = sender.rotate(grace=60.0)
    request = sender.send()
    assert (accepts(new, request), accepts(former, request), signatures(request)) == (True, True, 2)
    assert not accepts(sender.derived(), request)
    assert not accepts(b"\x01" * 32, request)
    # The same worker, whose clock goes on; nothing is asked again and nothing restarted.
    monkeypatch.setattr(sender.world.database, "fetch", _refusing(sender.world.database, "secrets_in_force"))
    before = sender.secrets._clock()
    monkeypatch.setattr(sender.secrets, "_clock", lambda: before + 61.0)
    request = sender.send()
    assert (accepts(new, request), accepts(former, request), signatures(request)) == (True, False, 1)


def test_the_derived_one_goes_on_beside_the_first_of_its_own(sender):
    assert accepts(sender.derived(), sender.send())
    new = sender.rotate()
    request = sender.send()
    assert (accepts(new, request), accepts(sender.derived(), request), signatures(request)) == (True, True, 2)
    revoke(sender.world.database, sender.place, said=SAID)
    request = sender.send()
    assert (accepts(new, request), accepts(sender.derived(), request), signatures(request)) == (True, False, 1)


def test_a_tenants_secret_signs_with_each_destinations_derived_one_beside_it(sender):
    new = sender.rotate(place=SecretPlace("tenant-a", "webhook"))
    request = sender.send()
    assert (accepts(new, request), accepts(sender.derived(), request)) == (True, True)
    other = sender.send(tenant_id="tenant-b")
    assert (accepts(new, other), accepts(sender.derived("tenant-b"), other), signatures(other)) == (False, True, 1)


def test_secrets_are_read_once_for_a_mark_and_not_at_all_without(sender, monkeypatch):
    asked = []
    real = sender.world.database.fetch

    def fetch(statement, **given):
        asked.append(statement.name)
        return real(statement, **given)

    monkeypatch.setattr(sender.world.database, "fetch", fetch)
    for _ in range(3):
        sender.send()
    assert "secrets_in_force" not in asked
    sender.rotate()
    for _ in range(3):
        sender.send()
    assert asked.count("secrets_in_force") == 1
    sender.rotate()
    sender.send()
    assert asked.count("secrets_in_force") == 2


@pytest.mark.parametrize("keys", [(), (Secret(LOST_KEY),)])
def test_a_secret_that_cannot_be_decrypted_costs_no_reminder_and_signs_nothing_else(sender, keys, caplog):
    new = sender.rotate(grace=0.0)
    key = Keyring(SETTINGS.keys).newest
    lacking = Settings(webhook_secret=Secret(MASTER), allow_private=True, keys=keys)
    made = sender.world.schedule(channel="webhook", destination=sender.receiver.url)
    (message,) = sender.world.published()
    with caplog.at_level(logging.ERROR):
        worker = sender.worker(secrets=own_secrets_of(lacking, sender.world.database))
        assert worker(message.reminder_id, message.delivery_key) == "given_back"
    assert sender.receiver.requests == []
    (line,) = caplog.messages
    assert line.startswith(f"secrets.unreadable key={key}: nothing was sent: secret ")
    assert "Add its key to REMINDERS_KEYS of the workers" in line
    assert sender.world.status(made.id) == ("pending", "retrying")
    assert sender.world.attempts(made.id) == []
    # With the key back it goes, after a minute, as its first attempt.
    now = sender.world.lapse(61)
    (message,) = sender.world.published(now)
    claims = PostgresClaims(sender.world.database, worker="worker-1", formats={"webhook": 1}, now=now)
    assert sender.worker(claims=claims)(message.reminder_id, message.delivery_key) == "delivered"
    assert accepts(new, sender.receiver.requests[-1])


def test_a_worker_without_a_source_of_secrets_gives_the_claim_back(sender):
    sender.rotate()
    sender.world.schedule(channel="webhook", destination=sender.receiver.url)
    (message,) = sender.world.published()
    worker = sender.world.deliver(
        sender.provider, claims=PostgresClaims(sender.world.database, worker="worker-1", formats={"webhook": 1})
    )
    assert worker(message.reminder_id, message.delivery_key) == "given_back"
    assert sender.receiver.requests == []


@pytest.mark.parametrize("fault", [DATABASE_FAULTS[0], RuntimeError])
def test_secrets_that_cannot_be_fetched_cost_no_reminder(sender, fault):
    class Away:
        def of_mark(self, delivery, mark):
            raise fault("away")

    sender.rotate()
    made = sender.world.schedule(channel="webhook", destination=sender.receiver.url)
    (message,) = sender.world.published()
    secrets = OwnSecrets(Away(), None, clock=lambda: 0.0)
    assert sender.worker(secrets=secrets)(message.reminder_id, message.delivery_key) == "given_back"
    assert sender.receiver.requests == []
    assert sender.world.status(made.id) == ("pending", "retrying")


def _refusing(database, name):
    real = database.fetch

    def fetch(statement, **given):
        assert statement.name != name
        return real(statement, **given)

    return fetch

"""SMS all the way: a scripted gateway, the real provider and the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from integration.ledger.world import CLAIM, MAX_ATTEMPTS, MAX_WAIT, World
from integration.sms_scripted import ScriptedGateway, kept, raw, refused
from reminders.domain.errors import InvalidInput
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.template_versions import TemplateVersions
from reminders.ledger.templates import add_template
from reminders.pipeline.finalize import RetryPolicy
from reminders.settings import Settings
from sms_samples import TEXT, TO, template

SHIPPED = RetryPolicy(MAX_ATTEMPTS, Settings().retry_delays, MAX_WAIT)
SETTLED = CLAIM + 61
LOST = raw(b"", then="close")
LOST_BUT_KEPT = raw(b"", keep=True, then="close")


@dataclass
class Phone:
    """A reminder by SMS, its gateway, and a worker."""

    world: World
    gateway: ScriptedGateway
    made: Any = None
    answers: list[str] = field(default_factory=list)
    began: datetime | None = None
    """When its worker first looked: all its times are counted from then, however long each step takes."""

    def schedule(self, order: object = 17) -> None:
        self.made = self.world.schedule(channel="sms", destination=TO, data={"order": order})

    def work(self, seconds: float = 0.0) -> list[str]:
        """Publish what is due `seconds` after the first time and let a worker carry all of it through."""
        self.began = self.began or self.world.lapse(0)
        now = self.began + timedelta(seconds=seconds)
        provider = self.gateway.provider(claim=CLAIM)
        worker = self.world.deliver(
            provider,
            now=now,
            claims=self.claims(now),
            templates=TemplateVersions(self.world.database),
            finalize=self.world.finalizing(now=now, policy=SHIPPED),
        )
        return [worker(each.reminder_id, each.delivery_key) for each in self.world.published(now)]

    def claims(self, now: datetime | None = None) -> PostgresClaims:
        given: dict[str, Any] = {"formats": {"sms": 1}, "look_ups": ("sms",), "templated": ("sms",)}
        return PostgresClaims(self.world.database, worker="worker-1", now=now, **given)

    @property
    def counts(self) -> tuple[int, int]:
        """How many creates and how many lists the gateway was asked for."""
        return len(self.gateway.creates), len(self.gateway.lists)


@pytest.fixture
def phone(world) -> Iterator[Phone]:
    gateway = ScriptedGateway()
    place = {"tenant": "", "kind": "note", "channel": "sms", "locale": ""}
    add_template(world.database, **place, parts=template().parts, actor="ada", host="desk")
    yield Phone(world, gateway)
    gateway.close()


def reference(phone: Phone) -> str | None:
    return phone.world.column("notification_deliveries", "provider_reference", phone.made.id)


def test_a_number_that_is_no_destination_is_refused_when_it_is_scheduled(world):
    with pytest.raises(InvalidInput, match=r"^destination: must be spelled \+4915123456789: "):
        world.schedule(channel="sms", destination="+49 1512 3456789")


def test_accepted_by_the_gateway_is_delivered_under_its_name(phone):
    phone.schedule()
    assert phone.work() == ["delivered"]
    assert reference(phone) == phone.gateway.messages[0]["sid"]
    assert phone.gateway.messages[0]["body"] == TEXT
    assert phone.counts == (1, 0)


def test_a_text_that_is_too_long_is_our_own_fault_and_nothing_is_sent(phone):
    phone.schedule(order="17" * 300)
    assert phone.work() == ["dead"]
    assert phone.world.letters(phone.made.id)[0][:2] == ("pipeline", "open")
    assert phone.counts == (0, 0)


def test_unknown_then_looked_up_after_it_has_settled_then_delivered_without_a_second_call(phone):
    phone.schedule()
    phone.gateway.script = [LOST_BUT_KEPT]
    assert phone.work() == ["parked"]
    assert phone.work(10) == ["given_back"], "nobody asks before it has settled"
    assert phone.counts == (1, 0)
    assert phone.work(SETTLED - 5) == []
    assert phone.work(SETTLED) == ["delivered"]
    assert phone.counts == (1, 1)
    assert reference(phone) == phone.gateway.messages[0]["sid"]
    assert phone.world.status(phone.made.id) == ("delivered", "delivered")
    assert phone.world.attempts(phone.made.id) == [(1, "unknown", "closed"), (3, "delivered", "")]


def test_none_found_is_asked_for_four_times_in_an_hour_and_then_goes_to_review(phone):
    """It is never sent again: that it is not listed does not say that it was not sent."""
    phone.schedule()
    phone.gateway.script = [LOST]
    assert phone.work() == ["parked"]
    answers = []
    for seconds in (10, SETTLED, SETTLED + 40, SETTLED + 400):
        answers += phone.work(seconds)
    assert answers == ["given_back", "parked", "parked", "parked"]
    assert phone.work(3600) == ["dead"]
    assert phone.counts == (1, 4)
    assert phone.world.letters(phone.made.id) == [("unknown", "open", "none_found")]
    assert phone.world.column("notification_deliveries", "uncertain_since", phone.made.id) is not None
    assert phone.work(86400) == []
    assert phone.counts == (1, 4)


def test_several_found_go_to_review_at_once(phone):
    phone.schedule()
    phone.gateway.script = [LOST_BUT_KEPT]
    phone.work()
    phone.gateway.keep({"To": TO, "From": phone.gateway.messages[0]["from"], "Body": TEXT})
    phone.work(10)
    assert phone.work(SETTLED) == ["dead"]
    assert phone.world.letters(phone.made.id) == [("unknown", "open", "several_found")]
    assert phone.counts == (1, 1)


def test_a_worker_that_died_in_its_call_leaves_a_look_up_that_waits_until_it_has_settled(phone):
    phone.schedule()
    (message,) = phone.world.published()
    claim = phone.claims().claim(message.reminder_id, message.delivery_key, message.reminder_id, CLAIM)
    assert claim is not None
    provider = phone.gateway.provider(claim=CLAIM)
    delivery = replace(claim.delivery, template=template())
    provider.send(delivery, provider.render(delivery), 5.0)
    assert phone.world.repair() == 1
    assert phone.work(CLAIM + 2) == ["given_back"]
    assert phone.counts == (1, 0)
    assert phone.work(SETTLED) == ["delivered"]
    assert phone.counts == (1, 1)
    assert reference(phone) == phone.gateway.messages[0]["sid"]


def test_a_gateway_that_cannot_be_asked_is_asked_again_until_the_attempts_are_used_up(phone):
    phone.schedule()
    phone.gateway.script = [LOST]
    phone.gateway.pages = lambda _: b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"
    phone.work()
    answers: list[str] = []
    hours = 0.0
    while answers[-1:] != ["dead"]:
        hours += 0.5
        assert hours < MAX_WAIT / 3600
        answers += phone.work(hours * 3600)
    assert answers == ["parked"] * 6 + ["dead"]
    assert phone.counts == (1, MAX_ATTEMPTS - 1)
    assert phone.world.letters(phone.made.id) == [("unknown", "open", "http_500")]


def test_who_has_said_stop_is_a_dead_letter_of_its_own_class(phone):
    phone.schedule()
    phone.gateway.script = [refused(400, 21610)]
    assert phone.work() == ["dead"]
    assert phone.world.letters(phone.made.id) == [("destination", "open", "unsubscribed")]


def test_refused_credentials_hold_the_channel_and_keep_the_reminders(phone):
    for _ in range(3):
        phone.schedule()
    phone.gateway.script = [refused(401, 20003)]
    assert sorted(phone.work()) == ["channel_held", "channel_held", "held"]
    assert phone.counts == (1, 0)
    phone.gateway.script = [kept()] * 3
    assert sorted(phone.work(16 * 60)) == ["delivered"] * 3
    assert len(phone.gateway.messages) == 3

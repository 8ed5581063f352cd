"""Secrets by mark: fetched once, bounded in number, and at their end by the clock alone."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from uuid import UUID

import pytest

from integration.raw_receiver import delivery
from reminders.domain.errors import SecretUnreadable
from reminders.pipeline.own_secrets import OwnSecret, OwnSecrets, SecretsOfMark
from reminders.pipeline.ports import Claim

ETERNAL = float("inf")


class Ledger:
    def __init__(self, *answers) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def of_mark(self, delivery, mark):
        self.asked.append(mark)
        answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def claimed(mark, url="https://hooks.example/a"):
    return Claim(
        delivery=delivery(url), claim_number=1, claimed_at=datetime.now(UTC), on_unknown="repeat", uncertain=False, attempts=0,
        waited=0.0, body_hash=None, secret_mark=mark,
    )  # fmt: skip


@pytest.fixture
def clock():
    return SimpleNamespace(now=1000.0)


def source(ledger, clock, **more):
    given = {"derive": lambda one: one.destination.encode(), **more}
    return OwnSecrets(ledger, given.pop("derive"), clock=lambda: clock.now, **given)


def both(seconds, derived=0.0):
    return SecretsOfMark((OwnSecret(b"new", None), OwnSecret(b"former", seconds)), derived)


def test_without_a_mark_nothing_is_asked(clock):
    ledger = Ledger(both(5.0))
    assert source(ledger, clock)(claimed(None)) == ()
    assert ledger.asked == []


def test_a_mark_is_asked_for_once_and_the_grace_ends_on_time(clock):
    ledger = Ledger(both(60.0))
    secrets = source(ledger, clock)
    assert secrets(claimed("a/")) == (b"new", b"former")
    clock.now += 59.9
    assert secrets(claimed("a/")) == (b"new", b"former")
    clock.now += 0.1
    assert secrets(claimed("a/")) == (b"new",)
    assert ledger.asked == ["a/"]


def test_the_derived_one_is_each_destinations_own_and_ends_too(clock):
    secrets = source(Ledger(SecretsOfMark((OwnSecret(b"new", None),), 10.0)), clock)
    assert secrets(claimed("/t", "https://one")) == (b"new", b"https://one")
    assert secrets(claimed("/t", "https://two")) == (b"new", b"https://two")
    clock.now += 10.0
    assert secrets(claimed("/t", "https://two")) == (b"new",)


def test_a_slow_answer_makes_no_grace_longer(clock):
    ledger = Ledger(both(10.0))

    def slow(one, mark):
        found = Ledger.of_mark(ledger, one, mark)
        clock.now += 4.0
        return found

    ledger.of_mark = slow
    secrets = source(ledger, clock)
    assert secrets(claimed("a/")) == (b"new", b"former")
    clock.now += 6.0
    assert secrets(claimed("a/")) == (b"new",)


def test_another_mark_is_another_question(clock):
    ledger = Ledger(both(60.0), SecretsOfMark((OwnSecret(b"newest", None),), 0.0))
    secrets = source(ledger, clock)
    assert secrets(claimed("a/"))[0] == b"new"
    assert secrets(claimed("b/")) == (b"newest",)


def test_the_marks_that_are_remembered_are_bounded(clock):
    ledger = Ledger(both(60.0))
    secrets = source(ledger, clock, most=2)
    for mark in ("a/", "b/", "a/", "c/", "a/", "b/"):
        secrets(claimed(mark))
    assert ledger.asked == ["a/", "b/", "c/", "b/"]
    assert len(secrets._remembered) == 2


def test_what_cannot_be_read_is_raised_logged_and_asked_for_again(clock, caplog):
    ledger = Ledger(SecretUnreadable("ab12", "REMINDERS_KEYS has no such key\nAdd it"), both(60.0))
    secrets = source(ledger, clock)
    with caplog.at_level(logging.ERROR), pytest.raises(SecretUnreadable):
        secrets(claimed("a/"))
    assert caplog.messages == ["secrets.unreadable key=ab12: nothing was sent: REMINDERS_KEYS has no such key Add it"]
    assert secrets(claimed("a/")) == (b"new", b"former")


def test_without_a_master_the_derived_one_cannot_sign(clock):
    secrets = source(Ledger(both(60.0, derived=5.0)), clock, derive=None)
    with pytest.raises(SecretUnreadable, match="REMINDERS_WEBHOOK_SECRET is not set"):
        secrets(claimed("a/"))
    clock.now += 5.0
    assert secrets(claimed("a/")) == (b"new", b"former")


def test_no_secret_shows(clock):
    secrets = source(Ledger(both(60.0)), clock)
    found = secrets(claimed("a/"))
    one = replace(delivery("https://x"), secrets=found, reminder_id=UUID(int=7))
    shown = f"{one} {claimed('a/')} {both(60.0)} {secrets._remembered}"
    assert "b'new'" not in shown
    assert "b'former'" not in shown

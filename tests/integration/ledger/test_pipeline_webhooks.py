"""Webhooks all the way: a real local receiver, the real provider and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest

from integration.listening import end_listening
from integration.raw_receiver import MASTER, Receiver
from reminders.ledger.claiming import PostgresClaims
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

ASKS = b"HTTP/1.1 429 Slow Down\r\nRetry-After: 90\r\nContent-Length: 0\r\n\r\n"
GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"
UNREADABLE = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n\x00\xff{"


@pytest.fixture
def receiver() -> Iterator[Callable[[bytes], Receiver]]:
    started: list[Receiver] = []

    def start(raw: bytes) -> Receiver:
        started.append(Receiver(lambda connection, _: connection.sendall(raw) or not raw.endswith(b"{")))
        return started[-1]

    yield start
    for each in started:
        end_listening(each.listener)


@pytest.fixture
def deliver(world):
    """Publish what is due, and let a worker with the real provider carry all of it through."""
    provider = WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True))

    def run(now=None) -> list[str]:
        claims = PostgresClaims(world.database, worker="worker-1", formats={"webhook": 1}, now=now)
        worker = world.deliver(provider, now=now, claims=claims)
        return [worker(each.reminder_id, each.delivery_key) for each in world.published(now)]

    return run


def test_a_receiver_that_asks_for_a_pause_is_left_alone(world, receiver, deliver):
    server = receiver(ASKS)
    for _ in range(20):
        world.schedule(channel="webhook", destination=server.url)
    now = world.lapse(0)
    assert sorted(deliver(now)) == ["destination_held"] * 19 + ["held"]
    assert len(server.requests) == 1
    assert deliver(now + timedelta(seconds=80)) == []
    assert "held" in deliver(now + timedelta(seconds=100))
    assert len(server.requests) == 2


def test_a_receiver_that_is_gone_is_not_called_again(world, receiver, deliver):
    server = receiver(GONE)
    made = [world.schedule(channel="webhook", destination=server.url) for _ in range(5)]
    assert deliver() == ["dead"] * 5
    assert len(server.requests) == 1
    assert sorted(world.letters(each.id)[0][2] for each in made) == ["destination_disabled"] * 4 + ["http_410"]


def test_a_success_whose_answer_cannot_be_read_is_delivered(world, receiver, deliver):
    server = receiver(UNREADABLE)
    made = world.schedule(channel="webhook", destination=server.url)
    assert deliver() == ["delivered"]
    assert world.status(made.id) == ("delivered", "delivered")
    assert len(server.requests) == 1

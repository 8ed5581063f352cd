"""Who has fallen silent without having signed off, and who has not: frozen, stopped, killed and replaced."""

import signal

import pytest

from reminders.broker import presence, silence
from reminders.broker.gauge import RedisGauge
from reminders.broker.link import Link
from reminders.broker.observing import observe
from reminders.broker.presence import FORGOTTEN_AFTER, KEY, Presence, announce, sign_off, since_key

from .conftest import eventually, worker_argv

HERE = Presence("deliver1.7@here", 71, ("deliver",), 4)
SIBLING = Presence("deliver2.7@here", 72, ("deliver",), 4)


@pytest.fixture
def link_in_a_hurry(broker_settings):
    link = Link(broker_settings)
    yield link
    link.close()


@pytest.fixture
def link(link_in_a_hurry, monkeypatch):
    """With half a minute's patience: a busy machine may take seconds from one word to the next look."""
    for module in (presence, silence):
        monkeypatch.setattr(module, "SILENT_AFTER", 30.0)
    return link_in_a_hurry


def aged(server, seconds):
    """Everybody has said all that they have so long ago."""
    for member in server.client.zrange(KEY, 0, -1):
        server.client.zincrby(KEY, -seconds, member)
    for key in server.client.scan_iter("reminders:since:*"):
        if (value := server.client.get(key)) != b"leaving":
            server.client.set(key, float(value) - seconds)


def silent(link):
    """How many are, and for how many seconds the longest; in tens, since time passes between a word and this look."""
    found = observe(link)
    assert [queue for queue, number in found.silent.items() if number] == [
        queue for queue, age in found.silence.items() if age
    ]
    return found.silent["deliver"], found.silence["deliver"] // 10 * 10


def test_one_of_two_that_is_silent_is_counted_with_its_age_while_the_other_goes_on(link, server, broker_settings):
    announce(link, HERE)
    announce(link, SIBLING)
    aged(server, 100)
    announce(link, SIBLING, instead_of=SIBLING)
    assert silent(link) == (1, 100)
    assert observe(link).processes["deliver"] == 1
    gauge = RedisGauge(broker_settings)
    assert [each.presence for each in gauge.silent()] == [HERE]
    gauge.close()
    announce(link, HERE, instead_of=HERE)
    assert silent(link) == (0, 0)


def test_who_has_signed_off_or_was_leaving_is_not(link, server):
    announce(link, HERE)
    announce(link, SIBLING, leaving=True)
    sign_off(link, HERE)
    assert server.client.zcard(KEY) == 1
    assert server.client.keys("*71") == []
    aged(server, 100)
    assert silent(link) == (0, 0)


@pytest.mark.parametrize(
    ("other", "replaces"),
    [
        (Presence(HERE.node, 80, ("deliver",), 4), True),  # its parent has started it again
        (Presence("deliver1.8@here", 80, ("deliver",), 4), True),  # and its parent too
        (Presence("deliver1.9@there", 80, ("deliver",), 4), True),  # and its host
        (Presence("retry1.9@there", 80, ("retry",), 4), False),
    ],
)
def test_who_was_killed_and_replaced_is_not(link, server, other, replaces):
    announce(link, HERE)
    aged(server, 100)
    announce(link, other)
    assert silent(link) == ((0, 0) if replaces else (1, 100))


@pytest.mark.parametrize(
    "other", [Presence("deliver1.9@there", 80, ("deliver",), 4), Presence("deliver1.9@here", 80, ("deliver",), 4)]
)
def test_more_of_the_same_line_replace_nobody_whose_parent_lives(link, server, other):
    announce(link, HERE)
    announce(link, SIBLING)
    aged(server, 100)
    announce(link, SIBLING, instead_of=SIBLING)
    announce(link, other)
    assert silent(link) == (1, 100)


def test_one_replaces_one_and_who_was_there_before_replaces_nobody(link, server):
    there = Presence("deliver1.9@there", 80, ("deliver",), 4)
    announce(link, there)
    announce(link, HERE)
    announce(link, SIBLING)
    aged(server, 100)
    announce(link, there, instead_of=there)
    assert silent(link) == (2, 100)
    announce(link, Presence("deliver1.8@here", 81, ("deliver",), 4))
    assert silent(link) == (1, 100)


def test_it_begins_at_the_very_instant_at_which_it_first_speaks(link, server):
    for other in range(80, 90):
        each = Presence(f"deliver1.{other}@there", other, ("deliver",), 4)
        announce(link, each)
        began = float(server.client.get(since_key(each)))
        assert began == max(seen for _, seen in server.client.zrange(KEY, 0, -1, withscores=True))


def test_an_id_that_is_given_again_begins_anew(link, server):
    announce(link, HERE, leaving=True)
    announce(link, HERE)
    aged(server, 100)
    announce(link, SIBLING, instead_of=SIBLING)
    assert silent(link) == (1, 100)


def test_a_release_before_signs_off_nowhere_and_does_not_count(link, server):
    announce(link, HERE)
    server.client.delete(since_key(HERE))
    aged(server, 100)
    assert silent(link) == (0, 0)


def test_it_is_forgotten_after_an_hour(link, server):
    announce(link, HERE)
    assert 0 < server.client.ttl(since_key(HERE)) <= FORGOTTEN_AFTER + 60
    aged(server, FORGOTTEN_AFTER + 1)
    announce(link, SIBLING)
    assert server.client.zcard(KEY) == 1
    assert silent(link) == (0, 0)


def test_a_real_process_that_is_frozen_is_counted_and_one_that_is_stopped_has_signed_off(
    link_in_a_hurry, probe, server
):
    first = probe.worker("deliver", "--hostname=deliver1.7@h")
    second = probe.run(["-m", *worker_argv("deliver", "--hostname=deliver2.7@h")])
    probe.await_ready(2)

    def seen():
        found = observe(link_in_a_hurry)
        return found.processes["deliver"], found.silent["deliver"]

    eventually(lambda: seen() == (2, 0), 20)
    first.send_signal(signal.SIGSTOP)
    try:
        eventually(lambda: seen() == (1, 1), 20)
    finally:
        first.send_signal(signal.SIGCONT)
    eventually(lambda: seen() == (2, 0), 20)
    for each in (first, second):
        each.terminate()
        each.wait(30)
    assert server.client.zcard(KEY) == 0

"""How many idle connections are kept, and which is used next."""

from __future__ import annotations

import pytest

from reminders.providers import idle_connections
from reminders.providers.idle_connections import IdleConnections


class Connection:
    def __init__(self, quiet=True):
        self.quiet = quiet
        self.closed = False

    def is_quiet(self):
        return self.quiet

    def close(self):
        self.closed = True


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(idle_connections.time, "monotonic", lambda: now[0])
    return now


def test_the_newest_of_the_origin_is_used_first():
    idle = IdleConnections(10)
    first, second, other = Connection(), Connection(), Connection()
    idle.keep("a", first, 60)
    idle.keep("a", second, 60)
    idle.keep("b", other, 60)
    assert [idle.take("a"), idle.take("a"), idle.take("a"), idle.take("b")] == [second, first, None, other]
    assert not any(one.closed for one in (first, second, other))


def test_over_the_limit_the_oldest_of_all_goes():
    idle = IdleConnections(2)
    first, second, third, fourth = (Connection() for _ in range(4))
    idle.keep("a", first, 60)
    idle.keep("b", second, 60)
    idle.keep("a", third, 60)
    assert [one.closed for one in (first, second, third)] == [True, False, False]
    assert idle.take("a") is third
    idle.keep("a", third, 60)
    idle.keep("c", fourth, 60)
    assert [one.closed for one in (second, third, fourth)] == [True, False, False]
    assert idle.take("b") is None


def test_what_spoke_or_closed_meanwhile_is_closed_and_not_returned():
    idle = IdleConnections(10)
    good, dropped = Connection(), Connection(quiet=False)
    idle.keep("a", good, 60)
    idle.keep("a", dropped, 60)
    assert idle.take("a") is good
    assert dropped.closed


def test_what_was_kept_too_long_is_closed(clock):
    idle = IdleConnections(10)
    old = Connection()
    idle.keep("a", old, 60)
    clock[0] += 60
    assert idle.take("a") is None
    assert old.closed

"""The port of an embedded Redis: the one it had before, or one that is still free when the server is started again."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from held_ports import held_port
from reminders.embedded import redis

GIVEN = Path("/proc/sys/net/ipv4/ip_local_port_range")


@pytest.fixture
def taken():
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield listening.getsockname()[1]


@pytest.mark.skipif(not GIVEN.exists(), reason="other systems do not tell which ports they give")
def test_a_new_one_is_none_that_is_given_to_who_asks_for_any(taken):
    lowest, highest = map(int, GIVEN.read_text().split())
    if lowest < redis._PORTS.stop:
        pytest.skip("this system gives nearly all ports")
    found = [redis._port(former) for former in (0, taken) for _ in range(50)]
    assert [port for port in found if lowest <= port <= highest] == []


def test_the_former_one_is_kept_as_long_as_it_is_free():
    with held_port() as former:
        assert redis._port(former) == former


def test_where_all_of_them_are_taken_it_is_any_that_is_free(taken, monkeypatch):
    monkeypatch.setattr(redis, "_PORTS", range(taken, taken + 1))
    monkeypatch.setattr(redis, "_PORTS_LOOKED_AT", 1)
    found = redis._port(0)
    assert found
    assert found != taken

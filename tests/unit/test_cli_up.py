"""The port that `reminders up` gives to Flower."""

import socket
from contextlib import closing

import pytest

from held_ports import held_port, taken_port
from reminders.cli.up import _flower_child, _flower_port
from reminders.domain.errors import SettingsError
from reminders.flower_port import PORTS
from reminders.settings import Secret, Settings


@pytest.fixture
def taken():
    """A port that somebody listens on, on all addresses."""
    with taken_port() as port:
        yield port


def test_a_free_port_is_taken_as_it_is():
    with held_port() as free:
        assert _flower_port({"PORT": str(free)}) == free


def test_a_taken_port_leads_to_the_next_free_one(taken):
    found = _flower_port({"PORT": str(taken)})
    assert taken < found <= taken + 100
    with closing(socket.create_server(("0.0.0.0", found))):
        pass


def test_flower_may_take_another_port_when_it_starts(taken):
    settings = Settings(flower_auth=Secret("operator:word"), redis_url=Secret("redis://127.0.0.1:1/0"))
    child = _flower_child(settings, taken)
    assert child.argv[-1] == f"--port={taken}"
    assert child.environ == {PORTS: "100"}


@pytest.mark.parametrize("bad", ["x", "0", "65536", "-1", "٣", "1" * 5000])
def test_what_is_no_port(bad):
    with pytest.raises(SettingsError, match=r"^PORT: .* is no port\nWrite a number"):
        _flower_port({"PORT": bad})

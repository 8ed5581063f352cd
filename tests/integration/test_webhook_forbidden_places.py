"""No spelling of a place that is not public is ever called: refused when it is scheduled, or at send without a connection.

A listener on this machine counts who comes; whatever would be connected to elsewhere is counted by the socket itself.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from integration.forbidden_hosts import ADDRESSES, HOSTS
from integration.listening import end_listening
from integration.raw_receiver import MASTER, post
from reminders.domain.errors import InvalidInput
from reminders.domain.outcomes import Outcome, Rejected, Retry
from reminders.providers.deadline_sockets import DeadlineSocket
from reminders.providers.destination_url import parse_destination
from reminders.providers.public_addresses import is_public
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

FORBIDDEN = Rejected("forbidden_address", "the host leads to an address that is not public", blameless=True)


class Outside:
    """What left this process for elsewhere: look-ups, connections, and who came to the listener."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.accepted = 0
        self.connected: list[object] = []
        self.looked_up: list[str] = []
        self.answers: list[str] = []
        self._listeners = [socket.create_server(("0.0.0.0", 0))]
        self.port = self._listeners[0].getsockname()[1]
        with suppress(OSError):
            self._listeners.append(socket.create_server(("::1", self.port), family=socket.AF_INET6))
        for listener in self._listeners:
            threading.Thread(target=self._accept, args=(listener,), daemon=True).start()
        real_connect, real_look_up = DeadlineSocket.connect, socket.getaddrinfo

        def connect(sock, address):
            self.connected.append(address)
            return real_connect(sock, address)

        def look_up(host, port, *args, flags=0, **kwargs):
            if flags & socket.AI_NUMERICHOST:
                return real_look_up(host, port, *args, flags=flags, **kwargs)
            self.looked_up.append(host)
            return [
                answer
                for address in self.answers
                for answer in real_look_up(address, port, *args, flags=socket.AI_NUMERICHOST, **kwargs)
            ]

        monkeypatch.setattr(DeadlineSocket, "connect", connect)
        monkeypatch.setattr(socket, "getaddrinfo", look_up)

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self.accepted += 1  # before the caller can know of it
                connection.close()

    def close(self) -> None:
        for listener in self._listeners:
            end_listening(listener)


@pytest.fixture
def outside(monkeypatch) -> Iterator[Outside]:
    one = Outside(monkeypatch)
    yield one
    one.close()


@pytest.fixture
def provider() -> WebhookProvider:
    return WebhookProvider(Settings(webhook_secret=Secret(MASTER)))


def send(provider: WebhookProvider, url: str) -> Outcome:
    return post(provider, url, deadline=2.0)


def test_the_listener_counts_who_comes(outside):
    provider = WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True))
    outside.answers = ["127.0.0.1"]
    assert isinstance(send(provider, f"https://rebound.example:{outside.port}/hook"), Retry)
    assert (outside.accepted, outside.connected) == (1, [("127.0.0.1", outside.port)])


@pytest.mark.parametrize("host", HOSTS)
def test_a_place_that_is_not_public_is_refused_however_it_is_written(provider, outside, host):
    outside.answers = ["127.0.0.1"]
    for url in (f"https://{host}:{outside.port}/hook", f"https://{host}/hook"):
        with pytest.raises(InvalidInput) as refusal:
            provider.check_destination(url)
        assert refusal.value.field == "destination"
        assert host not in refusal.value.reason
        # It was scheduled all the same, in development or by an older release.
        outcome = send(provider, url)
        assert isinstance(outcome, Rejected)
        assert (outcome.error_class, outcome.reason) == ("unsendable", str(refusal.value))
    assert (outside.looked_up, outside.connected, outside.accepted) == ([], [], 0)


def test_there_are_many_spellings():
    assert len({host.values[0] for host in HOSTS}) == len(HOSTS) > 250


@pytest.mark.parametrize(
    "scheme", ["http", "HTTP", "ftp", "file", "gopher", "unix", "dict", "data", "ws", "https+unix"]
)
def test_other_schemes_are_refused(provider, outside, scheme):
    url = f"{scheme}://8.8.8.8:{outside.port}/hook"
    with pytest.raises(InvalidInput, match=r"must be an absolute URL|must begin with https"):
        provider.check_destination(url)
    assert isinstance(send(provider, url), Rejected)
    assert outside.connected == []


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "others", [[], ["8.8.8.8"], ["2606:4700::1111", "8.8.4.4"]], ids=["alone", "last", "last of 3"]
)
def test_a_name_with_one_answer_that_is_not_public_is_not_called(provider, outside, caplog, address, others):
    url = f"https://hooks.example.com:{outside.port}/hook"
    provider.check_destination(url)
    for outside.answers in ([*others, address], [address, *others]):
        assert send(provider, url) == FORBIDDEN
    assert (outside.looked_up, outside.connected, outside.accepted) == (["hooks.example.com"] * 2, [], 0)
    assert caplog.text == ""


def test_an_answer_beyond_those_that_are_tried_counts_too(provider, outside):
    outside.answers = [f"8.8.8.{last}" for last in range(1, 60)] + ["127.0.0.1"]
    assert send(provider, f"https://hooks.example.com:{outside.port}/hook") == FORBIDDEN
    assert outside.connected == []


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1.nip.io",
        "127-0-0-1.sslip.io",
        "localtest.me",
        "169.254.169.254.example.com",
        "metadata.example.com",
        "localhost.example.com",
        "localhost6.localdomain6",
        "0x7f000001.example.com",
        "redis.default.svc",
        "b\u00fccher.example",
        "xn--bcher-kva.example",
        "hooks.example.com.",
    ],
)
def test_names_that_look_public_are_judged_by_their_answers(provider, outside, host):
    url = f"https://{host}:{outside.port}/hook"
    provider.check_destination(url)
    outside.answers = ["127.0.0.1"]
    assert send(provider, url) == FORBIDDEN
    assert (len(outside.looked_up), outside.connected, outside.accepted) == (1, [], 0)


def test_the_name_is_looked_up_once_and_what_was_checked_is_connected_to(provider, outside, monkeypatch):
    outside.answers = ["8.8.8.8"]

    def refuse(_, address):
        outside.connected.append(address)
        outside.answers = ["127.0.0.1"]
        raise ConnectionRefusedError(errno.ECONNREFUSED, f"{address} refused")

    monkeypatch.setattr(DeadlineSocket, "connect", refuse)
    url = f"https://rebound.example:{outside.port}/hook"
    assert send(provider, url) == Retry("connect_refused", "the connection was refused")
    assert (outside.looked_up, outside.connected) == (["rebound.example"], [("8.8.8.8", outside.port)])
    assert send(provider, url) == FORBIDDEN


@pytest.mark.parametrize(
    "failure",
    [
        ConnectionRefusedError(errno.ECONNREFUSED, "8.8.8.8 refused"),
        ConnectionResetError(errno.ECONNRESET, "8.8.8.8 reset"),
        TimeoutError("8.8.8.8 timed out"),
        OSError(errno.EHOSTUNREACH, "No route to host", "8.8.8.8"),
        OSError(errno.ENETUNREACH, "Network is unreachable to 8.8.8.8"),
        OSError("cannot connect to ('8.8.8.8', 443)"),
        OSError(errno.EADDRNOTAVAIL, "2606:4700::1111 is not available"),
        ValueError("8.8.8.8"),
    ],
    ids=repr,
)
def test_no_failure_says_where_a_name_led_to(provider, outside, monkeypatch, caplog, failure):
    def fail(*_):
        raise failure

    monkeypatch.setattr(DeadlineSocket, "connect", fail)
    outside.answers = ["8.8.8.8", "2606:4700::1111"]
    outcome = send(provider, "https://hooks.example.com/hook")
    assert isinstance(outcome, Retry)
    for part in ("8.8.8.8", "2606:4700"):
        assert part not in outcome.reason
        assert part not in caplog.text


_NUMBER = st.one_of(
    st.sampled_from(
        ["0", "1", "127", "169.254.169.254", "10", "0x7f", "0177", "2130706433", "4294967296", "256", "00", "0x"]
    ),
    st.integers(0, 2**33).flatmap(lambda n: st.sampled_from([str(n), hex(n), f"0{n:o}", f"{n:04d}"])),
    st.text("0123456789abcdefxX:%[]-_\u2460\uff11\u0661\u00b9", max_size=4),
)


@given(
    st.lists(_NUMBER, min_size=1, max_size=5).flatmap(
        lambda parts: st.sampled_from([".", "", ":", "::", "\u3002"]).map(lambda dot: dot.join(parts))
    )
)
@hypothesis_settings(max_examples=400, deadline=None)
def test_what_is_accepted_and_a_number_to_the_resolver_is_a_public_address(host):
    for written in (host, f"{host}.", f"[{host}]", f"[::ffff:{host}]"):
        try:
            target = parse_destination(f"https://{written}/", allow_private=False)
        except InvalidInput:
            continue
        try:
            found = socket.getaddrinfo(target.host, 443, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        except OSError:
            continue  # a name, whose answers are checked
        assert all(is_public(answer[4][0]) for answer in found), target

"""A tenant's allowed places at send: connected to for that tenant alone, as long as they are allowed, and nowhere else."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trustme

from integration.listening import end_listening
from integration.raw_receiver import MASTER, post
from integration.test_webhook_connections import OK, Server, context_for
from reminders.domain.allowed_places import AllowedPlaces, from_rules
from reminders.domain.errors import ServiceUnavailable
from reminders.domain.outcomes import Delivered, Rejected, Retry
from reminders.providers.deadline_sockets import DeadlineSocket
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

HOST = "hooks.corp"
FORBIDDEN = Rejected("forbidden_address", "the host leads to an address that is not public", blameless=True)


class Rules:
    """What tenants are allowed, and who asked."""

    def __init__(self) -> None:
        self.places: dict[str, list[str]] = {}
        self.asked: list[str] = []
        self.away = False

    def of(self, tenant: str) -> AllowedPlaces:
        self.asked.append(tenant)
        if self.away:
            raise ServiceUnavailable("what the tenant is allowed cannot be read")
        return from_rules(self.places.get(tenant, []))


class Names:
    """A name server of our own, and the connections that were begun."""

    def __init__(self) -> None:
        self.answers = ["127.0.0.1"]
        self.connected: list[tuple[str, int]] = []


@pytest.fixture
def names(monkeypatch) -> Names:
    names = Names()
    real_look_up, real_connect = socket.getaddrinfo, DeadlineSocket.connect

    def look_up(host, port, *args, flags=0, **kwargs):
        if not flags & socket.AI_NUMERICHOST:
            return [each for one in names.answers for each in real_look_up(one, port, *args, **kwargs)]
        return real_look_up(host, port, *args, flags=flags, **kwargs)

    def connect(sock, address):
        names.connected.append(address[:2])
        if address[0] != "127.0.0.1":
            raise ConnectionRefusedError(111, "refused")
        return real_connect(sock, address)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(DeadlineSocket, "connect", connect)
    return names


@pytest.fixture
def rules() -> Rules:
    return Rules()


@pytest.fixture
def provider(rules, names) -> WebhookProvider:
    provider = WebhookProvider(Settings(webhook_secret=Secret(MASTER)))
    provider.go_by(rules.of)
    return provider


@pytest.fixture
def server(tmp_path, monkeypatch) -> Iterator[Server]:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    server = Server(lambda _: OK, context_for(authority, HOST, "127.0.0.1", "hooks.example.com"))
    yield server
    end_listening(server.listener)


def url(server, host=HOST):
    return f"https://{host}:{server.port}/hook"


@pytest.mark.parametrize("host", [HOST, "127.0.0.1", "hooks.example.com"])
def test_what_is_allowed_is_called_for_that_tenant_alone(provider, rules, names, server, host):
    rules.places["acme"] = [HOST, "127.0.0.1/32"]
    assert post(provider, url(server, host), tenant_id="acme") == Delivered(None, 200)
    refused = post(provider, url(server, host), tenant_id="beta")
    assert isinstance(refused, Rejected)
    assert refused.error_class == ("forbidden_address" if host == "hooks.example.com" else "unsendable")
    assert "127.0.0.1" not in refused.reason
    assert (server.served, len(names.connected)) == (1, 1)


def test_its_connection_is_used_again_by_nobody_else_and_no_longer_than_it_is_allowed(provider, rules, names, server):
    place = url(server, "hooks.example.com")
    rules.places = {"acme": ["127.0.0.1/32"], "beta": ["127.0.0.1/32"]}
    for _ in range(3):
        assert post(provider, place, tenant_id="acme") == Delivered(None, 200)
    assert server.accepted == 1
    assert post(provider, place, tenant_id="carl") == FORBIDDEN
    assert post(provider, place, tenant_id="beta") == Delivered(None, 200)
    assert server.accepted == 2
    rules.places["acme"] = []
    assert post(provider, place, tenant_id="acme") == FORBIDDEN
    assert post(provider, place, tenant_id="beta") == Delivered(None, 200)
    assert (server.accepted, server.served) == (2, 5)


@pytest.mark.parametrize(
    ("allowed", "answers"),
    [
        ([HOST], ["127.0.0.1"]),
        ([HOST], ["169.254.169.254"]),
        ([HOST], ["10.0.0.1", "127.0.0.1"]),
        ([HOST], ["10.0.0.1", "169.254.169.254"]),
        ([HOST], ["8.8.8.8", "::1"]),
        ([HOST], ["::ffff:10.0.0.1"]),
        ([HOST], ["64:ff9b::a00:1"]),
        ([HOST], ["2002:a00:1::"]),
        ([HOST], ["0.0.0.0"]),
        ([HOST], ["224.0.0.1"]),
    ],
)
def test_a_name_opens_neither_this_machine_nor_metadata(provider, rules, names, allowed, answers):
    rules.places["acme"] = allowed
    names.answers = answers
    assert post(provider, f"https://{HOST}/hook") == FORBIDDEN
    assert names.connected == []


@pytest.mark.parametrize(
    ("allowed", "answers", "connected"),
    [
        (["10.20.0.0/16"], ["10.20.1.5"], True),
        (["10.20.0.0/16"], ["8.8.8.8", "10.20.1.5"], True),
        (["10.20.0.0/16", "fd12::/16"], ["10.20.1.5", "fd12::5"], True),
        (["10.20.0.0/16"], ["10.20.1.5", "10.21.0.1"], False),
        (["10.20.0.0/16"], ["10.20.1.5", "::ffff:10.20.1.5"], False),
        (["100.64.0.0/10"], ["100.100.100.200"], False),
        (["100.100.100.200/32"], ["100.100.100.200"], True),
    ],
)
def test_one_address_that_is_not_allowed_refuses_all(provider, names, allowed, answers, connected):
    provider.go_by(lambda _: from_rules(allowed))
    names.answers = answers
    outcome = post(provider, "https://hooks.example.com/hook")
    if connected:
        assert outcome == Retry("connect_refused", "the connection was refused")
        assert [address for address, _ in names.connected] == answers
    else:
        assert outcome == FORBIDDEN
        assert names.connected == []


def test_nobody_asks_for_a_destination_that_is_public(provider, rules, names):
    names.answers = ["8.8.8.8"]
    assert isinstance(post(provider, "https://hooks.example.com/hook"), Retry)
    assert rules.asked == []


@pytest.mark.parametrize("host", [HOST, "10.20.1.5", "hooks.example.com"])
def test_while_it_cannot_be_asked_nothing_is_sent_and_the_destination_is_not_blamed(provider, rules, names, host):
    rules.away = True
    outcome = post(provider, f"https://{host}/hook")
    expected = Retry("allowance_unknown", "what the tenant is allowed cannot be read; nothing was sent", blameless=True)
    assert outcome == expected
    assert names.connected == []


def test_http_is_not_opened_by_it(provider, rules, names):
    rules.places["acme"] = [HOST, "10.0.0.0/8"]
    for host in (HOST, "10.0.0.1"):
        outcome = post(provider, f"http://{host}/hook")
        assert isinstance(outcome, Rejected)
        assert "must begin with https://" in outcome.reason
    assert names.connected == []

"""Connections to the mail server: used again, replaced when stale, verified, and logged in over."""

from __future__ import annotations

import base64
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import trustme

from held_ports import held_port
from integration.mail_server import (
    CLOSE,
    DELIVERY,
    EXTENSIONS,
    GARBAGE,
    HANG,
    SENDER,
    MailServer,
    Manner,
    provider_for,
    send,
)
from reminders.domain.errors import SettingsError
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry
from reminders.providers import smtp_client
from reminders.providers.email import EmailProvider
from reminders.settings import Settings, load

DELIVERED = Delivered("4XyZ1abcD", 250)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def serve(monkeypatch, tmp_path, authority):
    """Starts servers; `certified` names the host of a certificate that is trusted, unless `trusted` is false."""
    servers = []

    def start(manners=None, *, certified=None, trusted=True, implicit_tls=False, extensions=EXTENSIONS):
        context = None
        if certified is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            (authority if trusted else trustme.CA()).issue_cert(certified).configure_cert(context)
        servers.append(MailServer(manners or {}, extensions, context, implicit_tls))
        return servers[-1]

    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    yield start
    for server in servers:
        server.stop()


def verbs(server):
    return [command.split(" ")[0].upper() for command in server.commands]


def test_one_connection_carries_many_messages_with_a_reset_between(serve):
    server = serve()
    provider = provider_for(server)
    assert [send(provider, delivery_key=f"rk_{n}") for n in range(3)] == [DELIVERED] * 3
    assert (server.accepted, len(server.kept)) == (1, 3)
    again = ["RSET", "MAIL", "RCPT", "DATA"]
    assert verbs(server) == ["EHLO", "MAIL", "RCPT", "DATA", *again, *again]


def test_threads_share_connections_and_none_is_used_by_two(serve):
    server = serve()
    provider = provider_for(server)
    with ThreadPoolExecutor(8) as threads:
        keys = [f"rk_{n}" for n in range(200)]
        outcomes = list(threads.map(lambda key: send(provider, delivery_key=key, deadline=20), keys))
    assert outcomes == [DELIVERED] * 200
    assert server.accepted <= 8
    texts = b"".join(each.text for each in server.kept)
    assert all(texts.count(f"Message-ID: <{key}@".encode()) == 1 for key in keys)


def test_a_connection_that_the_server_closed_meanwhile_is_replaced(serve):
    server = serve({"dot": [Manner(b"250 2.0.0 Ok: queued as 4XyZ1abcD\r\n", "close")]})
    provider = provider_for(server)
    for _ in range(3):
        assert send(provider) == DELIVERED
        assert server.closed.acquire(timeout=10)
    assert (server.accepted, len(server.kept)) == (3, 3)


@pytest.mark.parametrize("step", ["RSET", "MAIL", "RCPT", "DATA"])
@pytest.mark.parametrize(
    "manner", [CLOSE, GARBAGE, Manner(b"421 4.4.2 idle too long\r\n", "close"), Manner(b"25", "close")]
)
def test_a_stale_connection_costs_no_attempt_and_is_never_unknown(serve, step, manner):
    server = serve()
    provider = provider_for(server)
    assert send(provider) == DELIVERED
    server.manners[step] = [manner, None]
    assert send(provider) == DELIVERED
    assert (server.accepted, len(server.kept)) == (2, 2)


def test_an_idle_connection_that_does_not_answer_leaves_time_for_a_fresh_one(serve):
    server = serve()
    provider = provider_for(server)
    assert send(provider) == DELIVERED
    server.manners["RSET"] = [HANG, None]
    assert send(provider, deadline=4.0) == DELIVERED
    assert (server.accepted, len(server.kept)) == (2, 2)


def test_a_reset_that_is_refused_costs_no_attempt(serve):
    server = serve({"RSET": [Manner(b"502 5.5.1 no\r\n")]})
    provider = provider_for(server)
    assert [send(provider), send(provider)] == [DELIVERED] * 2
    assert (server.accepted, len(server.kept)) == (2, 2)


@pytest.mark.parametrize("step", ["MAIL", "RCPT"])
def test_after_a_refusal_the_connection_is_used_again(serve, step):
    server = serve({step: [Manner(b"550 5.1.1 no\r\n"), Manner(b"450 4.2.1 no\r\n"), None]})
    provider = provider_for(server)
    assert isinstance(send(provider), Rejected)
    assert isinstance(send(provider), Retry)
    assert send(provider) == DELIVERED
    assert server.accepted == 1


def test_after_many_messages_a_connection_is_left_politely(serve, monkeypatch):
    monkeypatch.setattr(smtp_client, "MOST_MESSAGES", 2)
    server = serve()
    provider = provider_for(server)
    assert [send(provider) for _ in range(3)] == [DELIVERED] * 3
    assert server.accepted == 2
    assert server.closed.acquire(timeout=10)
    assert verbs(server).count("QUIT") == 1


def test_tls_from_the_first_byte(serve):
    server = serve(certified="127.0.0.1", implicit_tls=True)
    provider = provider_for(server, security="tls")
    assert [send(provider), send(provider)] == [DELIVERED] * 2
    assert server.accepted == 1


def test_starttls_comes_before_the_password_and_the_message(serve):
    server = serve(certified="127.0.0.1")
    assert send(provider_for(server, security="starttls", user="shop", password="geheim")) == DELIVERED
    assert verbs(server) == ["EHLO", "STARTTLS", "EHLO", "AUTH", "MAIL", "RCPT", "DATA"]


@pytest.mark.parametrize("implicit_tls", [True, False])
@pytest.mark.parametrize(("certified", "trusted"), [("127.0.0.1", False), ("mail.example", True)])
def test_a_certificate_that_is_not_the_servers_is_a_retry_and_nothing_is_said(serve, implicit_tls, certified, trusted):
    server = serve(certified=certified, trusted=trusted, implicit_tls=implicit_tls)
    security = "tls" if implicit_tls else "starttls"
    outcome = send(provider_for(server, security=security, user="shop", password="geheim"))
    assert isinstance(outcome, Retry)
    assert outcome.error_class == "tls"
    assert verbs(server) == ([] if implicit_tls else ["EHLO", "STARTTLS"])


def test_plain_smtp_behind_smtps_is_a_retry(serve):
    outcome = send(provider_for(serve(), security="tls"))
    assert isinstance(outcome, Retry)
    assert outcome.error_class == "tls"


def test_without_starttls_nothing_is_sent_in_the_clear(serve):
    server = serve()
    outcome = send(provider_for(server, security="starttls", user="shop", password="geheim"))
    assert isinstance(outcome, Blocked)
    assert (outcome.scope, outcome.error_class) == ("provider", "starttls_missing")
    assert verbs(server) == ["EHLO"]


def test_text_slipped_in_ahead_of_tls_is_not_taken_for_the_servers(serve):
    server = serve({"STARTTLS": [Manner(b"220 go\r\n250-evil\r\n250 AUTH PLAIN\r\n")]}, certified="127.0.0.1")
    outcome = send(provider_for(server, security="starttls", user="shop", password="geheim"))
    assert isinstance(outcome, Retry)
    assert outcome.error_class == "malformed_reply"
    assert verbs(server) == ["EHLO", "STARTTLS"]


@pytest.mark.parametrize("raw", [b"354 go\r\n250 2.0.0 Ok: queued as FAKE1\r\n", b"250 Ok: queued as FAKE1\r\n"])
def test_a_reply_that_comes_before_the_message_is_none_to_it(serve, raw):
    server = serve({"DATA": [Manner(raw)]})
    outcome = send(provider_for(server))
    assert isinstance(outcome, Retry)
    assert outcome.error_class in {"malformed_reply", "out_of_step"}
    assert server.kept == []


@pytest.mark.parametrize("password", ["geheim", "Grüße:@/?#", "x" * 500])
def test_log_in_with_plain(serve, password):
    server = serve(extensions=("AUTH LOGIN PLAIN",))
    assert send(provider_for(server, user="shop", password=password)) == DELIVERED
    (given,) = [command for command in server.commands if command.startswith("AUTH")]
    assert base64.b64decode(given.removeprefix("AUTH PLAIN ")).decode() == f"\0shop\0{password}"


def test_log_in_with_login(serve):
    server = serve({"AUTH": [Manner(b"334 VXNlcm5hbWU6\r\n")]}, extensions=("AUTH LOGIN CRAM-MD5",))
    user, password = (base64.b64encode(text.encode()).decode() for text in ("shop", "Grüße"))
    server.manners[user[:4].upper()] = [Manner(b"334 UGFzc3dvcmQ6\r\n")]
    server.manners[password[:4].upper()] = [Manner(b"235 2.7.0 in\r\n")]
    assert send(provider_for(server, user="shop", password="Grüße")) == DELIVERED
    assert server.commands[1:4] == ["AUTH LOGIN", user, password]


@pytest.mark.parametrize("extensions", [(), ("AUTH CRAM-MD5 XOAUTH2",)])
def test_a_server_without_a_log_in_that_we_know_holds_the_channel(serve, extensions):
    server = serve(extensions=extensions)
    outcome = send(provider_for(server, user="shop", password="geheim"))
    assert isinstance(outcome, Blocked)
    assert (outcome.scope, outcome.error_class) == ("provider", "auth_missing")


def test_a_server_that_repeats_our_password_does_not_get_it_on_record(serve):
    secret = base64.b64encode(b"\0shop\0geheim").decode()
    server = serve({"AUTH": [Manner(f"500 5.5.2 unrecognized: AUTH PLAIN {secret} geheim\r\n".encode())]})
    outcome = send(provider_for(server, user="shop", password="geheim"))
    assert isinstance(outcome, Blocked)
    assert outcome.reason == "AUTH: 500 5.5.2 the server does not log us in"


@pytest.mark.parametrize("destination", ["grüße@customer.example", "用户@例子.广告"])
def test_an_address_that_is_not_ascii_before_the_at_needs_smtputf8(serve, destination):
    server = serve()
    assert send(provider_for(server), destination=destination) == DELIVERED
    assert any(each.startswith("MAIL") and each.endswith(" BODY=8BITMIME SMTPUTF8") for each in server.commands)
    local = destination.partition("@")[0]
    assert server.kept[0].recipient.startswith(f"{local}@")
    assert server.kept[0].recipient.partition("@")[2].isascii()

    plain = serve(extensions=("SIZE 100000", "8BITMIME"))
    provider = provider_for(plain)
    outcome = send(provider, destination=destination)
    assert isinstance(outcome, Rejected)
    assert outcome.error_class == "smtputf8_missing"
    assert (verbs(plain), plain.kept) == (["EHLO"], [])
    assert send(provider) == DELIVERED
    assert plain.accepted == 1


def test_an_international_domain_is_sent_in_ascii(serve):
    server = serve(extensions=())
    assert send(provider_for(server), destination="anna@grüße.example") == DELIVERED
    assert server.kept[0].recipient == "anna@xn--gre-6ka8l.example"


def test_a_refused_connection_is_a_retry_by_mail_too():
    with held_port() as port:
        outcome = send(provider_for(SimpleNamespace(port=port)))
    assert outcome == Retry("connect_refused", "the connection was refused", blameless=True)


def test_a_mail_host_without_address_is_a_retry(monkeypatch, serve):
    server = serve()

    def getaddrinfo(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    outcome = send(provider_for(server, host="nowhere.example"))
    assert outcome == Retry("dns", "the host name could not be resolved (Name or service not known)", blameless=True)


@pytest.mark.parametrize(
    ("url", "allow_private", "allowed"),
    [
        ("smtp://mail.example?starttls=never", "0", False),
        ("smtp://10.0.0.1?starttls=never", "0", False),
        ("smtp://mail.example?starttls=never", "1", True),
        ("smtp://127.0.0.1?starttls=never", "0", True),
        ("smtp://[::1]?starttls=never", "0", True),
        ("smtp://localhost:25?starttls=never", "0", True),
        ("smtp://mail.example", "0", True),
        ("smtps://mail.example", "0", True),
    ],
)
def test_in_the_clear_only_to_this_machine_or_for_development(url, allow_private, allowed):
    settings = load(
        {"REMINDERS_SMTP_URL": url, "REMINDERS_MAIL_FROM": "a@shop.example", "REMINDERS_ALLOW_PRIVATE": allow_private}
    )
    provider = EmailProvider(settings)
    if allowed:
        provider.ready()
    else:
        with pytest.raises(SettingsError, match="REMINDERS_SMTP_URL: starttls=never would send"):
            provider.ready()
        assert provider.send(DELIVERY, b"x\r\n", 1.0) == Retry(
            "not_configured", "the settings of channel email are not complete; nothing was sent", blameless=True
        )


def test_every_missing_setting_is_named_at_once():
    with pytest.raises(SettingsError) as caught:
        EmailProvider(Settings(unsubscribe_url="https://shop.example/u")).ready()
    named = [fault.split(" ")[0].rstrip(":") for fault in str(caught.value).split("; ")]
    assert named == ["REMINDERS_SMTP_URL", "REMINDERS_MAIL_FROM", "REMINDERS_UNSUBSCRIBE_URL"]
    assert SENDER.domain == "shop.example"

"""The webhook provider against a real server on a raw socket: what it sends, and what it makes of the answer."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from standardwebhooks import Webhook

from integration.listening import end_listening
from integration.raw_receiver import MASTER, Receiver, delivery, post
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.providers.signing import derive_secret, format_secret
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

MALFORMED = Unknown("malformed_answer", "the answer is not HTTP, or its head is too large")
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def receiver() -> Iterator[Callable[..., Receiver]]:
    started = []

    def start(answer):
        if isinstance(answer, bytes):
            raw = answer
            closes = b"close" in raw.lower() or b"content-length" not in raw.lower()
            answer = lambda connection, _: connection.sendall(raw) or not closes  # noqa: E731
        started.append(Receiver(answer))
        return started[-1]

    yield start
    for one in started:
        end_listening(one.listener)


@pytest.fixture
def provider() -> WebhookProvider:
    return WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True))


def test_the_request_is_what_the_contract_says(provider, receiver):
    server = receiver(OK)
    assert post(provider, server.url) == Delivered(None, 200)
    (request,) = server.requests
    assert request.line == "POST /hook?a=1 HTTP/1.1"
    assert request.body == provider.render(delivery(server.url))
    headers = request.headers
    assert headers["host"] == server.url.split("/")[2]
    assert headers["content-type"] == "application/json"
    assert headers["content-length"] == str(len(request.body))
    assert headers["accept-encoding"] == "identity"
    assert headers["user-agent"].startswith("reminders/")
    assert headers["webhook-id"] == headers["idempotency-key"] == "rk_0123456789abcdef"
    assert headers["reminders-attempt"] == "1"
    secret = derive_secret(MASTER.encode(), "acme", "webhook", server.url)
    assert Webhook(format_secret(secret)).verify(request.body, headers)["data"] == {"text": "gr\u00fc\u00dfe"}


def test_an_attempt_has_its_own_timestamp_and_signature_but_the_same_key_and_body(receiver):
    server = receiver(OK)
    clock = iter([1_790_000_000.9, 1_790_000_060.1])
    provider = WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True), clock=lambda: next(clock))
    post(provider, server.url, attempt=1)
    post(provider, server.url, attempt=2)
    first, second = server.requests
    assert first.body == second.body
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert [r.headers["webhook-timestamp"] for r in server.requests] == ["1790000000", "1790000060"]
    assert [r.headers["reminders-attempt"] for r in server.requests] == ["1", "2"]
    assert first.headers["webhook-signature"] != second.headers["webhook-signature"]


def test_a_large_body_arrives_whole(provider, receiver):
    server = receiver(OK)
    text = "x" * 12_000_000
    assert post(provider, server.url, data={"text": text}) == Delivered(None, 200)
    assert len(server.requests[0].body) > 12_000_000
    assert server.requests[0].body.endswith(b'xxx"}}')


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", Delivered(None, 204)),
        (b'HTTP/1.1 202 Accepted\r\nContent-Length: 12\r\n\r\n{"id":"r-1"}', Delivered("r-1", 202)),
        (b"HTTP/1.0 200\r\n\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nWebhook-Reference: r-2\r\n\r\nno length, closed", Delivered("r-2", 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbroken", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\nabc", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100\r\n\r\ncut off", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: junk\r\n\r\nx", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\n\r\n\x00\xff\xfe\x80", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nbroken header line\r\n: y\r\n\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 102 Processing\r\n\r\n", Unknown("closed", "the far side closed the connection without an answer")),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", Unknown("http_101", "HTTP 101 is not a final answer", 101)),
        (b"HTTP/1.1 999 What\r\n\r\n", Unknown("http_999", "HTTP 999 is not a final answer", 999)),
        (b"HTTP/1.1 429 Slow\r\nRetry-After: 90\r\n\r\n", Blocked("destination", timedelta(seconds=90), "http_429", "HTTP 429", 429)),
        (b"HTTP/1.1 503 Busy\r\nRetry-After: NaN\r\n\r\n", Retry("http_503", "HTTP 503", 503, None)),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nboom", Unknown("http_500", "HTTP 500: boom", 500)),
        (b"HTTP/1.1 410 Gone\r\n\r\n", Rejected("http_410", "HTTP 410", 410, gone=True)),
        (b"HTTP/1.1 422 No\r\n\r\nanna@example.com is gone", Rejected("http_422", "HTTP 422: [redacted] is gone", 422)),
    ],
)  # fmt: skip
def test_answers(provider, receiver, raw, expected):
    server = receiver(raw)
    assert post(provider, server.url) == expected
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 20_0 OK\r\n\r\n",
        b"HTTP/1.1 +20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 099 OK\r\n\r\n",
        b"HTTP/2.0 200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200",
        b"\r\n\r\n",
        b"\x16\x03\x01\x00\x00",
        b"HTTP/1.1 200 " + b"x" * 10_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n",
    ],
)
def test_garbage_in_place_of_an_answer_is_unknown(provider, receiver, raw):
    assert post(provider, receiver(raw).url) == MALFORMED


def test_a_redirect_is_not_followed(provider, receiver):
    other = receiver(OK)
    answer = f"HTTP/1.1 302 Found\r\nLocation: {other.url}\r\nContent-Length: 0\r\n\r\n".encode()
    result = post(provider, receiver(answer).url)
    assert isinstance(result, Rejected)
    assert (result.error_class, other.accepted) == ("http_302", 0)


def test_an_endless_body_is_read_to_a_bound_and_stays_a_success(provider, receiver):
    written = []

    def flood(connection, _):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n")
        while True:
            written.append(connection.send(b"x" * 65536))

    assert post(provider, receiver(flood).url, deadline=20.0) == Delivered(None, 200)
    assert sum(written) < 20_000_000, "what fits into the buffers of two sockets"


@pytest.mark.parametrize(
    ("start", "piece", "expected"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", MALFORMED),
        (b"HTTP/1.1 200 OK\r\n", b"X: y\r\n", MALFORMED),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            b"1;" + b"e" * 1000 + b"\r\nx\r\n",
            Delivered(None, 200),
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"trailer: x\r\n", Delivered(None, 200)),
    ],
)
def test_endless_heads_and_trailers_are_read_to_a_bound(provider, receiver, start, piece, expected):
    written = []

    def flood(connection, _):
        connection.sendall(start)
        while True:
            written.append(connection.send(piece * 1000))

    assert post(provider, receiver(flood).url, deadline=20.0) == expected
    assert sum(written) < 20_000_000, "what fits into the buffers of two sockets"


def test_a_compressed_answer_is_not_unpacked(provider, receiver):
    bomb = gzip.compress(b"\0" * 50_000_000)
    raw = b"HTTP/1.1 400 Bad\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(bomb), bomb)
    assert post(provider, receiver(raw).url) == Rejected(
        "http_400", f"HTTP 400 (an answer of {min(len(bomb), 65536)} bytes that is not plain text)", 400
    )


def test_the_environment_has_no_say(provider, receiver, monkeypatch, tmp_path):
    proxy, server = receiver(OK), receiver(OK)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, proxy.url)
    monkeypatch.delenv("no_proxy", raising=False)
    (tmp_path / ".netrc").write_text("default login anna password secret\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    assert post(provider, server.url) == Delivered(None, 200)
    assert (proxy.accepted, server.accepted) == (0, 1)
    assert "authorization" not in server.requests[0].headers


def test_outside_development_no_connection_is_made_to_a_private_address(receiver, monkeypatch):
    server = receiver(OK)
    address = server.listener.getsockname()
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    provider = WebhookProvider(Settings(webhook_secret=Secret(MASTER)))
    result = post(provider, "https://rebound.example/")
    assert result == Rejected("forbidden_address", "the host leads to an address that is not public", blameless=True)
    assert server.accepted == 0


def test_a_destination_is_not_in_the_log(provider, receiver, caplog):
    caplog.set_level("DEBUG")
    for raw in (b"HTTP/1.1 200 OK\r\nbroken line\r\n\r\n", b"garbage\r\n", b"HTTP/1.1 500 x\r\n\r\n"):
        post(provider, receiver(raw).url)
    assert caplog.text == ""

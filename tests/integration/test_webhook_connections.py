"""Connections are used again where that is safe, over plain HTTP and TLS."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from uuid import UUID

import pytest
import trustme

from integration.listening import end_listening
from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Delivered, Retry, Unknown
from reminders.providers.deadline_sockets import DeadlineSocket, DeadlineTlsSocket
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers the n-th request (from 1) with `answer(n)`; closes the connection after an answer ending in `CLOSE`."""

    CLOSE = b"<close>"

    def __init__(self, answer, context=None):
        self.accepted = 0
        self.served = 0
        self.names = []
        self.closed = threading.Event()
        self._answer = answer
        self._context = context
        self._lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with self._lock:
                    self.accepted += 1
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            stack.enter_context(connection)
            if self._context is not None:
                connection = stack.enter_context(self._context.wrap_socket(connection, server_side=True))
            self._serve(connection)
        self.closed.set()

    def _serve(self, connection):
        data = b""
        while piece := connection.recv(65536):
            data += piece
            if not data.endswith(b"}}"):
                continue
            data = b""
            with self._lock:
                self.served += 1
                answer = self._answer(self.served)
            connection.sendall(answer.removesuffix(self.CLOSE))
            if answer.endswith(self.CLOSE):
                return


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers = []

    def start(answer, context=None):
        servers.append(Server(answer, context))
        return servers[-1]

    yield start
    for server in servers:
        end_listening(server.listener)


@pytest.fixture
def provider() -> WebhookProvider:
    return WebhookProvider(Settings(webhook_secret=Secret("s" * 24), allow_private=True))


DELIVERY = Delivery(
    reminder_id=UUID(int=1),
    delivery_key="rk_1",
    tenant_id="acme",
    user_id="anna",
    kind="invoice",
    channel="webhook",
    destination_id=UUID(int=2),
    destination="",
    due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
    zone=None,
    reference=None,
    slot="",
    data={"a": {}},
    attempt=1,
    body_format=1,
)


def post(provider, url, deadline=5.0):
    return provider.send(replace(DELIVERY, destination=url), provider.render(DELIVERY), deadline)


def plain(server):
    return f"http://127.0.0.1:{server.port}/hook"


def test_one_connection_serves_many_calls(provider, serve):
    answers = [
        OK,
        b"HTTP/1.1 204 No Content\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 65535\r\n\r\n" + b"x" * 65535,
        OK,
    ]
    server = serve(lambda n: answers[n - 1])
    statuses = [post(provider, plain(server)).status_code for _ in answers]
    assert statuses == [200, 204, 200, 500, 302, 200, 200, 200]
    assert (server.accepted, server.served) == (1, 8)


def test_threads_share_connections_and_each_has_its_own_answer(provider, serve):
    server = serve(lambda n: b'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"id":"%04d"}' % n)
    with ThreadPoolExecutor(8) as threads:
        outcomes = list(threads.map(lambda _: post(provider, plain(server)), range(400)))
    assert sorted(outcome.reference for outcome in outcomes) == [f"{n:04d}" for n in range(1, 401)]
    assert server.accepted <= 8


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 70000\r\n\r\n" + b"x" * 70000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nbroken\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    ],
)
def test_a_connection_in_doubt_is_not_used_again(provider, serve, answer):
    server = serve(lambda _: answer)
    outcomes = {post(provider, plain(server), 2.0).status_code for _ in range(2)}
    assert outcomes in ({200}, {101})
    assert (server.accepted, server.served) == (2, 2)


def test_a_connection_closed_meanwhile_is_noticed_before_anything_is_sent(provider, serve):
    server = serve(lambda _: OK + Server.CLOSE)
    for n in range(1, 4):
        assert post(provider, plain(server)) == Delivered(None, 200)
        assert server.closed.wait(5)
        server.closed.clear()
        assert (server.accepted, server.served) == (n, n)


def test_a_request_that_was_sent_is_not_sent_again(provider, serve):
    server = serve(lambda n: OK if n == 1 else Server.CLOSE)
    assert post(provider, plain(server)) == Delivered(None, 200)
    assert post(provider, plain(server)) == Unknown("closed", "the far side closed the connection without an answer")
    assert (server.accepted, server.served) == (1, 2)


def test_bytes_that_nobody_asked_for_are_no_answer_to_the_next_request(provider, serve):
    forged = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"id":"forged"}'
    server = serve(lambda n: OK + forged if n == 1 else b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n")
    assert post(provider, plain(server)) == Delivered(None, 200)
    assert post(provider, plain(server)).status_code == 410


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def trusted(authority, tmp_path, monkeypatch):
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))


def context_for(authority, *names):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


@pytest.mark.usefixtures("trusted")
def test_tls_with_the_right_name_and_one_connection(provider, serve, authority):
    context = context_for(authority, "localhost")
    names = []
    context.sni_callback = lambda _, name, __: names.append(name)
    server = serve(lambda _: OK, context)
    for _ in range(3):
        assert post(provider, f"https://localhost:{server.port}/hook") == Delivered(None, 200)
    assert (server.accepted, server.served, names) == (1, 3, ["localhost"])


@pytest.mark.usefixtures("trusted")
def test_a_tls_connection_closed_meanwhile_is_noticed(provider, serve, authority):
    server = serve(lambda _: OK + Server.CLOSE, context_for(authority, "127.0.0.1"))
    for n in range(1, 3):
        assert post(provider, f"https://127.0.0.1:{server.port}/hook") == Delivered(None, 200)
        assert server.closed.wait(5)
        server.closed.clear()
        assert server.served == n


@pytest.mark.usefixtures("trusted")
def test_tls_without_an_answer_is_unknown(provider, serve, authority):
    server = serve(lambda _: Server.CLOSE, context_for(authority, "localhost"))
    result = post(provider, f"https://localhost:{server.port}/hook")
    assert result == Unknown("closed", "the far side closed the connection without an answer")
    assert server.served == 1


@pytest.mark.usefixtures("trusted")
def test_a_dripping_answer_over_tls_ends_at_the_deadline(provider, serve, authority):
    over = threading.Event()

    def drip(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 ")
        while not over.wait(0.02):
            connection.sendall(b"O")

    server = serve(lambda _: OK, context_for(authority, "localhost"))
    server._serve = drip
    started = time.monotonic()
    result = post(provider, f"https://localhost:{server.port}/hook", 2.0)
    over.set()
    assert result == Unknown("deadline", "no answer before the deadline", timed_out=True)
    assert time.monotonic() - started < 6.0


@pytest.mark.usefixtures("trusted")
def test_a_write_that_fails_at_once_has_sent_nothing_only_without_tls(provider, serve, authority, monkeypatch):
    def send(*_):
        raise BrokenPipeError

    monkeypatch.setattr(DeadlineSocket, "send", send)
    monkeypatch.setattr(DeadlineTlsSocket, "send", send)
    unsafe = serve(lambda _: OK)
    assert post(provider, plain(unsafe)) == Retry(
        "reset_before_send", "the connection was reset before anything was sent"
    )
    tls = serve(lambda _: OK, context_for(authority, "localhost"))
    result = post(provider, f"https://localhost:{tls.port}/hook", 2.0)
    assert result == Unknown("deadline", "no answer before the deadline", timed_out=True)


def test_an_untrusted_certificate_is_a_retry_and_nothing_is_sent(provider, serve, authority):
    server = serve(lambda _: OK, context_for(authority, "localhost"))
    result = post(provider, f"https://localhost:{server.port}/hook")
    assert isinstance(result, Retry)
    assert result.error_class == "tls"
    assert "certificate" in result.reason
    assert server.served == 0


@pytest.mark.usefixtures("trusted")
def test_a_certificate_for_another_name_is_a_retry(provider, serve, authority):
    server = serve(lambda _: OK, context_for(authority, "elsewhere.example"))
    result = post(provider, f"https://localhost:{server.port}/hook")
    assert isinstance(result, Retry)
    assert (result.error_class, server.served) == ("tls", 0)
    assert "Hostname mismatch" in result.reason


def test_plain_http_behind_https_is_a_retry(provider, serve):
    def talk(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    server = serve(lambda _: OK)
    server._serve = talk
    result = post(provider, f"https://127.0.0.1:{server.port}/hook")
    assert isinstance(result, Retry)
    assert result.error_class == "tls"

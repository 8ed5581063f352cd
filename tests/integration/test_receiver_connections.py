"""The reference receiver and its callers' connections: routes, bounds, slow callers, stopping."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest

from reminders.receiver import exchange, server
from reminders.receiver.hook import LARGEST_BODY
from reminders.receiver.report import Report
from reminders.receiver.server import Receiver

SECRET = b"s" * 32
PATIENCE = 30.0


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver(port=0, secrets=[SECRET]) as one:
        yield one


def connect(receiver):
    return closing(socket.create_connection(receiver.address, timeout=PATIENCE))


def read_to_end(sock):
    """All that comes until the far side closes, gently or not."""
    received = b""
    try:
        while piece := sock.recv(65536):
            received += piece
    except ConnectionResetError:
        pass
    return received


def status_of(receiver, method, target, body=b""):
    connection = http.client.HTTPConnection(*receiver.address, timeout=PATIENCE)
    with closing(connection):
        connection.request(method, target, body)
        answer = connection.getresponse()
        answer.read()
        return answer.status, answer.headers.get("allow")


@pytest.mark.parametrize(
    ("method", "target", "expected"),
    [
        ("POST", "/hook", (401, None)),
        ("POST", "/hook/fail-twice", (401, None)),
        ("GET", "/hook", (405, "POST")),
        ("HEAD", "/hook", (405, "POST")),
        ("PUT", "/hook/refuse", (405, "POST")),
        ("POST", "/report", (405, "GET")),
        ("HEAD", "/report", (405, "GET")),
        ("GET", "/report?keys=0", (200, None)),
        ("GET", "/", (404, None)),
        ("POST", "/hook/", (404, None)),
        ("POST", "/hook/elsewhere", (404, None)),
        ("POST", "/other", (404, None)),
    ],
)
def test_routes(receiver, method, target, expected):
    assert status_of(receiver, method, target) == expected


def test_one_connection_serves_many_requests(receiver):
    connection = http.client.HTTPConnection(*receiver.address, timeout=PATIENCE)
    with closing(connection):
        for method, target in [("POST", "/hook"), ("HEAD", "/hook"), ("GET", "/report?keys=1"), ("GET", "/report")]:
            connection.request(method, target)
            if method == "POST":
                first = connection.sock
            answer = connection.getresponse()
            content = answer.read()
            assert connection.sock is first
    assert json.loads(content)["received"] == 1


def test_the_largest_body_is_read(receiver):
    assert status_of(receiver, "POST", "/hook", b"x" * LARGEST_BODY) == (401, None)
    assert receiver.report() == Report(received=1, effects=0, repeats=0, conflicts=0, refused=1)


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 65537\r\n\r\n",
        b"Content-Length: 65537\r\n\r\n" + b"x" * 65537,
        b"Content-Length: 65537\r\nExpect: 100-continue\r\n\r\n",
        b"Content-Length: 99999999999999999999\r\n\r\n",
        b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        b"Transfer-Encoding: chunked\r\n\r\n10001\r\n" + b"x" * 65537,
        b"Transfer-Encoding: chunked\r\n\r\n" + (b"8000\r\n" + b"x" * 32768 + b"\r\n") * 3,
    ],
)
def test_too_large_is_said_at_once_and_ends_the_connection(receiver, head, caplog):
    with connect(receiver) as sock:
        with suppress(ConnectionError):
            # It may be answered, and the connection ended, before all is sent.
            sock.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\n" + head)
        answer = read_to_end(sock)
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1 ") == 1
    assert receiver.report().refused == 1
    assert [record.levelname for record in caplog.records if record.levelno >= 30] == []


def test_a_body_in_chunks_is_a_body(receiver):
    with connect(receiver) as sock:
        sock.sendall(
            b"POST /hook HTTP/1.1\r\nConnection: close\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
        )
        assert read_to_end(sock).startswith(b"HTTP/1.1 401 ")


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"hello\r\n\r\n",
        b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
    ],
)
def test_what_is_not_http_ends_the_connection_and_no_other(receiver, request_bytes):
    with connect(receiver) as sock:
        with suppress(OSError):
            sock.sendall(request_bytes)
            sock.shutdown(socket.SHUT_WR)
        answer = read_to_end(sock)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")
    assert receiver.report().received == 0
    assert status_of(receiver, "POST", "/hook") == (401, None)


def test_slow_callers_cost_the_others_nothing():
    with Receiver(port=0, secrets=[SECRET], idle_seconds=PATIENCE, body_seconds=PATIENCE) as receiver:
        heads = [socket.create_connection(receiver.address, timeout=PATIENCE) for _ in range(100)]
        bodies = [socket.create_connection(receiver.address, timeout=PATIENCE) for _ in range(100)]
        for sock in heads:
            sock.sendall(b"POST /hook HTTP/1.1\r\nX-Slow: ")
        for sock in bodies:
            sock.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{")
        for sock in heads + bodies:
            assert status_of(receiver, "POST", "/hook") == (401, None)
            sock.sendall(b"x")
        assert receiver.report().received == 200
        for sock in heads + bodies:
            sock.close()


@pytest.mark.parametrize(
    ("bounds", "sent"),
    [
        ({"idle_seconds": 0.3}, b""),
        ({"idle_seconds": 0.3}, b"POST /hook HTTP/1.1\r\nX-Slow: "),
        ({"body_seconds": 0.3}, b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"),
        ({"body_seconds": 0.3}, b"POST /hook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"),
    ],
)
def test_a_caller_who_does_not_come_to_the_end_is_let_go(bounds, sent):
    with Receiver(port=0, secrets=[SECRET], **bounds) as receiver, connect(receiver) as sock:
        sock.sendall(sent)
        assert read_to_end(sock) == b""
        assert receiver.report().received == 0


def test_a_caller_who_drips_is_let_go_all_the_same():
    with Receiver(port=0, secrets=[SECRET], body_seconds=0.5) as receiver, connect(receiver) as sock:
        sock.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
        sock.settimeout(0.02)
        dripped = 0
        ended = False
        while not ended and dripped < 1000:
            try:
                sock.send(b"x")
                dripped += 1
                ended = sock.recv(1) == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                ended = True
        assert ended


def test_a_reader_who_leaves_the_report_unread_is_let_go(receiver, monkeypatch):
    monkeypatch.setattr(exchange, "_SECONDS_TO_TAKE_AN_ANSWER", 0.3)
    with receiver._store.transaction():
        for number in range(60_000):
            receiver._store.count_call("acme", f"dk_{number:0>60}")
    with connect(receiver) as sock:
        ended = threading.Event()
        real = exchange.HTTP1Connection.close
        monkeypatch.setattr(exchange.HTTP1Connection, "close", lambda self: (real(self), ended.set()))
        sock.sendall(b"GET /report?keys=1 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert ended.wait(PATIENCE)
        assert not read_to_end(sock).endswith(b"0\r\n\r\n")


def test_callers_beyond_the_bound_are_turned_away_until_others_leave(receiver, monkeypatch):
    monkeypatch.setattr(server, "_MOST_CONNECTIONS", 3)
    connected = [socket.create_connection(receiver.address, timeout=PATIENCE) for _ in range(3)]
    for sock in connected:
        sock.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
        assert sock.recv(65536).startswith(b"HTTP/1.1 401 ")
    with connect(receiver) as fourth:
        assert read_to_end(fourth) == b""
    for sock in connected:
        sock.sendall(b"GET /report HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert read_to_end(sock).startswith(b"HTTP/1.1 200 ")
        sock.close()
    # Their end is noticed a moment after they see it.
    answers = []
    while not answers:
        with suppress(ConnectionError):
            answers.append(status_of(receiver, "POST", "/hook"))
    assert answers == [(401, None)]


def test_stopping_answers_what_was_begun_and_frees_the_port(tmp_path):
    path = tmp_path / "store.db"
    receiver = Receiver(port=0, secrets=[SECRET], store=path)
    receiver.start()
    idle = socket.create_connection(receiver.address, timeout=PATIENCE)
    idle.sendall(b"POST /hook HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    assert idle.recv(65536).startswith(b"HTTP/1.1 401 ")
    receiver.stop()
    assert read_to_end(idle) == b""
    idle.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(receiver.address, timeout=PATIENCE)
    with Receiver(port=receiver.address[1], secrets=[SECRET], store=path) as again:
        assert status_of(again, "POST", "/hook") == (401, None)


def test_a_port_that_is_taken_is_an_error_at_the_start(receiver):
    with pytest.raises(OSError, match="in use"):
        Receiver(port=receiver.address[1], secrets=[SECRET]).start()

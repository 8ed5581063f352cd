"""One deadline for a call, whatever the far side does with it; and what a call is that ended without an answer."""

from __future__ import annotations

import contextlib
import gzip
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from uuid import UUID

import pytest

from held_ports import held_port
from integration.listening import end_listening
from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Delivered, Retry, Unknown
from reminders.providers.deadline_sockets import Call, DeadlineSocket
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

DEADLINE = 1.0
BOUND = 3 * DEADLINE
ANSWERED = 2.0
"""A deadline before which a server that answers at once is heard, on a busy machine too."""
NO_ANSWER = Unknown("deadline", "no answer before the deadline", timed_out=True)
NOT_SENT = Retry("deadline_before_send", "the deadline passed before anything was sent", timed_out=True)
RESET = Unknown("reset", "the far side reset the connection without an answer")
CLOSED = Unknown("closed", "the far side closed the connection without an answer")


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Starts a server whose every connection is given to a function, with an event that is set at the test's end."""
    over = threading.Event()
    listeners = []

    def start(talk, scheme="http"):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run(connection):
            with contextlib.suppress(OSError), connection:
                talk(connection, over)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=run, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        return f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/hook"

    yield start
    over.set()
    for listener in listeners:
        end_listening(listener)


def post(url, deadline=DEADLINE, size=10):
    provider = WebhookProvider(Settings(webhook_secret=Secret("s" * 24), allow_private=True))
    one = Delivery(
        reminder_id=UUID(int=1),
        delivery_key="rk_1",
        tenant_id="acme",
        user_id="anna",
        kind="invoice",
        channel="webhook",
        destination_id=UUID(int=2),
        destination=url,
        due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        zone=None,
        reference=None,
        slot="",
        data={"text": "x" * size},
        attempt=1,
        body_format=1,
    )
    body = provider.render(one)
    provider.send(one, body, 0.0)  # loads what is loaded at the first call
    started = time.monotonic()
    outcome = provider.send(one, body, deadline)
    return outcome, time.monotonic() - started


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data or not data.endswith(b"}}"):
        data += connection.recv(65536)


def drip(connection, over, piece, every=0.02):
    while not over.wait(every):
        connection.sendall(piece)


def never_answers(connection, over):
    over.wait(30)


def drips_the_status_line(connection, over):
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 ")
    drip(connection, over, b"O")


def drips_the_head(connection, over):
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    drip(connection, over, b"y")


def drips_interim_answers(connection, over):
    read_request(connection)
    drip(connection, over, b"HTTP/1.1 102 Processing\r\n\r\n")


def drips_header_after_header(connection, over):
    read_request(connection)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    drip(connection, over, b"X: y\r\n")


def drips_blanks_before_the_answer(connection, over):
    read_request(connection)
    drip(connection, over, b" ")


@pytest.mark.parametrize(
    "talk",
    [
        never_answers,
        drips_blanks_before_the_answer,
        drips_the_status_line,
        drips_the_head,
        drips_header_after_header,
        drips_interim_answers,
    ],
)
def test_no_answer_in_time_is_unknown(serve, talk):
    outcome, seconds = post(serve(talk))
    assert outcome == NO_ANSWER
    assert DEADLINE <= seconds < BOUND


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", Delivered(None, 200)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: ", Delivered(None, 200)),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"\0" * 10_000_000)[:200],
            Delivered(None, 200),
        ),
        (b"HTTP/1.1 200 OK\r\n\r\n", Delivered(None, 200)),
        (b"HTTP/1.1 500 No\r\nContent-Length: 1000000\r\n\r\n", Unknown("http_500", "HTTP 500", 500)),
    ],
)
def test_a_dripping_body_changes_nothing_about_the_status(serve, head, expected):
    def talk(connection, over):
        read_request(connection)
        connection.sendall(head)
        drip(connection, over, b"a")

    outcome, seconds = post(serve(talk), ANSWERED)
    assert outcome == expected
    assert seconds < 3 * ANSWERED


def test_a_byte_a_second_holds_a_thread_no_longer_than_the_deadline(serve):
    """The bound that the documentation states: the deadline, and a moment for what is done before and after."""

    def talk(connection, over):
        read_request(connection)
        for byte in b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100:
            if over.wait(1.0):
                return
            connection.sendall(bytes([byte]))

    outcome, seconds = post(serve(talk), 2.5)
    assert outcome == NO_ANSWER
    assert 2.5 <= seconds < 7.5  # and not the two minutes that it goes on


def test_what_is_left_of_the_deadline_bounds_the_next_read():
    near, far = socket.socketpair()
    with near, far, DeadlineSocket(near.family, near.type, fileno=near.detach()) as sock:
        sock.settimeout(60)
        sock.call = Call(5)
        far.sendall(b"x")
        assert sock.recv_into(bytearray(1)) == 1
        assert sock.gettimeout() <= 5


def test_a_far_side_that_does_not_read_a_large_body(serve):
    # Signing so much takes time of its own.
    outcome, seconds = post(serve(never_answers), 3.0, size=20_000_000)
    assert outcome == NO_ANSWER
    assert seconds < 9.0


def drips_a_handshake(connection, over):
    connection.recv(65536)
    connection.sendall(b"\x16\x03\x03\x40\x00")
    drip(connection, over, b"\x02")


@pytest.mark.parametrize("talk", [never_answers, drips_a_handshake])
def test_a_handshake_without_end_is_a_retry(serve, talk):
    outcome, seconds = post(serve(talk, "https"))
    assert outcome == NOT_SENT
    assert seconds < BOUND


def test_a_host_that_does_not_accept_is_a_retry():
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # fills the queue: further attempts to connect are not answered
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        outcome, seconds = post(f"http://127.0.0.1:{listener.getsockname()[1]}/")
    assert outcome == NOT_SENT
    assert seconds < BOUND


def test_a_look_up_that_takes_too_long_sends_nothing(serve, monkeypatch):
    reached = threading.Event()
    release = threading.Event()
    url = serve(lambda *_: reached.set())
    found = socket.getaddrinfo("127.0.0.1", int(url.split(":")[2].split("/")[0]), type=socket.SOCK_STREAM)

    def getaddrinfo(*_, **__):
        release.wait(30)
        return found

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    outcome, seconds = post(url.replace("127.0.0.1", "slow.example"))
    release.set()
    assert outcome == NOT_SENT
    assert seconds < BOUND
    assert not reached.wait(0.1)


def test_a_refused_connection_is_a_retry():
    with held_port() as port:
        outcome, _ = post(f"http://127.0.0.1:{port}/", 5.0)
    assert outcome == Retry("connect_refused", "the connection was refused")


def test_a_name_without_address_is_a_retry(monkeypatch):
    def getaddrinfo(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    outcome, _ = post("http://nowhere.example/", 5.0)
    assert outcome == Retry("dns", "the host name could not be resolved (Name or service not known)")


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def resets_after_reading(connection, _):
    read_request(connection)
    reset(connection)


def resets_within_the_status_line(connection, _):
    read_request(connection)
    connection.sendall(b"HTTP/1.1 20")
    reset(connection)


def closes_after_reading(connection, _):
    read_request(connection)


@pytest.mark.parametrize(
    ("talk", "expected"),
    [(resets_after_reading, RESET), (resets_within_the_status_line, RESET), (closes_after_reading, CLOSED)],
)
def test_a_connection_lost_after_the_request_was_read_is_unknown(serve, talk, expected):
    assert post(serve(talk), 5.0)[0] == expected


def test_a_connection_lost_before_the_request_was_read_is_never_called_delivered(serve):
    def talk(connection, _):
        reset(connection)

    # Whether the first byte left before the reset arrived is a race; that it is told apart is not.
    outcome, _ = post(serve(talk), 5.0)
    assert outcome in {
        RESET,
        CLOSED,
        Retry("reset_before_send", "the connection was reset before anything was sent"),
    }


def test_a_reset_within_the_body_of_a_success_leaves_it_one(serve):
    def talk(connection, _):
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart")
        reset(connection)

    outcome, _ = post(serve(talk), 5.0)
    assert outcome in {Delivered(None, 200), RESET}, "a reset may overtake what was written before it"

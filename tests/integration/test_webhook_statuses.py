"""Every class of answer that the documented table lists, from a real local server that answers so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from integration.listening import end_listening
from integration.raw_receiver import MASTER, Receiver, post
from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

OVERSIZED = b'{"id":"' + b"x" * 300_000 + b'"}'


@pytest.fixture
def answered() -> Iterator[Callable[..., Outcome]]:
    """What a POST comes to at a server that answers with these bytes and closes the connection."""
    started: list[Receiver] = []
    provider = WebhookProvider(Settings(webhook_secret=Secret(MASTER), allow_private=True))

    def ask(raw: bytes) -> Outcome:
        def answer(connection, _):
            connection.sendall(raw)
            return False

        started.append(Receiver(answer))
        outcome = post(provider, started[-1].url)
        assert len(started[-1].requests) == 1
        return outcome

    yield ask
    for each in started:
        end_listening(each.listener)


def answer(status: int, body: bytes = b"", **headers: str) -> bytes:
    named = {"Content-Length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Text\r\n{head}\r\n".encode() + body


@pytest.mark.parametrize(
    ("raw", "reference"),
    [
        (answer(200, b'{"id":"r-1"}'), "r-1"),
        (answer(201, b'{"id":"r-1"}'), "r-1"),
        (answer(202), None),
        (b"HTTP/1.1 204 No Content\r\n\r\n", None),
        (answer(206, b"part"), None),
        (answer(226, b"x"), None),
        (answer(299, b"x"), None),
        (answer(200, b'{"id":"cut of'), None),
        (answer(200, b'{"id":"cut off"', Content_Length="4096"), None),
        (answer(200, OVERSIZED), None),
        (answer(200, b"\x00\xff\xfe\x1f\x8b\x08"), None),
        (answer(200, b"not gzip", Content_Encoding="gzip"), None),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nbroken", None),
    ],
    ids=[
        "200", "201", "202", "204", "206", "226", "299", "broken", "truncated", "oversized", "binary", "not what it says",
        "broken chunks",
    ],
)  # fmt: skip
def test_a_success_is_one_whatever_its_body_is(answered, raw, reference):
    outcome = answered(raw)
    assert isinstance(outcome, Delivered)
    assert outcome.reference == reference


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 306, 307, 308])
def test_each_redirect_is_refused(answered, status):
    outcome = answered(answer(status, Location="http://127.0.0.1:1/elsewhere"))
    assert isinstance(outcome, Rejected)
    assert (outcome.error_class, outcome.status_code, outcome.gone) == (f"http_{status}", status, False)


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 405, 406, 411, 413, 415, 418, 421, 422, 426, 428, 431, 451]
)
def test_a_refusal_is_final(answered, status):
    assert answered(answer(status, b"no")) == Rejected(f"http_{status}", f"HTTP {status}: no", status)


def test_a_conflict_says_that_it_may_be_our_own(answered):
    assert answered(answer(409)) == Rejected("http_409", "HTTP 409", 409, may_be_our_own=True)


def test_what_is_gone_says_so(answered):
    assert answered(answer(410, b"moved")) == Rejected("http_410", "HTTP 410: moved", 410, gone=True)


@pytest.mark.parametrize("status", [408, 425, 429, 501, 503, 505])
@pytest.mark.parametrize("headers", [{}, {"Retry_After": "soon"}], ids=["plain", "with garbage"])
def test_passing_trouble_that_excludes_an_effect(answered, status, headers):
    assert answered(answer(status, **headers)) == Retry(f"http_{status}", f"HTTP {status}", status)


@pytest.mark.parametrize("status", [500, 502, 504, 506, 507, 508, 511, 520, 599])
@pytest.mark.parametrize("headers", [{}, {"Retry_After": "90"}], ids=["plain", "with a pause"])
def test_an_error_that_may_hide_an_effect(answered, status, headers):
    assert answered(answer(status, **headers)) == Unknown(f"http_{status}", f"HTTP {status}", status)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize(("given", "seconds"), [("90", 90), ("0", 1), ("999999999", 86400)])
def test_a_pause_that_is_asked_for(answered, status, given, seconds):
    expected = Blocked("destination", timedelta(seconds=seconds), f"http_{status}", f"HTTP {status}", status)
    assert answered(answer(status, Retry_After=given)) == expected


def test_a_pause_that_is_asked_for_by_its_end(answered):
    outcome = answered(answer(429, Retry_After=format_datetime(datetime.now(UTC) + timedelta(minutes=5), usegmt=True)))
    assert isinstance(outcome, Blocked)
    assert timedelta(minutes=4) < outcome.after <= timedelta(minutes=5)


@pytest.mark.parametrize("status", [101, 600, 700, 999])
def test_what_is_no_final_status(answered, status):
    assert answered(answer(status)) == Unknown(f"http_{status}", f"HTTP {status} is not a final answer", status)


@pytest.mark.parametrize("status", [100, 102, 103, 199])
def test_an_interim_answer_alone_is_none(answered, status):
    outcome = answered(f"HTTP/1.1 {status} Wait\r\n\r\n".encode())
    assert outcome == Unknown("closed", "the far side closed the connection without an answer")
    assert isinstance(answered(f"HTTP/1.1 {status} Wait\r\n\r\n".encode() + answer(200)), Delivered)

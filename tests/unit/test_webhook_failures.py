"""What every way of failing means, before and after the first byte left; and which addresses are connected to."""

from __future__ import annotations

import http.client
import socket
import ssl
import threading

import pytest

from reminders.domain.outcomes import Rejected, Retry, Unknown
from reminders.providers import address_guard
from reminders.providers.address_guard import ForbiddenAddress, LookUpFailed, resolve
from reminders.providers.call_failures import Unsendable, outcome_of_failure
from reminders.providers.deadline_sockets import Call, TooMuchReceived


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (TimeoutError(), (Retry, "deadline_before_send"), (Unknown, "deadline")),
        (ConnectionRefusedError(111, "refused"), (Retry, "connect_refused"), (Unknown, "reset")),
        (ConnectionResetError(104, "reset"), (Retry, "reset_before_send"), (Unknown, "reset")),
        (BrokenPipeError(32, "pipe"), (Retry, "reset_before_send"), (Unknown, "reset")),
        (OSError(113, "No route to host"), (Retry, "connect_failed"), (Unknown, "connection_lost")),
        (ssl.SSLError(1, "handshake"), (Retry, "tls"), (Unknown, "tls")),
        (ssl.SSLEOFError(8, "eof"), (Retry, "tls"), (Unknown, "closed")),
        (LookUpFailed("no such name"), (Retry, "dns"), None),
        (ForbiddenAddress("not public"), (Rejected, "forbidden_address"), None),
        (Unsendable("x"), (Rejected, "unsendable"), None),
        (http.client.InvalidURL("x"), (Rejected, "unsendable"), None),
        (UnicodeEncodeError("ascii", "\u00e9", 0, 1, "x"), (Rejected, "unsendable"), (Unknown, "internal")),
        (http.client.RemoteDisconnected("x"), None, (Unknown, "closed")),
        (http.client.BadStatusLine("x"), None, (Unknown, "malformed_answer")),
        (http.client.LineTooLong("x"), None, (Unknown, "malformed_answer")),
        (http.client.IncompleteRead(b""), None, (Unknown, "malformed_answer")),
        (TooMuchReceived("x"), None, (Unknown, "malformed_answer")),
        (RuntimeError("x"), (Retry, "internal"), (Unknown, "internal")),
    ],
)
def test_failures(error, before, after):
    for sent, expected in ((False, before), (True, after)):
        if expected is None:
            continue
        result = outcome_of_failure(error, sent=sent)
        assert (type(result), result.error_class) == expected
        assert result.status_code is None
        if isinstance(result, Unknown):
            assert result.timed_out is isinstance(error, TimeoutError)


def test_texts_of_failures_do_not_hold_numbers_or_addresses():
    error = ssl.SSLCertVerificationError()
    error.verify_message = "not valid for 'anna@example.com' or +4915123456789"
    assert outcome_of_failure(error, sent=False) == Retry(
        "tls", "no TLS connection: not valid for '[redacted]' or [redacted]"
    )


def answers(*addresses):
    families = [socket.AF_INET6 if ":" in address else socket.AF_INET for address in addresses]

    def getaddrinfo(host, port, **_):
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, port) if family == socket.AF_INET else (address, port, 0, 0))
            for family, address in zip(families, addresses, strict=True)
        ]

    return getaddrinfo


def test_only_the_checked_addresses_are_handed_on(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", answers("8.8.8.8", "2606:4700::1111"))
    found = resolve("example.com", 443, Call(5), allow_private=False)
    assert found == [(socket.AF_INET, ("8.8.8.8", 443)), (socket.AF_INET6, ("2606:4700::1111", 443, 0, 0))]


@pytest.mark.parametrize(
    "private", ["127.0.0.1", "169.254.169.254", "100.64.0.1", "::ffff:127.0.0.1", "fe80::1%lo", "::1"]
)
def test_one_private_answer_refuses_all_and_is_not_disclosed(monkeypatch, private):
    monkeypatch.setattr(socket, "getaddrinfo", answers("8.8.8.8", private))
    with pytest.raises(ForbiddenAddress) as refusal:
        resolve("rebound.example", 443, Call(5), allow_private=False)
    assert private.partition("%")[0] not in str(refusal.value)
    assert len(resolve("rebound.example", 443, Call(5), allow_private=True)) == 2


def test_many_addresses_are_not_all_tried(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", answers(*[f"8.8.8.{n}" for n in range(20)]))
    assert len(resolve("example.com", 443, Call(5), allow_private=False)) == 6


def test_a_name_without_address(monkeypatch):
    def getaddrinfo(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(LookUpFailed, match=r"could not be resolved \(Name or service not known\)"):
        resolve("nowhere.example", 443, Call(5), allow_private=False)


def test_a_look_up_that_hangs_is_left_at_the_deadline(monkeypatch):
    release = threading.Event()

    def getaddrinfo(*_, **__):
        release.wait(30)
        raise socket.gaierror(socket.EAI_AGAIN, "again")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    try:
        with pytest.raises(TimeoutError):
            resolve("slow.example", 443, Call(0.05), allow_private=False)
    finally:
        release.set()


def test_open_look_ups_are_bounded(monkeypatch):
    monkeypatch.setattr(address_guard, "_OPEN_LOOKUPS", threading.BoundedSemaphore(1))
    address_guard._OPEN_LOOKUPS.acquire()
    with pytest.raises(LookUpFailed, match="too many"):
        resolve("example.com", 443, Call(5), allow_private=False)

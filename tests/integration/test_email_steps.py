"""A mail server that misbehaves at every command: what each attempt is taken for, and how many messages it kept."""

from __future__ import annotations

import ssl
import time
from dataclasses import replace

import pytest
import trustme

from integration.mail_server import (
    CLOSE,
    DELIVERY,
    DRIP,
    GARBAGE,
    HALF,
    HANG,
    RESET,
    TEMPLATE,
    MailServer,
    Manner,
    provider_for,
    send,
)
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown

DEADLINE = 0.8
"""Of attempts that nothing else ends."""
AT_THE_DOT = 3.0
"""Of those that nothing ends once the message is there: in less it gets there, on a busy machine too."""
BOUND = 10.0
"""Far from the half minute, or for ever, that the server would go on."""
BUSY = Manner(b"450 4.2.0 later\r\n")
CLOSING = Manner(b"421 4.3.2 closing\r\n", "close")
NO = Manner(b"550 5.1.1 no\r\n")
OTHER = Manner(b"299 2.0.0 what\r\n")
SILENT = {"deadline_before_send"}
LOST = {"closed", "reset_before_send"}
"""Whether a close or a reset is seen first, and by a read or a write, is a race; that nothing was sent is not."""
GARBLED = {"malformed_reply"}

# What a server does at a step that comes before the final dot, and what that is.
COMMON = [
    (BUSY, Retry, {"smtp_450"}),
    (CLOSING, Retry, {"smtp_421"}),
    (CLOSE, Retry, LOST),
    (RESET, Retry, LOST),
    (HANG, Retry, SILENT),
    (DRIP, Retry, SILENT),
    (GARBAGE, Retry, GARBLED),
    (HALF, Retry, LOST),
]
REFUSED = {
    "greeting": (Blocked, "smtp_550"),
    "EHLO": (Blocked, "smtp_550"),
    "STARTTLS": (Blocked, "smtp_550"),
    "AUTH": (Blocked, "smtp_550"),
    "MAIL": (Rejected, "smtp_550"),
    "RCPT": (Rejected, "smtp_550"),
    "DATA": (Rejected, "smtp_550"),
    "body": (Rejected, "smtp_550"),
}
BEFORE = [
    *(((step, manner), (kind, classes)) for step in REFUSED for manner, kind, classes in COMMON),
    *(((step, NO), (kind, {name})) for step, (kind, name) in REFUSED.items()),
    *(((step, Manner(b"354 what\r\n")), (Retry, {"out_of_step"})) for step in REFUSED if step not in {"DATA", "body"}),
    (("DATA", OTHER), (Retry, {"out_of_step"})),
    (("body", OTHER), (Retry, {"out_of_step"})),
    *(((step, Manner(b"530 5.7.0 log in first\r\n")), (Blocked, {"smtp_530"})) for step in ("AUTH", "MAIL", "RCPT", "DATA")),
    (("AUTH", Manner(b"535 5.7.8 wrong\r\n")), (Blocked, {"smtp_535"})),
    (("AUTH", Manner(b"534 5.7.9 too weak\r\n")), (Blocked, {"smtp_534"})),
    (("AUTH", Manner(b"454 4.7.0 later\r\n")), (Retry, {"smtp_454"})),
    (("RCPT", Manner(b"452 4.5.3 too many recipients\r\n")), (Retry, {"smtp_452"})),
    (("RCPT", Manner(b"451 4.7.1 greylisted\r\n")), (Retry, {"smtp_451"})),
    (("RCPT", Manner(b"552 5.2.2 mailbox full\r\n")), (Rejected, {"smtp_552"})),
    (("DATA", Manner(b"554 5.7.1 spam\r\n")), (Rejected, {"smtp_554"})),
]  # fmt: skip
# After the final dot: what it is, and how many messages the server has kept.
AFTER = [
    (Manner(b"250 2.0.0 Ok: queued as 4XyZ1abcD\r\n"), (Delivered, {""}, 1)),
    (Manner(b"250-2.0.0 taken\r\n250 2.0.0 Ok\r\n"), (Delivered, {""}, 1)),
    (Manner(b"251 2.1.5 forwarded\r\n"), (Delivered, {""}, 1)),
    (BUSY, (Retry, {"smtp_450"}, 0)),
    (CLOSING, (Retry, {"smtp_421"}, 0)),
    (Manner(b"452 4.3.1 disk full\r\n"), (Retry, {"smtp_452"}, 0)),
    (NO, (Rejected, {"smtp_550"}, 0)),
    (Manner(b"554 5.6.0 content refused\r\n"), (Rejected, {"smtp_554"}, 0)),
    (CLOSE, (Unknown, {"closed"}, 1)),
    (RESET, (Unknown, {"reset", "closed"}, 1)),
    (HANG, (Unknown, {"deadline"}, 1)),
    (DRIP, (Unknown, {"deadline"}, 1)),
    (GARBAGE, (Unknown, {"malformed_reply"}, 1)),
    (HALF, (Unknown, {"closed"}, 1)),
    (Manner(b"250-2.0.0 first line\r\n", "close"), (Unknown, {"closed"}, 1)),
    (Manner(b"250-2.0.0 first line\r\n", "hang"), (Unknown, {"deadline"}, 1)),
    (Manner(b"250-one\r\n550 two\r\n"), (Unknown, {"malformed_reply"}, 1)),
    (Manner(b"25\r\n"), (Unknown, {"malformed_reply"}, 1)),
    (Manner(b"2_0 ok\r\n"), (Unknown, {"malformed_reply"}, 1)),
    (Manner(b"150 ok\r\n"), (Unknown, {"malformed_reply"}, 1)),
    (Manner(b"650 ok\r\n"), (Unknown, {"malformed_reply"}, 1)),
    (Manner(b"354 go on\r\n"), (Unknown, {"out_of_step"}, 1)),
    (Manner(b"250 " + b"x" * 100_000), (Unknown, {"malformed_reply"}, 1)),
    (Manner(b"250-a\r\n" * 50_000), (Unknown, {"malformed_reply"}, 1)),
]


@pytest.fixture(scope="module")
def tls(tmp_path_factory):
    """What the servers of this file show, and the file that names who vouches for it."""
    authority, vouching = trustme.CA(), tmp_path_factory.mktemp("tls") / "ca.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(vouching))
    return context, vouching


@pytest.fixture
def server(tls, monkeypatch):
    context, vouching = tls
    monkeypatch.setenv("SSL_CERT_FILE", str(vouching))
    server = MailServer(tls=context)
    yield server
    server.stop()


def identify(value):
    if isinstance(value, Manner):
        return f"{value.raw[:12].decode('latin-1').strip()} {value.then}"
    if isinstance(value[-1], Manner):
        return f"{value[0]} {identify(value[1])}"
    return value[0].__name__


def attempt(provider, deadline=20.0, *, padding=b""):
    """One attempt, and how long it took. Where the server is what ends it, the deadline is out of the way."""
    one = replace(DELIVERY, template=replace(TEMPLATE, parts={"subject": "S", "text": "short"}))
    body = provider.render(one) + padding
    started = time.monotonic()
    outcome = provider.send(one, body, deadline)
    return outcome, time.monotonic() - started


@pytest.mark.parametrize("security", ["none", "starttls"])
@pytest.mark.parametrize(("at", "expected"), BEFORE, ids=identify)
def test_before_the_final_dot_nothing_is_kept_and_nothing_is_unknown(server, security, at, expected):
    step, manner = at
    if step == "STARTTLS" and security == "none":
        security = "starttls"
    server.manners[step] = [manner]
    provider = provider_for(server, security=security, user="shop", password="secret")
    # So much that the kernels' buffers do not hold it: the dot cannot have left when the server does as it likes.
    padding = b"x\r\n" * 3_000_000 if step == "body" else b""
    waits = manner in {HANG, DRIP}
    outcome, seconds = attempt(provider, DEADLINE if waits else 20.0, padding=padding)
    kind, classes = expected
    assert isinstance(outcome, kind), outcome
    if step == "body" and manner.then == "close":
        # A reset overtakes what was written before it.
        classes = classes | LOST
    assert outcome.error_class in classes, outcome
    assert len(server.kept) == 0
    assert not waits or seconds < BOUND
    if isinstance(outcome, Blocked):
        assert outcome.scope == "provider"


@pytest.mark.parametrize("security", ["none", "starttls"])
@pytest.mark.parametrize(("manner", "expected"), AFTER, ids=identify)
def test_after_the_final_dot_only_a_whole_reply_tells(server, security, manner, expected):
    server.manners["dot"] = [manner]
    kind, classes, kept = expected
    waits = "deadline" in classes
    outcome, seconds = attempt(provider_for(server, security=security), AT_THE_DOT if waits else 20.0)
    assert isinstance(outcome, kind), outcome
    assert outcome.error_class in classes, outcome
    assert len(server.kept) == kept
    assert not waits or seconds < BOUND
    assert getattr(outcome, "timed_out", False) == waits


@pytest.mark.parametrize("manner", [BUSY, NO, CLOSE, RESET, HANG, DRIP, GARBAGE, HALF], ids=identify)
def test_whatever_the_server_does_at_quit_changes_nothing(server, manner):
    server.manners["QUIT"] = [manner]
    provider = provider_for(server, concurrency=1)
    assert isinstance(send(provider), Delivered)
    started = time.monotonic()
    provider._smtp()._idle.take(provider._settings.smtp_url).close()
    assert time.monotonic() - started < BOUND
    assert len(server.kept) == 1

"""What a mail server's words become: reasons, references, and nothing personal."""

from __future__ import annotations

import ssl

import pytest

from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.providers.address_guard import LookUpFailed
from reminders.providers.deadline_sockets import TooMuchReceived
from reminders.providers.email_outcomes import (
    ClosedByServer,
    GarbledReply,
    Unable,
    UnexpectedReply,
    Utf8Missing,
    outcome_of_failure,
    outcome_of_reply,
)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        (b"2.0.0 Ok: queued as 4XyZ1abcD", "4XyZ1abcD"),
        (b"OK id=1rABcd-000XyZ-12", "1rABcd-000XyZ-12"),
        (b"2.0.0 4ATCxyz0012345 Message accepted for delivery", "4ATCxyz0012345"),
        (b"2.6.0 <x@y.example> [InternalId=123456, Hostname=h] Queued mail for delivery", "123456"),
        (b"Ok 0102018c1a2b3c4d-8e7f6a5b-1c2d-3e4f-9a8b-7c6d5e4f3a2b-000000", "0102018c1a2b3c4d-8e7f6a5b-1c2d-3e4f-9a8b-7c6d5e4f3a2b-000000"),
        (b"2.0.0 first\n2.0.0 Ok: queued as 4XyZ1abcD", "4XyZ1abcD"),
        (b"2.0.0 Ok", None),
        (b"", None),
        (b"\xff\x00 queued", None),
        (b"Ok thank you very much indeed", None),
        (b"Ok: queued as anna@customer.example", None),
        (b"[InternalId=4917012345678] Queued", None),
    ],
)  # fmt: skip
def test_the_servers_name_for_a_message_is_kept_where_its_form_is_known(text, reference):
    assert outcome_of_reply("message", 250, text) == Delivered(reference, 250)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"5.1.1 no such user", "RCPT: 550 5.1.1 no such user"),
        (b"5.1.1 no such user\n5.1.1 <anna@customer.example>", "RCPT: 550 5.1.1 no such user <[redacted]>"),
        (b"5.7.1 call +49 170 1234567", "RCPT: 550 5.7.1 call [redacted]"),
        (b"5.2.2 1234 over quota", "RCPT: 550 5.2.2 1234 over quota"),
        (b"5.1.10", "RCPT: 550 5.1.10"),
        (b"no\x00t \xff here", "RCPT: 550 no\ufffdt \ufffd here"),
        (b"5.1.1x no code", "RCPT: 550 5.1.1x no code"),
        (b"", "RCPT: 550"),
    ],
)
def test_a_reason_has_step_code_enhanced_code_and_redacted_words(text, reason):
    assert outcome_of_reply("RCPT", 550, text) == Rejected("smtp_550", reason, 550)


def test_a_long_reply_is_cut_to_what_is_kept_of_any():
    assert len(outcome_of_reply("RCPT", 450, b"4.2.1 " + b"word " * 5000).reason) <= 500


@pytest.mark.parametrize("step", ["greeting", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "message"])
@pytest.mark.parametrize("code", range(200, 600, 7))
def test_no_reply_of_any_code_is_both_refused_and_kept(step, code):
    outcome = outcome_of_reply(step, code, b"words")
    assert isinstance(outcome, Delivered) == (step == "message" and 200 <= code <= 299)
    assert isinstance(outcome, Unknown) == (step == "message" and 300 <= code <= 399)
    assert outcome.status_code == code
    if 400 <= code <= 499:
        assert isinstance(outcome, Retry)
    if code >= 500:
        assert isinstance(outcome, Blocked | Rejected)


@pytest.mark.parametrize(
    ("error", "before", "after"),
    [
        (TimeoutError(), "deadline_before_send", "deadline"),
        (ClosedByServer(), "closed", "closed"),
        (ssl.SSLEOFError(8, "eof"), "closed", "closed"),
        (ssl.SSLCertVerificationError(1, "verify"), "tls", "tls"),
        (GarbledReply(), "malformed_reply", "malformed_reply"),
        (TooMuchReceived("x"), "malformed_reply", "malformed_reply"),
        (ConnectionResetError(), "reset_before_send", "reset"),
        (ConnectionRefusedError(), "connect_refused", "reset"),
        (OSError(113, "No route to host"), "connect_failed", "connection_lost"),
        (LookUpFailed("x"), "dns", "connection_lost"),
        (UnicodeEncodeError("ascii", "\u00e9", 0, 1, "x"), "internal", "internal"),
        (ValueError("x"), "internal", "internal"),
        (RuntimeError("x"), "internal", "internal"),
    ],
)
def test_failures_of_the_dialogue(error, before, after):
    found = outcome_of_failure(error, sent=False)
    assert (type(found), found.error_class) == (Retry, before)
    found = outcome_of_failure(error, sent=True)
    assert (type(found), found.error_class) == (Unknown, after)


def test_what_the_server_does_not_offer():
    assert isinstance(outcome_of_failure(Unable("auth_missing", "x"), sent=False), Blocked)
    assert isinstance(outcome_of_failure(Utf8Missing(), sent=False), Rejected)
    reply = UnexpectedReply("RCPT", 450, b"later")
    assert outcome_of_failure(reply, sent=False) == Retry("smtp_450", "RCPT: 450 later", 450)

"""The page's tables of what a mail server's replies and silences do are what the code does, row by row."""

from __future__ import annotations

import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from reminders.domain.outcomes import Blocked, Outcome, Unknown
from reminders.providers.address_guard import LookUpFailed
from reminders.providers.email_outcomes import (
    ClosedByServer,
    GarbledReply,
    Unable,
    Utf8Missing,
    outcome_of_failure,
    outcome_of_reply,
)
from unit.test_documented_outcomes import follows

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "email.md").read_text()
ABOUT_US = ("greeting", "EHLO", "STARTTLS", "AUTH")
ABOUT_A_MESSAGE = ("MAIL", "RCPT", "DATA")
LOG_IN = (530, 534, 535, 538)
STEPS = "test_before_the_final_dot_nothing_is_kept_and_nothing_is_unknown"
DOT = "test_after_the_final_dot_only_a_whole_reply_tells"


@dataclass(frozen=True)
class Row:
    what: str
    outcomes: Sequence[Outcome]
    tests: Sequence[str]


def replies(what: str, steps: Sequence[str], codes: Sequence[int], *tests: str) -> Row:
    return Row(what, [outcome_of_reply(step, code, b"") for step in steps for code in codes], tests)


def failures(what: str, error: Exception, *tests: str, sent: bool) -> Row:
    return Row(what, [outcome_of_failure(error, sent=sent)], tests)


REPLIES = [
    replies("4xx to greeting, EHLO, STARTTLS or AUTH (also 421, 454)", ABOUT_US, range(400, 500), STEPS),
    replies("5xx to greeting, EHLO, STARTTLS or AUTH (also 535, 534, 530)", ABOUT_US, range(500, 600), STEPS, "test_refused_credentials_hold_the_channel_and_keep_the_reminders"),
    replies("4xx to MAIL, RCPT or DATA, or before the final dot (also 421, 450, 451, 452)", ABOUT_A_MESSAGE, range(400, 500), STEPS, "test_a_mail_that_was_put_off_is_retried_with_the_same_body"),
    replies("530, 534, 535, 538 to MAIL, RCPT or DATA", ABOUT_A_MESSAGE, LOG_IN, STEPS),
    replies("any other 5xx to MAIL, RCPT or DATA, or before the final dot", ABOUT_A_MESSAGE, [each for each in range(500, 600) if each not in LOG_IN], STEPS, "test_a_refused_mailbox_is_a_dead_letter_and_its_destination_stays_enabled"),
    replies("2xx or 3xx where it is no answer, before the final dot", ABOUT_US, range(300, 400), STEPS, "test_a_reply_that_comes_before_the_message_is_none_to_it"),
    replies("2xx to the final dot", ["message"], range(200, 300), DOT, "test_a_mail_is_sent_once_and_the_servers_name_for_it_kept"),
    replies("4xx to the final dot", ["message"], range(400, 500), DOT),
    replies("5xx to the final dot", ["message"], range(500, 600), DOT),
    replies("3xx to the final dot", ["message"], range(300, 400), DOT),
]  # fmt: skip
BEFORE = [
    failures("the name has no address", LookUpFailed("x"), "test_a_mail_host_without_address_is_a_retry", sent=False),
    failures("the connection is refused", ConnectionRefusedError(), "test_a_refused_connection_is_a_retry_by_mail_too", sent=False),
    failures("the host cannot be reached", OSError(113, "No route to host"), "test_failures_of_the_dialogue", sent=False),
    failures("no TLS: untrusted, another name, plain SMTP", ssl.SSLError(), "test_a_certificate_that_is_not_the_servers_is_a_retry_and_nothing_is_said", "test_plain_smtp_behind_smtps_is_a_retry", sent=False),
    failures("the server closes, perhaps within a reply", ClosedByServer(), STEPS, sent=False),
    failures("the connection is reset", ConnectionResetError(), STEPS, sent=False),
    failures("the deadline passes, however slowly it drips", TimeoutError(), STEPS, "test_a_hanging_mail_server_before_the_message_is_a_retry", sent=False),
    failures("what comes is no reply, or comes unasked", GarbledReply(), STEPS, "test_text_slipped_in_ahead_of_tls_is_not_taken_for_the_servers", sent=False),
    failures("a fault on our side", RuntimeError(), "test_failures_of_the_dialogue", sent=False),
    failures("STARTTLS is not offered", Unable("starttls_missing", "x"), "test_without_starttls_nothing_is_sent_in_the_clear", sent=False),
    failures("neither AUTH PLAIN nor LOGIN is offered", Unable("auth_missing", "x"), "test_a_server_without_a_log_in_that_we_know_holds_the_channel", sent=False),
    failures("the address is not ASCII before the @, and SMTPUTF8 is not offered", Utf8Missing(), "test_an_address_that_is_not_ascii_before_the_at_needs_smtputf8", sent=False),
]  # fmt: skip
AFTER = [
    failures("the server closes, perhaps within its reply", ClosedByServer(), DOT, "test_a_mail_whose_fate_is_unknown_goes_to_review_and_is_never_repeated", sent=True),
    failures("the connection is reset", ConnectionResetError(), DOT, sent=True),
    failures("no reply before the deadline, however slowly it drips", TimeoutError(), DOT, sent=True),
    failures("what comes is no reply, or has no end", GarbledReply(), DOT, sent=True),
    failures("the TLS connection breaks", ssl.SSLError(), "test_failures_of_the_dialogue", sent=True),
    failures("the connection is lost", OSError(113, "No route to host"), "test_failures_of_the_dialogue", sent=True),
    failures("a fault on our side", RuntimeError(), "test_failures_of_the_dialogue", sent=True),
]  # fmt: skip
TABLES = {
    "replies": ("reply", REPLIES),
    "failures-before": ("before the final dot", BEFORE),
    "failures-after": ("after the final dot", AFTER),
}


def rendered(name: str) -> str:
    first, rows = TABLES[name]
    lines = [f"| {first} | outcome | what follows | test |", "|---|---|---|---|"]
    for row in rows:
        found = {
            (
                f"`{type(outcome).__name__}`" + ("; the channel is held" if isinstance(outcome, Blocked) else ""),
                follows(outcome, on_unknown="review"),
            )
            for outcome in row.outcomes
        }
        ((outcome, then),) = found
        what = row.what if name == "replies" else f"{row.what} (`{row.outcomes[0].error_class}`)"
        lines.append(f"| {what} | {outcome} | {then} | {', '.join(f'`{each}`' for each in row.tests)} |")
    return "\n".join(lines)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_on_mail_shows_what_the_code_does(name):
    match = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", PAGE, re.DOTALL)
    assert match is not None
    assert match[1] == rendered(name)


def test_every_test_named_on_the_page_exists():
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert {each for each in named if f"def {each}(" not in sources} == set()


def test_a_mail_that_may_have_been_sent_is_never_sent_again():
    for row in (*REPLIES, *BEFORE, *AFTER):
        for outcome in row.outcomes:
            assert (follows(outcome, on_unknown="review") == "review") == isinstance(outcome, Unknown)

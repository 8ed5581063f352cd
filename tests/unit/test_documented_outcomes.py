"""The page's tables of what a webhook's answers and failures do are what the code does, row by row."""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reminders.domain.errors import ServiceUnavailable
from reminders.domain.outcomes import Blocked, Outcome, Rejected, Unknown
from reminders.domain.retry_policy import Bury, Deliver, OnUnknown, Park, Wait, as_known, decide
from reminders.providers import webhook_outcomes
from reminders.providers.address_guard import ForbiddenAddress, LookUpFailed
from reminders.providers.call_failures import Unsendable, outcome_of_failure
from reminders.settings import Settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guarantees.md").read_text()
HEAD = "| {} | outcome | it deduplicates | the same, while an earlier attempt is unknown | it can be asked | neither | test |"
REFUSED = frozenset(range(400, 500)) - {408, 409, 410, 425, 429}
HIDDEN = frozenset(range(500, 600)) - {501, 503, 505}


@dataclass(frozen=True)
class Row:
    """A line of a table: what happens, samples of it, and the tests that let it happen."""

    what: str
    outcomes: Sequence[Outcome]
    tests: Sequence[str]


def answers(what: str, statuses: Sequence[int], *tests: str, retry_after: str | None = None) -> Row:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    now = datetime(2026, 11, 29, tzinfo=UTC)
    return Row(what, [webhook_outcomes.outcome_of(status, headers, b"", now=now) for status in statuses], tests)


def failures(what: str, error: Exception, *tests: str, sent: bool) -> Row:
    return Row(what, [outcome_of_failure(error, sent=sent)], tests)


ANSWERS = [
    answers("200 to 299, whatever the body is", range(200, 300), "test_a_success_is_one_whatever_its_body_is", "test_a_dripping_body_changes_nothing_about_the_status"),
    answers("300 to 399", range(300, 400), "test_each_redirect_is_refused"),
    answers("400 to 499, save those below", sorted(REFUSED), "test_a_refusal_is_final"),
    answers("409", [409], "test_a_conflict_says_that_it_may_be_our_own"),
    answers("410", [410], "test_what_is_gone_says_so", "test_a_receiver_that_is_gone_is_not_called_again"),
    answers("408, 425, 429", [408, 425, 429], "test_passing_trouble_that_excludes_an_effect"),
    answers("501, 503, 505", [501, 503, 505], "test_passing_trouble_that_excludes_an_effect"),
    answers("429, 503 with a `Retry-After` that can be read", [429, 503], "test_a_pause_that_is_asked_for", "test_a_receiver_that_asks_for_a_pause_is_left_alone", retry_after="90"),
    answers("500, 502, 504, 506 to 599", sorted(HIDDEN), "test_an_error_that_may_hide_an_effect"),
    answers("101, or 600 to 999: no final status", [101, *range(600, 1000)], "test_what_is_no_final_status"),
]  # fmt: skip
BEFORE = [
    failures("the name has no address", LookUpFailed("x"), "test_a_name_without_address_is_a_retry", sent=False),
    failures("the connection is refused", ConnectionRefusedError(), "test_a_refused_connection_is_a_retry", sent=False),
    failures("the host cannot be reached", OSError(113, "No route to host"), "test_failures", sent=False),
    failures("the connection is reset", ConnectionResetError(), "test_a_connection_lost_before_the_request_was_read_is_never_called_delivered", sent=False),
    failures("no TLS: untrusted, another name, plain HTTP", ssl.SSLError(), "test_an_untrusted_certificate_is_a_retry_and_nothing_is_sent", "test_a_certificate_for_another_name_is_a_retry", "test_plain_http_behind_https_is_a_retry", sent=False),
    failures("the deadline passes, however slow the handshake", TimeoutError(), "test_a_host_that_does_not_accept_is_a_retry", "test_a_handshake_without_end_is_a_retry", "test_a_look_up_that_takes_too_long_sends_nothing", sent=False),
    failures("a fault on our side", RuntimeError(), "test_failures", sent=False),
    failures("what the tenant is allowed cannot be read", ServiceUnavailable("x"), "test_while_it_cannot_be_asked_nothing_is_sent_and_the_destination_is_not_blamed", sent=False),
    failures("an address that is not public", ForbiddenAddress("x"), "test_outside_development_no_connection_is_made_to_a_private_address", "test_a_name_with_one_answer_that_is_not_public_is_not_called", "test_one_address_that_is_not_allowed_refuses_all", sent=False),
    failures("what cannot be written as HTTP, or may no longer be a destination", Unsendable("x"), "test_a_key_that_fits_into_no_header_is_not_sent", "test_a_place_that_is_not_public_is_refused_however_it_is_written", sent=False),
]  # fmt: skip
AFTER = [
    failures("no answer before the deadline, however it drips", TimeoutError(), "test_no_answer_in_time_is_unknown", "test_a_far_side_that_does_not_read_a_large_body", "test_a_dripping_answer_over_tls_ends_at_the_deadline", "test_a_byte_a_second_holds_a_thread_no_longer_than_the_deadline", sent=True),
    failures("closed without an answer, also after an interim one", http.client.RemoteDisconnected(), "test_a_connection_lost_after_the_request_was_read_is_unknown", "test_an_interim_answer_alone_is_none", sent=True),
    failures("reset without an answer", ConnectionResetError(), "test_a_connection_lost_after_the_request_was_read_is_unknown", sent=True),
    failures("the TLS connection breaks", ssl.SSLError(), "test_failures", sent=True),
    failures("an answer that is not HTTP, or whose head is too large", http.client.BadStatusLine("x"), "test_garbage_in_place_of_an_answer_is_unknown", sent=True),
    failures("the connection is lost", OSError(113, "No route to host"), "test_failures", sent=True),
    failures("a fault on our side", RuntimeError(), "test_failures", sent=True),
]  # fmt: skip
TABLES = {
    "answers": ("answer", ANSWERS),
    "failures-before": ("before anything was sent", BEFORE),
    "failures-after": ("after it was sent", AFTER),
}


def follows(outcome: Outcome, *, on_unknown: OnUnknown, uncertain: bool = False) -> str:
    """In a word or two, what the shipped settings do after a first attempt, or a second after an unknown one."""
    shipped = Settings()
    known = as_known(outcome, uncertain=uncertain)
    decision = decide(
        known,
        attempts_used=2 if uncertain else 1,
        uncertain=uncertain,
        on_unknown=on_unknown,
        max_attempts=shipped.max_attempts,
        delays=shipped.retry_delays,
        waited=0.0,
        max_wait=shipped.max_wait,
        jitter=0.5,
    )
    match decision:
        case Deliver():
            return "delivered"
        case Wait():
            return "waits, uncounted"
        case Park():
            return "looked up" if on_unknown == "look_up" and isinstance(known, Unknown) else "tried again"
        case Bury():
            return "review" if decision.kind == "unknown" else "dead letter"


def cells(outcome: Outcome) -> tuple[str, ...]:
    name = type(outcome).__name__
    besides = ""
    if isinstance(outcome, Blocked):
        besides = "; the destination is held"
    elif isinstance(outcome, Rejected) and outcome.gone:
        besides = "; the destination is disabled"
    return (
        f"`{name}`{besides}",
        follows(outcome, on_unknown="repeat"),
        follows(outcome, on_unknown="repeat", uncertain=True),
        follows(outcome, on_unknown="look_up"),
        follows(outcome, on_unknown="review"),
    )


def rendered(name: str) -> str:
    first, rows = TABLES[name]
    lines = [HEAD.format(first), "|---|---|---|---|---|---|---|"]
    for row in rows:
        (same,) = {cells(outcome) for outcome in row.outcomes}
        what = row.what
        if name != "answers":
            what = f"{what} (`{row.outcomes[0].error_class}`)"
        lines.append(f"| {what} | {' | '.join(same)} | {', '.join(f'`{each}`' for each in row.tests)} |")
    return "\n".join(lines)


@pytest.mark.parametrize("name", TABLES)
def test_the_page_shows_what_the_code_does(name):
    match = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", PAGE, re.DOTALL)
    assert match is not None
    assert match[1] == rendered(name)


def test_every_status_is_in_one_row():
    plain = [row for row in ANSWERS if "Retry-After" not in row.what]
    statuses = [outcome.status_code for row in plain for outcome in row.outcomes]
    assert sorted(statuses) == [101, *range(200, 1000)]


def test_every_class_of_failure_has_its_row():
    source = Path(outcome_of_failure.__code__.co_filename).read_text()
    before, after = source.split("def _after_sending")
    for text, rows in ((before, BEFORE), (after, AFTER)):
        classes = set(re.findall(r'(?:Retry|Rejected|Unknown)\(\s*"(\w+)"', text))
        assert classes == {row.outcomes[0].error_class for row in rows}
        assert len(classes) == len(rows)


def test_a_pause_in_the_table_is_the_one_that_was_asked_for():
    (row,) = [row for row in ANSWERS if "Retry-After" in row.what]
    assert [outcome.after for outcome in row.outcomes if isinstance(outcome, Blocked)] == [timedelta(seconds=90)] * 2


def test_nothing_that_may_have_been_sent_is_ever_sent_again_where_nothing_tells():
    for row in (*ANSWERS, *BEFORE, *AFTER):
        for outcome in row.outcomes:
            again = follows(outcome, on_unknown="review")
            hidden = isinstance(outcome, Unknown)
            assert (again == "review") == hidden
            assert (follows(outcome, on_unknown="look_up") == "looked up") == hidden

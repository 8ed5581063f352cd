"""The documented table: what each HTTP answer makes us do. No sockets."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.providers.retry_after import parse_retry_after
from reminders.providers.webhook_outcomes import outcome_of

NOW = datetime(2026, 11, 29, 12, 0, 0, tzinfo=UTC)


def outcome(status, headers=None, body=b""):
    return outcome_of(status, headers or {}, body, now=NOW)


@pytest.mark.parametrize("status", [200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 299])
def test_every_2xx_is_delivered(status):
    assert outcome(status) == Delivered(None, status)


@pytest.mark.parametrize("status", [300, 301, 302, 303, 304, 305, 307, 308, 399])
def test_every_redirect_is_refused_and_says_so(status):
    result = outcome(status, {"Location": "https://elsewhere.example/secret-path"})
    assert isinstance(result, Rejected)
    assert (result.error_class, result.status_code) == (f"http_{status}", status)
    assert "redirects are not followed" in result.reason
    assert "elsewhere" not in result.reason


@pytest.mark.parametrize(
    "status", [400, 401, 402, 403, 404, 405, 406, 411, 413, 414, 415, 418, 421, 422, 424, 426, 428, 431, 451]
)
def test_other_4xx_are_the_receivers_decision(status):
    assert outcome(status, body=b"no such hook") == Rejected(f"http_{status}", f"HTTP {status}: no such hook", status)


def test_410_disables_the_destination_and_409_may_be_our_own_doing():
    assert outcome(410) == Rejected("http_410", "HTTP 410", 410, gone=True)
    assert outcome(409) == Rejected("http_409", "HTTP 409", 409, may_be_our_own=True)


@pytest.mark.parametrize("status", [408, 425, 429, 501, 503, 505])
def test_passing_troubles_that_exclude_an_effect_are_retried(status):
    assert outcome(status) == Retry(f"http_{status}", f"HTTP {status}", status, None)


@pytest.mark.parametrize("status", [500, 502, 504, 507, 508, 511, 520, 529, 598, 599])
def test_server_errors_that_may_hide_an_effect_say_so(status):
    assert outcome(status) == Unknown(f"http_{status}", f"HTTP {status}", status)


@pytest.mark.parametrize("status", [100, 101, 102, 103, 199, 600, 700, 999])
def test_what_is_no_final_status_tells_nothing(status):
    result = outcome(status)
    assert isinstance(result, Unknown)
    assert (result.error_class, result.status_code, result.timed_out) == (f"http_{status}", status, False)


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        (b'{"reference":"ref-1","id":"id-1"}', "ref-1"),
        (b'{"id":"id-1"}', "id-1"),
        (b'{"id":42}', "42"),
        (b'{"id":true}', None),
        (b'{"id":1e400}', None),
        (b'{"id":' + b"9" * 5000 + b"}", None),
        (b'{"id":"' + b"a" * 201 + b'"}', None),
        (b'{"id":"anna@example.com"}', None),
        (b'{"id":"+491512345678"}', None),
        (b'{"id":"a\\u0000b"}', None),
        (b'{"id":"\\ud800"}', None),
        (b'{"id":["x"]}', None),
        (b'{"id":"cut off', None),
        (b'{"a":' + b"[" * 15_000, None),
        (b'{"id":"x","pad":"' + b"p" * 20_000 + b'"}', None),
        (b'["id"]', None),
        (b"ok", None),
        (b"\xff\xfe\x00\x01", None),
        (b"\x1f\x8b\x08\x00", None),
    ],
)
def test_a_success_stays_one_whatever_its_body_is(body, reference):
    assert outcome(200, body=body) == Delivered(reference, 200)


def test_the_reference_header_comes_first_in_any_case():
    assert outcome(200, {"Webhook-Reference": " r/1 "}, b'{"id":"id-1"}') == Delivered("r/1", 200)


def test_reasons_are_redacted_and_short():
    result = outcome(422, body=json.dumps({"error": "anna@example.com or +49 151 2345678 " + "x" * 900}).encode())
    assert isinstance(result, Rejected)
    assert result.reason.startswith('HTTP 422: {"error": "[redacted] or [redacted] xxx')
    assert len(result.reason) == 500


@pytest.mark.parametrize(
    ("headers", "body"), [({"Content-Encoding": "gzip"}, b"\x1f\x8b" + b"a" * 30), ({}, b"\x00" * 32)]
)
def test_a_reason_does_not_hold_binary(headers, body):
    result = outcome(400, headers, body)
    assert isinstance(result, Rejected)
    assert result.reason == "HTTP 400 (an answer of 32 bytes that is not plain text)"


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("120", 120),
        (" 7 ", 7),
        ("0", 1),
        ("007", 7),
        ("86400", 86400),
        ("86401", 86400),
        ("9999999", 86400),
        ("9" * 5000, 86400),
        ("0" * 5000 + "3", 3),
        ("Sun, 29 Nov 2026 12:05:00 GMT", 300),
        ("Sun, 29 Nov 2026 12:05:00", 300),
        ("Sun, 29 Nov 2026 14:05:00 +0200", 300),
        ("Sunday, 29-Nov-26 12:05:00 GMT", 300),
        ("Sun Nov 29 12:05:00 2026", 300),
        ("Sun, 29 Nov 2020 12:00:00 GMT", 1),
        ("Fri, 01 Jan 2038 00:00:00 GMT", 86400),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86400),
    ],
)
def test_retry_after_is_understood_and_clamped(value, seconds):
    expected = timedelta(seconds=seconds)
    for status in (429, 503):
        result = outcome(status, {"retry-after": value}, b"slow down")
        assert result == Blocked("destination", expected, f"http_{status}", f"HTTP {status}: slow down", status)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "-5",
        "+5",
        "1.5",
        "1e3",
        "1_000",
        "NaN",
        "inf",
        "0x10",
        "\u0661\u0662",
        "\uff15",
        "soon",
        "5 seconds",
        "Fri, 31 Dec 99999 23:59:59 GMT",
        "Fri, 32 Dec 2026 25:61:61 GMT",
        "Fri, 31 Dec 2026 23:59:59 +99999999999999",
        "Sun, 29 Nov 2026 12:05:00 GMT" * 20,
        ":",
        "\x00",
    ],
)
def test_retry_after_that_means_nothing_is_ignored(value):
    assert outcome(503, {"Retry-After": value}) == Retry("http_503", "HTTP 503", 503, None)


@pytest.mark.parametrize(
    ("status", "kind"), [(500, Unknown), (502, Unknown), (504, Unknown), (408, Retry), (425, Retry)]
)
def test_retry_after_counts_for_429_and_503_only(status, kind):
    assert outcome(status, {"Retry-After": "60"}) == kind(f"http_{status}", f"HTTP {status}", status)


@given(st.text(max_size=80))
def test_retry_after_never_raises(value):
    wait = parse_retry_after(value, NOW)
    assert wait is None or timedelta(seconds=1) <= wait <= timedelta(hours=24)


@given(
    st.integers(min_value=100, max_value=999),
    st.dictionaries(st.sampled_from(["Retry-After", "webhook-reference", "content-encoding"]), st.text()),
    st.binary(max_size=300),
)
def test_any_answer_has_a_storable_outcome(status, headers, body):
    result = outcome(status, headers, body)
    texts = (result.reason, result.error_class, getattr(result, "reference", None) or "")
    assert all("\0" not in text and text.encode() is not None and len(text) <= 500 for text in texts)

"""Keys: the same for the same thing, different for different things, and telling nothing about anybody."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from unittest.mock import patch
from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.identity import delivery_key, destination_id, digest, identity_key, request_hash, uuid7

DUE = datetime(2026, 6, 1, 9, tzinfo=UTC)
WHAT = {"tenant_id": "t", "user_id": "u", "reference": "r", "kind": "k", "channel": "c", "slot": "s", "due_at": DUE}
PARTS = st.lists(st.none() | st.text(alphabet="ab\x00", max_size=3), max_size=4)


@given(PARTS, PARTS)
def test_no_choice_of_texts_lets_two_lists_of_parts_collide(one, other):
    assert (digest(*one) == digest(*other)) == (one == other)


def test_the_digest_is_what_it_always_was():
    """Keys are stored: a change here would make every replay a new reminder."""
    assert identity_key(**WHAT).hex() == "3b5c8b01e5cb20ac7d9a97877b30cb887b3c23ddb4f473cde6caf4425d535adf"
    assert delivery_key(identity_key(**WHAT), 1) == "dk_uxpdA83VYaYe3GSbJUVWAm-dp8V1kCkEZ9mi24A6Seg"
    assert str(destination_id("t", "webhook", "https://example.org/")) == "17e7abe7-47b1-8a91-9764-bccabd61948c"
    assert (
        request_hash(destination="d", due_at=DUE, zone=None, data="{}", expires_at=None).hex()
        == "5d2bc248d264d83ffe3501dd3af282fa851cdbc215d8b3093d24032e1f8a03f2"
    )


def test_each_part_counts():
    keys = {identity_key(**WHAT)}
    for name in ("tenant_id", "user_id", "reference", "kind", "channel", "slot"):
        keys.add(identity_key(**{**WHAT, name: "other"}))
    keys.add(identity_key(**WHAT, recurrence_id="2026-06-01T09:00"))
    assert len(keys) == 8


def test_texts_cannot_be_shifted_from_one_part_to_the_next():
    assert identity_key(**{**WHAT, "kind": "ab", "channel": "c"}) != identity_key(
        **{**WHAT, "kind": "a", "channel": "bc"}
    )


def test_the_instant_counts_exactly_when_there_is_no_reference():
    later = DUE + timedelta(microseconds=1)
    assert identity_key(**{**WHAT, "due_at": later}) == identity_key(**WHAT)
    without = {**WHAT, "reference": None}
    assert identity_key(**{**without, "due_at": later}) != identity_key(**without)
    assert identity_key(**without) != identity_key(**{**WHAT, "reference": DUE.isoformat()})


def test_the_instant_counts_in_utc():
    there = DUE.astimezone(timezone(timedelta(hours=-7)))
    without = {**WHAT, "reference": None}
    assert identity_key(**{**without, "due_at": there}) == identity_key(**without)


def test_the_request_is_all_that_the_identity_is_not():
    asked = {"destination": "d", "due_at": DUE, "zone": "UTC", "data": "{}", "expires_at": DUE}
    hashes = {request_hash(**asked)}
    for name, other in {"destination": "e", "due_at": DUE + timedelta(1), "zone": None, "data": '{"a":1}', "expires_at": None}.items():  # fmt: skip
        hashes.add(request_hash(**{**asked, name: other}))
    assert len(hashes) == 6


def test_a_delivery_key_is_46_characters_fit_for_headers_and_urls_and_differs_by_version():
    identity = identity_key(**WHAT)
    keys = [delivery_key(identity, version) for version in range(1, 50)]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"dk_[A-Za-z0-9_-]{43}", key) for key in keys)


def test_a_destinations_id_follows_from_what_it_is():
    one = destination_id("t", "webhook", "https://example.org/")
    assert one == destination_id("t", "webhook", "https://example.org/")
    assert (one.version, one.variant) == (8, RFC_4122)
    assert (
        len(
            {
                one,
                destination_id("u", "webhook", "https://example.org/"),
                destination_id("t", "log", "https://example.org/"),
            }
        )
        == 3
    )


def test_ids_are_in_the_order_of_time_and_unique():
    ids = [uuid7() for _ in range(2000)]
    assert len(set(ids)) == len(ids)
    assert all((each.version, each.variant) == (7, RFC_4122) for each in ids)
    stamps = [each.int >> 64 for each in ids]
    assert stamps == sorted(stamps)


@pytest.mark.parametrize(("nanoseconds", "fraction"), [(0, 0), (244, 0), (245, 1), (500_000, 2048), (999_999, 4095)])
def test_an_id_tells_its_millisecond_and_how_far_into_it_it_was_made(nanoseconds, fraction):
    with patch("time.time_ns", return_value=1_900_000_000_123_000_000 + nanoseconds):
        made = uuid7()
    assert (made.int >> 80, made.int >> 64 & 0xFFF) == (1_900_000_000_123, fraction)

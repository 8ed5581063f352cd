"""What counts against a destination."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reminders.domain.failing import counts_as_failure, through_relay
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown


@pytest.mark.parametrize(
    ("outcome", "counts", "beyond_a_relay"),
    [
        (Delivered(), False, False),
        (Blocked("destination", timedelta(seconds=5), "http_429", "HTTP 429", 429), False, False),
        (Blocked("provider", timedelta(seconds=5), "credentials", "refused", 401), False, False),
        (Retry("connect_refused", "refused"), True, False),
        (Unknown("deadline", "no answer", timed_out=True), True, False),
        (Rejected("http_404", "HTTP 404", 404), True, True),
        (Retry("internal", "ours", blameless=True), False, False),
        (Unknown("internal", "ours", blameless=True), False, False),
        (Rejected("unsendable", "ours", blameless=True), False, False),
    ],
)
def test_only_a_refusal_of_what_lies_beyond_a_relay_counts(outcome, counts, beyond_a_relay):
    assert counts_as_failure(outcome) is counts
    assert counts_as_failure(through_relay(outcome)) is beyond_a_relay

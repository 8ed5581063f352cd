"""What the record of attempts proves of a delivery."""

import pytest

from reminders.domain.sending_proof import SENT_WORDS, CallsOnRecord, judge, judge_all


@pytest.mark.parametrize(
    ("calls", "verdict"),
    [
        (CallsOnRecord(0, 0, deduplicates=True), "not_sent"),
        (CallsOnRecord(1, 0, deduplicates=False), "once"),
        (CallsOnRecord(0, 1, deduplicates=False), "unknown"),
        (CallsOnRecord(0, 1, deduplicates=False, found=True), "by_word"),
        (CallsOnRecord(0, 1, deduplicates=False, absent=True), "not_sent"),
        (CallsOnRecord(0, 0, deduplicates=False, found=True), "by_word"),
        (CallsOnRecord(0, 0, deduplicates=True, under_way=True), "under_way"),
        (CallsOnRecord(0, 1, deduplicates=True, under_way=True), "under_way"),
        (CallsOnRecord(1, 0, deduplicates=True, under_way=True), "deduplicated"),
        (CallsOnRecord(1, 0, deduplicates=False, under_way=True), "maybe_twice"),
        (CallsOnRecord(1, 1, deduplicates=True), "deduplicated"),
        (CallsOnRecord(2, 0, deduplicates=True), "deduplicated"),
        (CallsOnRecord(1, 1, deduplicates=False), "maybe_twice"),
        (CallsOnRecord(1, 1, deduplicates=False, absent=True), "by_word"),
        (CallsOnRecord(2, 0, deduplicates=False), "twice"),
        (CallsOnRecord(2, 0, deduplicates=False, absent=True), "twice"),
    ],
)
def test_one_key(calls, verdict):
    assert judge(calls) == verdict
    assert judge_all([calls]) == verdict
    assert judge_all([CallsOnRecord(0, 0, deduplicates=True), calls]) == verdict
    assert verdict in SENT_WORDS


def test_two_keys_are_two_deliveries_whatever_deduplicates():
    confirmed, unknown = CallsOnRecord(1, 0, deduplicates=True), CallsOnRecord(0, 1, deduplicates=True)
    assert judge_all([confirmed, confirmed]) == "twice"
    assert judge_all([unknown, confirmed]) == "maybe_twice"
    assert judge_all([]) == "not_sent"

"""Decisions case by case: payments over several payouts, refunds that add up and fail, disputes, other currencies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.deciding import CONCERNS_AN_ORDER, PAYING, decide
from reminders.domain.settlement import CATEGORIES, OF_AN_ORDER, Order, SettlementLine

START = datetime(2026, 11, 20, tzinfo=UTC)
ORDER = Order("A", "shop", "user", Decimal("100.00"), "EUR", payout_expected_at=START)
INCOMING = {"charge", "refund_failure", "dispute_reversal", "payout_reversal"}


def line(number, category, gross, *, payout=1, currency="EUR", reference="A", charge="ch_1", hour=0):
    """A line; `payout` 0 is none yet. The amount is the absolute one."""
    value = Decimal(gross) if category in INCOMING else -Decimal(gross)
    return SettlementLine(
        line_id=f"txn_{number}",
        category=category,
        reported_as=category,
        currency=currency,
        gross=value,
        fee=Decimal(0),
        net=value,
        created_at=START + timedelta(hours=hour),
        payout_id=f"po_{payout}" if payout else "",
        payout_at=START + timedelta(days=payout) if payout else None,
        charge_id=charge,
        order_reference=reference,
    )


def told(*lines, order=ORDER):
    """The decisions as (name, payout or line, amount, total)."""
    found = decide(order, lines, now=START, grace=timedelta(0))
    return [(d.name, d.line_id or d.payout_id, str(d.amount), None if d.total is None else str(d.total)) for d in found]


def test_two_charges_of_one_payout_are_one_payment():
    assert told(line(1, "charge", "60.00"), line(2, "charge", "40.00")) == [("settled", "po_1", "100.00", None)]


def test_two_charges_in_two_payouts_are_judged_with_each():
    lines = line(1, "charge", "60.00"), line(2, "charge", "40.00", payout=2), line(3, "charge", "0.01", payout=3)
    assert told(*lines) == [
        ("short_paid", "po_1", "60.00", None),
        ("settled", "po_2", "100.00", None),
        ("over_paid", "po_3", "100.01", None),
    ]


def test_what_was_not_captured_is_no_refund():
    assert told(line(1, "charge", "120.00"), line(2, "partial_capture_reversal", "20.00")) == [
        ("settled", "po_1", "100.00", None)
    ]


def test_a_charge_that_fails_is_no_payment():
    assert told(line(1, "charge", "100.00"), line(2, "charge_failure", "100.00", hour=1)) == [
        ("failed", "txn_2", "100.00", None)
    ]
    assert told(line(1, "charge", "100.00"), line(2, "charge_failure", "100.00", payout=2)) == [
        ("settled", "po_1", "100.00", None),
        ("failed", "txn_2", "100.00", None),
    ]


def test_refunds_add_up_and_leave_the_payment_as_it_is():
    lines = (
        line(1, "charge", "100.00"),
        line(2, "refund", "20.00", hour=1),
        line(3, "refund", "30.00", hour=2),
        line(4, "refund_failure", "20.00", hour=3),
        line(5, "refund", "5.00", payout=2),
    )
    assert told(*lines) == [
        ("settled", "po_1", "100.00", None),
        ("refunded", "txn_2", "20.00", "20.00"),
        ("refunded", "txn_3", "30.00", "50.00"),
        ("refund_failed", "txn_4", "20.00", None),
        ("refunded", "txn_5", "5.00", "35.00"),
    ]


def test_disputes_leave_the_payment_as_it_is():
    lines = (
        line(1, "charge", "100.00"),
        line(2, "dispute", "100.00", hour=1),
        line(3, "dispute_reversal", "100.00", payout=2),
    )
    assert told(*lines) == [
        ("settled", "po_1", "100.00", None),
        ("disputed", "txn_2", "100.00", None),
        ("dispute_won", "txn_3", "100.00", None),
    ]


def test_another_currency_counts_for_nothing():
    lines = (
        line(1, "charge", "60.00"),
        line(2, "charge", "100.00", currency="USD"),
        line(3, "refund", "1.00", currency="USD"),
    )
    found = decide(ORDER, lines, now=START, grace=timedelta(0))
    assert told(*lines) == [
        ("short_paid", "po_1", "60.00", None),
        ("unknown_order", "txn_2", "100.00", None),
        ("unknown_order", "txn_3", "1.00", None),
    ]
    assert found[1].reason == "order A is in EUR, the line in USD"
    assert (found[1].order_reference, found[1].currency) == (None, "USD")


def test_a_line_that_is_in_no_payout_yet_is_no_payment():
    assert told(line(1, "charge", "60.00", payout=0), line(2, "refund", "5.00", payout=0, hour=1)) == [
        ("refunded", "txn_2", "5.00", "5.00")
    ]
    assert told(line(1, "charge", "60.00"), line(2, "charge", "40.00", payout=0)) == [
        ("short_paid", "po_1", "60.00", None)
    ]


def test_lines_without_an_order_say_why():
    lines = [
        line(1, "charge", "60.00", reference=None),
        line(2, "refund", "5.00", reference=None, charge="ch_9"),
        line(3, "refund", "6.00", reference=None, charge=None),
    ]
    reasons = [decide(None, [each], now=START, grace=timedelta(0))[0].reason for each in lines]
    assert reasons == [
        "the line names no order",
        "the line names no order, and neither does a line of its charge ch_9",
        "the line names no order",
    ]
    # A refund that names no order itself belongs to the order that its charge names.
    found = decide(
        None, [line(1, "charge", "60.00"), line(2, "refund", "5.00", reference=None)], now=START, grace=timedelta(0)
    )
    assert [(d.name, d.line_id, str(d.amount), d.reason) for d in found] == [
        ("unknown_order", "txn_1", "60.00", "nobody knows order A"),
        ("unknown_order", "txn_2", "5.00", "nobody knows order A"),
    ]


@pytest.mark.parametrize("category", sorted(set(CATEGORIES) - CONCERNS_AN_ORDER))
def test_what_concerns_no_order_gives_nothing_and_hides_nothing(category):
    other = line(9, category, "3.00")
    assert told(other, order=None) == []
    assert told(line(1, "charge", "100.00"), other) == told(line(1, "charge", "100.00"))
    overdue = decide(ORDER, [other], now=START + timedelta(days=1), grace=timedelta(0))
    assert [(d.name, d.payout_id, str(d.expected)) for d in overdue] == [("missing", "", "100.00")]


def test_a_payout_with_two_dates_is_one_payout():
    first, second = line(1, "charge", "60.00", payout=1), line(2, "charge", "40.00", payout=2)
    third = line(3, "charge", "1.00", payout=3)
    odd = SettlementLine(**{name: getattr(third, name) for name in SettlementLine.__slots__} | {"payout_id": "po_1"})
    assert told(first, second, odd) == [("short_paid", "po_1", "61.00", None), ("over_paid", "po_2", "101.00", None)]


cents = st.integers(1, 20000).map(lambda amount: Decimal(amount).scaleb(-2))
drawn_line = st.builds(
    line,
    number=st.integers(0, 10**6),
    category=st.sampled_from(CATEGORIES),
    gross=cents,
    payout=st.integers(0, 3),
    currency=st.sampled_from(["EUR", "EUR", "EUR", "USD"]),
    hour=st.integers(0, 3),
)
drawn_lines = st.lists(drawn_line, max_size=8, unique_by=lambda each: each.line_id)
drawn_order = st.sampled_from([ORDER, None])


def _decided(order, lines):
    return decide(order, lines, now=START, grace=timedelta(days=1))


@given(drawn_order, drawn_lines, st.randoms())
def test_the_order_of_lines_is_of_no_matter(order, lines, random):
    before = _decided(order, lines)
    shuffled = list(lines)
    random.shuffle(shuffled)
    assert _decided(order, shuffled) == before


@given(drawn_order, drawn_lines)
def test_no_two_decisions_have_one_identity(order, lines):
    identities = [
        (d.line_id, d.name) if d.line_id else (d.payout_id, d.order_reference) for d in _decided(order, lines)
    ]
    assert len(set(identities)) == len(identities)


@given(drawn_order, drawn_lines)
def test_each_line_that_concerns_an_order_is_accounted_for(order, lines):
    decisions = _decided(order, lines)
    by_line = {d.line_id for d in decisions if d.line_id}
    paid_until = {d.payout_id: d.amount for d in decisions if d.name in OF_AN_ORDER}
    for each in lines:
        counted = order is not None and each.currency == "EUR" and each.category in PAYING and each.payout_id
        assert each.category not in CONCERNS_AN_ORDER or counted or each.line_id in by_line or (not each.payout_id)
    if order is not None:
        last = max((each.payout_id for each in lines if each.currency == "EUR" and each.category in PAYING), default="")
        total = sum(
            (e.gross for e in lines if e.currency == "EUR" and e.category in PAYING and e.payout_id), Decimal(0)
        )
        if last:
            assert paid_until.get(last) == (total if total > 0 else None)


@given(drawn_order, drawn_lines, drawn_line)
def test_one_more_line_changes_only_what_it_concerns(order, lines, more):
    lines = [each for each in lines if each.line_id != more.line_id]
    before, after = _decided(order, lines), _decided(order, [*lines, more])
    gone = [d for d in before if d not in after]
    new = [d for d in after if d not in before]
    if more.category not in CONCERNS_AN_ORDER:
        assert not gone
        assert not new
        return
    later = {
        each.payout_id for each in lines if each.payout_at and (not more.payout_at or each.payout_at >= more.payout_at)
    }
    for d in [*gone, *new]:
        if d.line_id == more.line_id:
            continue
        if d.name in OF_AN_ORDER:
            assert order is not None
            assert more.category in PAYING
            assert more.currency == "EUR"
            assert d.payout_id in later | {more.payout_id}
        else:
            assert d.name == "refunded"
            assert more.category in {"refund", "refund_failure"}

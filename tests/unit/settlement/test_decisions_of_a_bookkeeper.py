"""The decisions that a bookkeeper made by hand, from the sample file and an orders table of our own."""

from __future__ import annotations

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

from reminders.domain.deciding import decide
from reminders.domain.settlement import Decision, Order
from reminders.intake.settlement.stripe import stripe_format

SAMPLE = Path(__file__).parents[2] / "data/settlement/payout_2026-11-27.csv"
NOW = datetime(2026, 12, 1, 6, tzinfo=UTC)
GRACE = timedelta(days=3)
EXPECTED_AT = datetime(2026, 11, 27, tzinfo=UTC)


def _order(number, amount, currency="EUR", *, expected_at=EXPECTED_AT):
    return Order(f"order-{number}", "shop", f"user-{number}", Decimal(amount), currency, payout_expected_at=expected_at)


ORDERS = {
    order.reference: order
    for order in [
        _order(1001, "49.90"),
        _order(1002, "120.00"),
        _order(1003, "15.00"),
        _order(1004, "4980", "JPY"),
        _order(1006, "49.90"),
        _order(1007, "23.50"),
    ]
}
PAYOUT = "po_0001"
# What was ordered, what came in, and what a bookkeeper notes.
BY_HAND = [
    Decision("settled", "order-1001", None, PAYOUT, "EUR", Decimal("49.90"), expected=Decimal("49.90")),
    Decision("settled", "order-1002", None, PAYOUT, "EUR", Decimal("120.00"), expected=Decimal("120.00")),
    Decision("refunded", "order-1002", "txn_0004", PAYOUT, "EUR", Decimal("20.00"), Decimal("20.00"), Decimal("120.00")),
    Decision("settled", "order-1003", None, PAYOUT, "EUR", Decimal("15.00"), expected=Decimal("15.00")),
    Decision("disputed", "order-1003", "txn_0006", PAYOUT, "EUR", Decimal("15.00"), expected=Decimal("15.00")),
    Decision("settled", "order-1004", None, PAYOUT, "JPY", Decimal(4980), expected=Decimal(4980)),
    Decision("short_paid", "order-1006", None, PAYOUT, "EUR", Decimal("49.00"), expected=Decimal("49.90")),
    Decision("missing", "order-1007", None, "", "EUR", Decimal(0), expected=Decimal("23.50")),
    Decision("unknown_order", None, "txn_0007", PAYOUT, "EUR", Decimal("79.00"), reason="the line names no order"),
]  # fmt: skip


def _lines_of_the_sample():
    form = stripe_format()
    cutter = form.cutter()
    pages = cutter.feed(SAMPLE.read_bytes()) + cutter.finish()
    return [line for page in pages for line in form.read_page(form.read_header(cutter.header), page)]


def test_the_sample_file_gives_what_a_bookkeeper_notes():
    groups = defaultdict(list)
    for line in _lines_of_the_sample():
        groups[line.order_reference or line.line_id].append(line)
    decisions = [d for key, lines in groups.items() for d in decide(ORDERS.get(key), lines, now=NOW, grace=GRACE)]
    for reference in ORDERS.keys() - groups.keys():
        decisions += decide(ORDERS[reference], [], now=NOW, grace=GRACE)
    assert sorted(decisions, key=repr) == sorted(BY_HAND, key=repr)


def test_the_sample_adds_up_to_its_payout():
    lines = _lines_of_the_sample()
    euros = [line.net for line in lines if line.currency == "EUR"]
    assert sum(euros) == 0
    assert sum(line.net for line in lines if line.category == "payout") == Decimal("-254.00")
    by_word = {
        word: sum(line.gross for line in lines if line.reported_as == word) for word in ("other_adjustment", "fee")
    }
    assert by_word == {"other_adjustment": Decimal("0.10"), "fee": Decimal("-3.00")}


def test_missing_is_said_only_after_the_grace():
    late = EXPECTED_AT + GRACE
    assert decide(ORDERS["order-1007"], [], now=late, grace=GRACE) == []
    (decision,) = decide(ORDERS["order-1007"], [], now=late + timedelta(microseconds=1), grace=GRACE)
    assert decision.name == "missing"
    assert decide(_order(1008, "5.00", expected_at=None), [], now=datetime.max.replace(tzinfo=UTC), grace=GRACE) == []

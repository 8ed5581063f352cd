"""Words of reconciliation: what a payment provider settled, what was ordered, and what follows from the two.

Amounts are `Decimal` in the currency's major unit, with the sign that the provider's balance sees: money that comes in
is positive. Instants are UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, get_args

Category = Literal[
    "charge",
    "charge_failure",
    "partial_capture_reversal",
    "refund",
    "refund_failure",
    "dispute",
    "dispute_reversal",
    "payout",
    "payout_reversal",
    "other",
]
"""What a line is about. `other` (fees, transfers, adjustments) concerns no order: it is summed and nothing follows."""
CATEGORIES: tuple[Category, ...] = get_args(Category)

DecisionName = Literal[
    "settled",
    "short_paid",
    "over_paid",
    "refunded",
    "refund_failed",
    "disputed",
    "dispute_won",
    "failed",
    "unknown_order",
    "missing",
]
DECISIONS: tuple[DecisionName, ...] = get_args(DecisionName)
OF_AN_ORDER: frozenset[DecisionName] = frozenset({"settled", "short_paid", "over_paid", "missing"})
"""Decisions that are made once for an order and a payout; the others are made for a line each."""


@dataclass(frozen=True, slots=True)
class SettlementLine:
    """One line of a settlement file.

    `line_id` is the provider's own and unique within a source; `reported_as` the file's word for the category;
    `order_reference` what the line itself says of its order, if it does. `created_at` and `payout_at` are UTC.
    """

    line_id: str
    category: Category
    reported_as: str
    currency: str
    gross: Decimal
    fee: Decimal
    net: Decimal
    created_at: datetime
    payout_id: str
    payout_at: datetime | None = None
    source_id: str | None = None
    charge_id: str | None = None
    payment_id: str | None = None
    order_reference: str | None = None
    at: int = field(default=0, compare=False)
    """The physical line of the file that it was read from, counted from 1; 0 where that is not known."""


@dataclass(frozen=True, slots=True)
class Order:
    """An order as the application's matcher knows it.

    `amount` is what was to be paid, in `currency` (ISO 4217, three capital letters): not negative, and without other digits
    than the currency has. `destinations` names the user's
    destination by channel. `zone` is the user's IANA zone. `payout_expected_at` is when the provider should have paid
    it out by; None if nothing is to be missed.
    """

    reference: str
    tenant_id: str
    user_id: str
    amount: Decimal
    currency: str
    destinations: Mapping[str, str] = field(default_factory=dict, repr=False)
    zone: str | None = None
    payout_expected_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from an order and its lines.

    `amount` is the line's own (positive: what was refunded, disputed, failed), or for an order what was paid up to and
    with this payout. `total` is what has been refunded of the order up to and with this line, for `refunded`;
    `expected` the order's amount. `payout_id` is empty for `missing`. `line_id` is None for decisions of an order.
    `order_reference` is None where no order is known, and `reason` then says why not.
    """

    name: DecisionName
    order_reference: str | None
    line_id: str | None
    payout_id: str
    currency: str
    amount: Decimal
    total: Decimal | None = None
    expected: Decimal | None = None
    reason: str | None = None

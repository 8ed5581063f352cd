"""Stripe's payout reconciliation report, itemized: `payout_reconciliation.itemized.*`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache

from reminders.domain.money import DecimalSeparator
from reminders.domain.settlement import Category
from reminders.intake.settlement.column_format import ColumnFormat
from reminders.intake.settlement.line_reading import Values, checked_year

ORDER_REFERENCE = "payment_metadata[order_id]"
# Source: https://docs.stripe.com/reports/reporting-categories and the values of `reporting_category` in the API's
# parameters of a report run, read 2026-11. A word that is not here is `other` too, and kept as it is.
CATEGORIES: Mapping[str, Category] = {
    "charge": "charge",
    "charge_failure": "charge_failure",
    "partial_capture_reversal": "partial_capture_reversal",
    "refund": "refund",
    "refund_failure": "refund_failure",
    "dispute": "dispute",
    "dispute_reversal": "dispute_reversal",
    "payout": "payout",
    "payout_reversal": "payout_reversal",
    **dict.fromkeys(
        (
            "advance",
            "advance_funding",
            "anticipation_repayment",
            "climate_order_purchase",
            "climate_order_refund",
            "connect_collection_transfer",
            "connect_reserved_funds",
            "contribution",
            "fee",
            "financing_paydown",
            "financing_paydown_reversal",
            "financing_payout",
            "financing_payout_reversal",
            "issuing_authorization_hold",
            "issuing_authorization_release",
            "issuing_dispute",
            "issuing_transaction",
            "network_cost",
            "other_adjustment",
            "platform_earning",
            "platform_earning_refund",
            "risk_reserved_funds",
            "tax",
            "topup",
            "topup_reversal",
            "transfer",
            "transfer_reversal",
            "unreconciled_customer_funds",
        ),
        "other",
    ),
}
_COLUMNS = {
    "line_id": "balance_transaction_id",
    "category": "reporting_category",
    "currency": "currency",
    "gross": "gross",
    "fee": "fee",
    "net": "net",
    "created_at": "created_utc",
    "payout_id": "automatic_payout_id",
    "payout_at": "automatic_payout_effective_at_utc",
    "source_id": "source_id",
    "charge_id": "charge_id",
    "payment_id": "payment_intent_id",
}
_TIME_LENGTH = len("2026-11-27 00:00:00")


def stripe_format(
    order_reference_column: str = ORDER_REFERENCE,
    decimal_separator: DecimalSeparator = "auto",
    delimiter: str = ",",
) -> ColumnFormat:
    """The format, with the column that names an account's orders. The other columns may stand in any order."""
    values = Values(
        categories=CATEGORIES,
        read_created_at=_instant,
        read_payout_at=lru_cache(maxsize=1024)(_instant),
        decimal_separator=decimal_separator,
        columns={**_COLUMNS, "order_reference": order_reference_column},
    )
    return ColumnFormat("stripe", values, optional=frozenset({"source_id", "payment_id"}), delimiter=delimiter)


def _instant(text: str) -> datetime:
    """`YYYY-MM-DD HH:MM:SS`, which Stripe means in UTC in the columns that end in `_utc`."""
    if len(text) == _TIME_LENGTH and text[4] == text[7] == "-" and text[10] == " " and text[13] == text[16] == ":":
        try:
            return checked_year(datetime.fromisoformat(f"{text}+00:00"))
        except ValueError as error:
            raise ValueError(f"{text!r} is no instant: {error}") from None
    raise ValueError(f"{text[: _TIME_LENGTH + 5]!r} is no instant; write 2026-11-27 00:00:00, in UTC")

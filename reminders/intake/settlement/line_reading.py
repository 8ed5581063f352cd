"""One settlement line from the texts of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import TypeAlias

from reminders.domain.money import (
    DecimalSeparator,
    amount_of_digits,
    amount_of_minor_units,
    amount_text,
    digits_of,
    less,
    negative,
)
from reminders.domain.request import FIRST_YEAR, LAST_YEAR, LIMITS
from reminders.domain.settlement import Category, SettlementLine
from reminders.intake.records import Reject

FIELDS = (
    "line_id",
    "category",
    "currency",
    "gross",
    "fee",
    "net",
    "created_at",
    "payout_id",
    "payout_at",
    "source_id",
    "charge_id",
    "payment_id",
    "order_reference",
    "gross_debit",
    "net_debit",
)
"""What a row can hold, in the order in which `LineReader.read` takes it.

A file that has one column for what comes in and one for what goes out has the latter as `gross_debit`.
"""
LONGEST_ID = 255
"""In characters. An order's reference may be as long as a reminder's."""
ReadInstant: TypeAlias = Callable[[str], datetime]
_INCOMING: frozenset[Category] = frozenset({"charge", "refund_failure", "dispute_reversal"})
_OUTGOING: frozenset[Category] = frozenset({"refund", "dispute", "charge_failure", "partial_capture_reversal"})
_ZERO = Decimal(0)


class _Fault(ValueError):
    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


@dataclass(frozen=True)
class Values:
    """How the texts of a format are read.

    `categories` gives the category of the provider's words; any other word is `other`, and kept. `digits` are those of
    currencies that the provider counts otherwise than ISO 4217. Amounts of lines whose word is in `unsigned` are
    written without the minus that they mean. `columns` names the fields in what is said of a rejected line.
    """

    categories: Mapping[str, Category]
    read_created_at: ReadInstant
    read_payout_at: ReadInstant
    decimal_separator: DecimalSeparator = "auto"
    in_minor_units: bool = False
    digits: Mapping[str, int] = field(default_factory=dict)
    unsigned: frozenset[str] = frozenset()
    fees_are_negative: bool = False
    columns: Mapping[str, str] = field(default_factory=dict)


class LineReader:
    """Reads rows of one format. Remembers the currencies it met."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._categories = values.categories
        self._read_amount = _amount_reader(values)
        self._currencies: dict[str, tuple[str, int]] = {}
        self._has_net = "net" in values.columns

    def read(self, number: int, texts: Sequence[str]) -> SettlementLine | Reject:
        """The line in a row that begins in physical line `number`, or why there is none.

        `texts` are those of `FIELDS`, without blanks around them, empty where there is nothing.
        """
        (
            line_id, word, currency_text, gross_text, fee_text, net_text, created_text, payout_id, payout_text,
            source_id, charge_id, payment_id, reference, gross_debit, net_debit,
        ) = texts  # fmt: skip
        at = "line_id"
        try:
            ids = f"{line_id}{word}{payout_id}{source_id}{charge_id}{payment_id}{reference}"
            if not line_id or not word or len(ids) > LONGEST_ID or not ids.isprintable():
                _check_ids(dict(zip(FIELDS, texts, strict=True)))
            at = "currency"
            if (known := self._currencies.get(currency_text)) is None:
                known = self._currencies[currency_text] = self._currency(currency_text)
            currency, digits = known
            category = self._categories.get(word, "other")
            at = "gross"
            gross = (
                self._read_amount(gross_text, digits)
                if not gross_debit
                else self._both(gross_text, gross_debit, digits)
            )
            at = "fee"
            fee = self._read_amount(fee_text, digits) if fee_text else None
            at = "net"
            net = self._net(net_text, net_debit, digits)
            if self._values.unsigned and word in self._values.unsigned:
                gross, net = negative(gross), None if net is None else negative(net)
            if fee is not None and self._values.fees_are_negative:
                fee = negative(fee)
            at = "gross"
            fee, net = self._completed(gross, fee, net, currency)
            if (gross < 0 and category in _INCOMING) or (gross > 0 and category in _OUTGOING):
                raise ValueError(_wrong_way(category, gross, currency))
            at = "created_at"
            created_at = self._values.read_created_at(created_text)
            at = "payout_at"
            payout_at = self._values.read_payout_at(payout_text) if payout_text else None
        except ValueError as error:
            at = error.field if isinstance(error, _Fault) else at
            return Reject(number, self._values.columns.get(at, at), str(error))
        return SettlementLine(
            line_id,
            category,
            word,
            currency,
            gross,
            fee,
            net,
            created_at,
            payout_id,
            payout_at,
            source_id or None,
            charge_id or None,
            payment_id or None,
            reference or None,
            number,
        )

    def _currency(self, text: str) -> tuple[str, int]:
        code = text.upper()
        if not text:
            raise ValueError("is empty; write EUR, USD, JPY or another of ISO 4217")
        return code, self._values.digits[code] if code in self._values.digits else digits_of(code)

    def _both(self, credit: str, debit: str, digits: int) -> Decimal:
        """What came in without what went out; one of the two texts may be empty."""
        incoming = self._read_amount(credit, digits) if credit else _ZERO
        return less(incoming, self._read_amount(debit, digits) if debit else _ZERO)

    def _net(self, text: str, debit: str, digits: int) -> Decimal | None:
        if debit:
            return self._both(text, debit, digits)
        return self._read_amount(text, digits) if text else None

    def _completed(
        self, gross: Decimal, fee: Decimal | None, net: Decimal | None, currency: str
    ) -> tuple[Decimal, Decimal]:
        """Fee and net, of which the file may say one, or no fee at all. Both, if it says both, must agree."""
        if fee is None:
            if net is None and self._has_net:
                raise _Fault("net", "is empty, and so is the fee; one of the two must be there")
            net = gross if net is None else net
            return less(gross, net), net
        without_fee = less(gross, fee)
        if net is not None and net != without_fee:
            says = f"{amount_text(net, currency)} is not gross less fee, which is {amount_text(without_fee, currency)}"
            raise _Fault("net", says)
        return fee, without_fee if net is None else net


def _amount_reader(values: Values) -> Callable[[str, int], Decimal]:
    if values.in_minor_units:
        return amount_of_minor_units
    if values.decimal_separator == "auto":
        return amount_of_digits
    return partial(amount_of_digits, decimal_separator=values.decimal_separator)


def checked_year(instant: datetime) -> datetime:
    """`instant` if Postgres and Python both keep it through every zone. Raises `ValueError`."""
    if not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise ValueError(f"is in the year {instant.year}; years {FIRST_YEAR} to {LAST_YEAR} are allowed")
    return instant


def _wrong_way(category: Category, gross: Decimal, currency: str) -> str:
    direction = "brings" if category in _INCOMING else "takes"
    return f"{amount_text(gross, currency)} has the wrong sign: a line of category {category} {direction} money"


def _check_ids(texts: Mapping[str, str]) -> None:
    for name in ("line_id", "category", "payout_id", "source_id", "charge_id", "payment_id", "order_reference"):
        text = texts[name]
        longest = LIMITS["reference"] if name == "order_reference" else LONGEST_ID
        if not text and name in {"line_id", "category"}:
            raise _Fault(name, "is empty")
        if len(text) > longest:
            raise _Fault(name, f"has {len(text):,} characters; at most {longest:,} are allowed")
        if not text.isprintable():
            raise _Fault(name, "contains a character that cannot be printed")

"""Every text gives one exact amount, or is refused with what to do."""

from __future__ import annotations

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.domain.money import (
    DECIMAL_SEPARATORS,
    added,
    amount,
    amount_of_minor_units,
    amount_text,
    digits_of,
    less,
    negative,
)


@pytest.mark.parametrize(
    ("text", "currency", "meant"),
    [
        ("49.90", "EUR", "49.90"),
        ("49,90", "EUR", "49.90"),
        ("-20,00", "EUR", "-20.00"),
        ("+5", "USD", "5"),
        ("  0.10\t", "EUR", "0.10"),
        ("0049.9", "EUR", "49.9"),
        ("4980", "JPY", "4980"),
        ("-4980", "JPY", "-4980"),
        ("4980.00", "JPY", "4980"),
        ("500.00", "ISK", "500"),
        ("1.234", "KWD", "1.234"),
        ("1,234", "KWD", "1.234"),
        ("-0.001", "KWD", "-0.001"),
        ("49.9000", "EUR", "49.90"),
        ("999999999999999.99", "EUR", "999999999999999.99"),
        ("5", "HRK", "5"),
    ],
)
def test_what_a_text_means(text, currency, meant):
    assert amount(text, currency, decimal_separator="auto") == Decimal(meant)


@pytest.mark.parametrize(
    ("text", "currency", "advice"),
    [
        ("", "EUR", "write 0"),
        ("   ", "EUR", "write 0"),
        ("1,234.56", "EUR", "without"),
        ("1.234,56", "EUR", "without"),
        ("1,234,567", "EUR", "without"),
        ("1.000", "EUR", "separates thousands, leave it out"),
        ("4,980", "JPY", "separates thousands, leave it out"),
        ("4.980", "JPY", "its currency none"),
        ("4980.5", "JPY", "its currency none"),
        ("49.901", "EUR", "its currency 2"),
        ("1.2345", "KWD", "its currency 3"),
        ("1 234.56", "EUR", "without thousands separators"),
        ("1\u00a0234", "EUR", "without thousands separators"),
        ("1'234", "CHF", "without thousands separators"),
        ("1_000", "EUR", "without thousands separators"),
        ("- 5.00", "EUR", "without thousands separators"),
        ("1e5", "EUR", "without exponent"),
        ("NaN", "EUR", "digits only"),
        ("Infinity", "EUR", "digits only"),
        ("0x10", "EUR", "digits only"),
        ("€5", "EUR", "digits only"),
        ("5.00 EUR", "EUR", "without"),
        ("٣", "EUR", "0 to 9"),
        ("１.50", "EUR", "0 to 9"),
        ("²", "EUR", "0 to 9"),
        ("--5", "EUR", "in front"),
        ("5-", "EUR", "in front"),
        ("(5.00)", "EUR", "in front"),
        ("\u22125.00", "EUR", "in front"),
        (".50", "EUR", "write 0.50"),
        ("5.", "EUR", "write 0.50"),
        ("-", "EUR", "write 0.50"),
        ("1" * 16, "EUR", "more than 15 digits"),
        ("5", "XXX", "ISO 4217"),
        ("5", "eur", "ISO 4217"),
    ],
)
def test_what_is_refused_says_what_to_do(text, currency, advice):
    with pytest.raises(ValueError, match=advice.replace("(", r"\(")):
        amount(text, currency, decimal_separator="auto")


def test_a_stated_separator_is_the_only_one():
    assert amount("1.000", "EUR", decimal_separator=".") == 1
    assert amount("1,000", "EUR", decimal_separator=",") == 1
    with pytest.raises(ValueError, match=r"has ',', but decimal_separator is '\.'"):
        amount("49,90", "EUR", decimal_separator=".")
    with pytest.raises(ValueError, match=r"has '\.', but decimal_separator is ','"):
        amount("49.90", "EUR", decimal_separator=",")


def test_minus_nothing_is_nothing():
    assert str(amount("-0.00", "EUR")) == "0.00"
    assert str(negative(Decimal("0.00"))) == "0.00"


def test_minor_units():
    assert amount_of_minor_units("-4990", 2) == Decimal("-49.90")
    assert amount_of_minor_units("4980", 0) == Decimal(4980)
    assert amount_of_minor_units("1", 3) == Decimal("0.001")
    with pytest.raises(ValueError, match="minor units here"):
        amount_of_minor_units("49.90", 2)


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [("49.9", "EUR", "49.90"), ("49.9000", "EUR", "49.90"), ("4980.00", "JPY", "4980"), ("1", "KWD", "1.000"),
     ("0.005", "EUR", "0.005"), ("1E+2", "EUR", "100.00"), ("-3", "EUR", "-3.00"), ("5.5", "XXX", "5.5")],
)  # fmt: skip
def test_amounts_as_people_write_them(value, currency, text):
    assert amount_text(Decimal(value), currency) == text


@given(st.text(max_size=12) | st.text("0123456789.,-+ eE'", max_size=12), st.sampled_from(["EUR", "JPY", "KWD"]), st.sampled_from(DECIMAL_SEPARATORS))  # fmt: skip
def test_a_text_is_exact_or_refused(text, currency, separator):
    try:
        found = amount(text, currency, decimal_separator=separator)
    except ValueError as error:
        found = str(error)
    if isinstance(found, str):
        assert 0 < len(found.strip()) < 300
        return
    assert found.is_finite()
    assert found == found.quantize(Decimal(1).scaleb(-digits_of(currency)))
    assert Decimal(text.strip().replace(",", ".")) == found


@given(st.integers(-(10**14), 10**14), st.sampled_from(["EUR", "JPY", "KWD"]), st.sampled_from(DECIMAL_SEPARATORS))
def test_what_is_written_is_read_back(minor, currency, separator):
    value = Decimal(minor).scaleb(-digits_of(currency))
    text = amount_text(value, currency).replace(".", "." if separator == "auto" else separator)
    assert amount(text, currency, decimal_separator=separator) == value


def test_sums_are_exact_whatever_the_application_does_with_decimals():
    with localcontext() as context:
        context.prec = 3
        total = Decimal(0)
        for _ in range(1000):
            total = added(total, Decimal("999999999.99"))
        assert total == Decimal("999999999990.00")
        assert less(total, Decimal("0.01")) == Decimal("999999999989.99")
        assert negative(Decimal("-123456.78")) == Decimal("123456.78")
        assert amount("123456.78", "EUR") == Decimal("123456.78")
        assert amount("-123456.78", "EUR") == Decimal("-123456.78")
        assert amount_text(Decimal("123456.7"), "EUR") == "123456.70"

"""Amounts of money as files write them, to exact decimals and back.

Nothing is rounded and nothing is guessed: a text gives the one amount it can mean, or is refused with what to do.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, Context, Decimal, FloatOperation, Inexact, InvalidOperation
from typing import Literal, TypeAlias, get_args

DecimalSeparator: TypeAlias = Literal["auto", ".", ","]
"""`auto` takes either, where a text has one of them once."""
DECIMAL_SEPARATORS: tuple[DecimalSeparator, ...] = get_args(DecimalSeparator)
MOST_WHOLE_DIGITS = 15
"""Digits before the decimal separator. A million such amounts still add up exactly."""

# Source: ISO 4217 as its maintenance agency published it on 2026-01-01. Left out is what nobody pays with: metals,
# testing codes, funds codes, drawing rights.
_NO_DIGITS = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF"
_TWO_DIGITS = (
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY COP CRC CUP "
    "CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES "
    "KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK "
    "NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB "
    "TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG"
)
_THREE_DIGITS = "BHD IQD JOD KWD LYD OMR TND"
_WITHDRAWN_WITH_TWO = "ANG BGN CUC HRK SLL ZWL"
"""Since 2020: files of those years are still read."""
_DIGITS: dict[str, int] = {
    code: digits
    for digits, codes in ((0, _NO_DIGITS), (2, _TWO_DIGITS), (3, _THREE_DIGITS), (2, _WITHDRAWN_WITH_TWO))
    for code in codes.split()
}
_EXACT = Context(prec=60, rounding=ROUND_DOWN, traps=[Inexact, InvalidOperation, FloatOperation])
_SHOWN = 40
_AMBIGUOUS = 3
"""Digits after a separator that may as well separate thousands."""


def digits_of(currency: str) -> int:
    """Digits of a currency's minor unit: 2 for EUR, 0 for JPY, 3 for KWD.

    `currency` is its code in capitals. Raises `ValueError` for one that ISO 4217 does not list.
    """
    try:
        return _DIGITS[currency]
    except KeyError:
        raise ValueError(f"{currency[:_SHOWN]!r} is no currency of ISO 4217, such as EUR, USD or JPY") from None


def amount(text: str, currency: str, *, decimal_separator: DecimalSeparator = "auto") -> Decimal:
    """The amount in major units that `text` says, exactly. Raises `ValueError` that says what is wrong and what to do.

    A leading sign, and blanks around, are allowed; thousands separators, exponents, brackets and other digits than 0 to
    9 are not. Digits beyond the currency's must be zeros, as in `500.00` for ISK.
    """
    return amount_of_digits(text.strip(), digits_of(currency), decimal_separator)


def amount_of_digits(text: str, digits: int, decimal_separator: DecimalSeparator = "auto") -> Decimal:
    """As `amount`, for a currency with so many digits, of a text without blanks around it."""
    whole, point, fraction = text.partition(".")
    if whole.isdigit() and (fraction.isdigit() or not point) and len(fraction) <= digits and text.isascii():
        # Nearly every amount, and files have millions of them.
        if len(whole) <= MOST_WHOLE_DIGITS and (decimal_separator != "," or not point):
            return Decimal(text)
        raise ValueError(_refusal(text, digits, decimal_separator))
    return _unusual_amount(text, digits, decimal_separator)


def _unusual_amount(text: str, digits: int, decimal_separator: DecimalSeparator) -> Decimal:
    plain = text
    comma = "," in plain
    if comma if decimal_separator == "." else (comma or decimal_separator == ",") and "." in plain:
        raise ValueError(_refusal(text, digits, decimal_separator))
    if comma:
        plain = plain.replace(",", ".")
    whole, point, fraction = plain.partition(".")
    unsigned = whole[1:] if whole.startswith(("-", "+")) else whole
    if (
        not unsigned.isdigit()
        or not plain.isascii()
        or len(unsigned) > MOST_WHOLE_DIGITS
        or (point and not fraction.isdigit())
        or (len(fraction) > digits and not _only_zeros_more(fraction, digits, decimal_separator))
    ):
        raise ValueError(_refusal(text, digits, decimal_separator))
    value = Decimal(plain)
    return value or value.copy_abs()


def amount_of_minor_units(text: str, digits: int) -> Decimal:
    """The amount in major units that `text` says in minor ones: 4990 for 49.90 EUR. Raises `ValueError`."""
    try:
        return amount_of_digits(text, 0, ".").scaleb(-digits, _EXACT)
    except ValueError as error:
        raise ValueError(f"{error}; amounts are in minor units here, without a decimal separator") from None


def amount_text(amount: Decimal, currency: str) -> str:
    """As people write it, with the digits of its currency, or with more if it has more: `49.90`, `4980`."""
    digits = _DIGITS.get(currency, 0)
    try:
        return format(amount.quantize(Decimal(1).scaleb(-digits), context=_EXACT), "f")
    except (Inexact, InvalidOperation):
        return format(amount, "f")


def has_more_digits(amount: Decimal, currency: str) -> bool:
    """Whether a finite amount has other digits than zeros behind those of its currency; never, of one that is not known."""
    digits, exponent = amount.as_tuple().digits, amount.as_tuple().exponent
    more = -int(exponent) - _DIGITS.get(currency, -int(exponent))
    return more > 0 and any(digits[-more:])


def added(first: Decimal, second: Decimal) -> Decimal:
    """Their sum, exactly, whatever decimal context the application has set."""
    return _EXACT.add(first, second)


def less(first: Decimal, second: Decimal) -> Decimal:
    """The first without the second, exactly."""
    return _EXACT.subtract(first, second)


def negative(amount: Decimal) -> Decimal:
    """The same amount with the other sign, exactly; zero has none."""
    return _EXACT.minus(amount)


def _only_zeros_more(fraction: str, digits: int, decimal_separator: DecimalSeparator) -> bool:
    # 1.000 of a currency with two digits may be a thousand, unless somebody has said what a point means.
    return not fraction[digits:].strip("0") and (len(fraction) != _AMBIGUOUS or decimal_separator != "auto")


def _refusal(text: str, digits: int, decimal_separator: DecimalSeparator) -> str:
    """What is wrong with a text that is no amount, and what to do about it."""
    if not text:
        return "is empty; write 0 if there is none"
    shown = repr(text) if len(text) <= _SHOWN else f"{text[:_SHOWN]!r}..."
    return f"{shown} {_fault(text, digits, decimal_separator)}"


def _fault(text: str, digits: int, decimal_separator: DecimalSeparator) -> str:
    unsigned = text[1:] if text.startswith(("-", "+")) else text
    separators = [character for character in unsigned if character in ".,"]
    if any(character.isdigit() and not character.isascii() for character in text):
        return "has digits other than 0 to 9"
    if unsigned[:1] in {"-", "+", "\N{MINUS SIGN}", "("} or unsigned[-1:] in {"-", "+", ")"}:
        return "has a sign we do not read; write one - or + in front, as -12.50"
    if any(
        character in " _'\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{RIGHT SINGLE QUOTATION MARK}"
        for character in unsigned
    ):
        return "has a blank or mark between its digits; write it without thousands separators, as 1234.56"
    if not all(character.isdigit() or character in ".," for character in unsigned):
        return "is no plain number; write digits only, without exponent, currency or letters, as 1234.56"
    if len(separators) > 1:
        return "has a thousands separator; write it without, as 1234.56"
    if separators and decimal_separator not in {"auto", separators[0]}:
        return f"has {separators[0]!r}, but decimal_separator is {decimal_separator!r}; correct the one or the other"
    whole, _, fraction = unsigned.replace(",", ".").partition(".")
    if not whole or (separators and not fraction):
        return "has no digit on one side of its decimal separator; write 0.50 or 5"
    if len(whole) > MOST_WHOLE_DIGITS:
        return f"has more than {MOST_WHOLE_DIGITS} digits before the decimal separator"
    has = f"has {len(fraction)} digits after {separators[0]!r}, its currency {digits or 'none'}"
    return f"{has}; if {separators[0]!r} separates thousands, leave it out" if len(fraction) == _AMBIGUOUS else has

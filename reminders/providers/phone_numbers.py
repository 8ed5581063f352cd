"""Telephone numbers as destinations: E.164 (ITU-T) and nothing else, so that one number has one spelling.

A spelling is part of a reminder's identity, of its destination's state and of suppressions: it is refused rather than
rewritten.
"""

from __future__ import annotations

from reminders.domain.errors import InvalidInput

_HOW = "write + and all digits from the country code on, as in +4915112345678"


def check_number(text: str) -> None:
    """Raise `InvalidInput("destination", ...)` unless `text` is a valid number, spelled as E.164 spells it.

    Valid is what the numbering plans say that `phonenumbers` carries: of a possible length, in a range that is in use.
    """
    import phonenumbers  # noqa: PLC0415 (40 ms, for this channel only)

    if not isinstance(text, str) or len(text) > 60:
        raise InvalidInput("destination", f"is no telephone number; {_HOW}")
    try:
        number = phonenumbers.parse(text, None)
    except phonenumbers.NumberParseException:
        raise InvalidInput("destination", f"is no telephone number in full international form; {_HOW}") from None
    if not (phonenumbers.is_possible_number(number) and phonenumbers.is_valid_number(number)):
        raise InvalidInput("destination", f"is no number that its country's numbering plan knows; {_HOW}")
    e164 = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.E164)
    if text != e164:
        raise InvalidInput("destination", f"must be spelled {e164}: numbers are not rewritten, since they identify")

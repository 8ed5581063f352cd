"""Destinations of channel `sms`: E.164 and nothing else."""

from __future__ import annotations

import pytest

from reminders.domain.errors import InvalidInput
from reminders.providers.sms import SmsProvider
from reminders.settings import Settings

PROVIDER = SmsProvider(Settings())


@pytest.mark.parametrize(
    "number",
    ["+4915123456789", "+12015550123", "+447400123456", "+33612345678", "+918123456789", "+61412345678", "+5511961234567", "+390612345678"],
)  # fmt: skip
def test_a_valid_number_is_taken_as_it_is(number):
    PROVIDER.check_destination(number)


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("+49 1511 2345678", "+4915112345678"),
        ("+49(0)15112345678", "+4915112345678"),
        ("+1-800-356-9377", "+18003569377"),
        ("+1-800-FLOWERS", "+18003569377"),
        ("tel:+4915112345678", "+4915112345678"),
        ("+4915112345678;ext=3", "+4915112345678"),
        ("+4915112345678\n", "+4915112345678"),
        (" +4915112345678", "+4915112345678"),
        ("\uff0b4915112345678", "+4915112345678"),
        ("+49\u0661511234567\u0668", "+4915112345678"),
        ("+4415", None),
    ],
)
def test_another_spelling_is_refused_and_told_the_form(written, form):
    with pytest.raises(InvalidInput) as refusal:
        PROVIDER.check_destination(written)
    assert refusal.value.field == "destination"
    if form is not None:
        assert refusal.value.reason.startswith(f"must be spelled {form}:")


@pytest.mark.parametrize(
    "written",
    ["", "+", "0151 12345678", "015112345678", "004915112345678", "4915112345678", "call me", "+999123456789", "+1", "+12",
     "a@example.com", "https://example.com", "\ud800", "\0", "+" + "1" * 5000, "12345", None, 4915112345678],
)  # fmt: skip
def test_what_is_no_international_number_is_refused_with_what_to_write(written):
    with pytest.raises(InvalidInput, match=r"^destination: .*write \+ and all digits from the country code on"):
        PROVIDER.check_destination(written)


@pytest.mark.parametrize("written", ["+15551234567", "+491", "+49151123456789012", "+4400000000000"])
def test_what_no_numbering_plan_knows_is_refused(written):
    with pytest.raises(InvalidInput, match=r"^destination: "):
        PROVIDER.check_destination(written)

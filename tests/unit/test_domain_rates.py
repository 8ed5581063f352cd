"""Rates as people write them."""

import pytest

from reminders.domain.rates import parse_rate


@pytest.mark.parametrize(
    ("text", "per_second"),
    [("10/s", 10.0), ("300/m", 5.0), ("36/h", 0.01), ("0.5/s", 0.5), (" 1 / m ", 1 / 60), ("999999/s", 999999.0)],
)
def test_a_rate_is_a_number_per_second_minute_or_hour(text, per_second):
    assert parse_rate(text) == pytest.approx(per_second)


@pytest.mark.parametrize(
    "text", ["", "10", "/s", "0/s", "0.0/m", "-1/s", "1/d", "1e3/s", "1_0/s", "nan/s", "\u0661/s", "1/s/s"]
)
def test_everything_else_is_refused(text):
    with pytest.raises(ValueError, match="is no rate; write 10/s"):
        parse_rate(text)

"""Durations as people write them."""

from __future__ import annotations

import pytest

from reminders.domain.durations import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("5m", 300), ("2h", 7200), ("7d", 604800), ("15", 15), ("250ms", 0.25), ("1.5h", 5400), (" 10 s ", 10), ("0", 0)],
)  # fmt: skip
def test_seconds_meant(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", " ", "s", "-5s", "+5s", "1e3", "inf", "nan", "5 minutes", "1h30m", "5S", "٥s", "0x10", "1_000", "1,5s", "9" * 10, "1.s", ".5s", "5s\x00"],
)  # fmt: skip
def test_everything_else_is_refused_with_what_is_accepted(text):
    with pytest.raises(ValueError, match="90s, 5m, 2h"):
        parse_duration(text)

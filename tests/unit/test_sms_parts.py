"""How many SMS a text comes to, by the rooms of 3GPP TS 23.038 and 23.040: 160/153 septets, 70/67 UTF-16 units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reminders.providers.sms_parts import parts

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.mark.parametrize(
    ("text", "encoding", "units", "count"),
    [
        ("", "GSM-7", 0, 1),
        ("Your order 17 is due.", "GSM-7", 21, 1),
        ("a" * 160, "GSM-7", 160, 1),
        ("a" * 161, "GSM-7", 161, 2),
        ("a" * 306, "GSM-7", 306, 2),
        ("a" * 307, "GSM-7", 307, 3),
        ("a" * 459, "GSM-7", 459, 3),
        ("a" * 612, "GSM-7", 612, 4),
        ("a" * 613, "GSM-7", 613, 5),
        ("äöüßÄÖÜñàèéùìòÇØøÅå", "GSM-7", 19, 1),
        ("ΔΦΓΛΩΠΨΣΘΞ@£$¥", "GSM-7", 14, 1),
        ("10 €", "GSM-7", 5, 1),
        ("€" * 80, "GSM-7", 160, 1),
        ("€" * 81, "GSM-7", 162, 2),
        ("^{}\\[~]|", "GSM-7", 16, 1),
        ("two\r\nlines", "GSM-7", 10, 1),
        ("ç", "UCS-2", 1, 1),
        ("`", "UCS-2", 1, 1),
        ("\t", "UCS-2", 1, 1),
        ("“quoted”", "UCS-2", 8, 1),
        ("ж" * 70, "UCS-2", 70, 1),
        ("ж" * 71, "UCS-2", 71, 2),
        ("ж" * 134, "UCS-2", 134, 2),
        ("ж" * 135, "UCS-2", 135, 3),
        ("漢" * 268, "UCS-2", 268, 4),
        ("漢" * 269, "UCS-2", 269, 5),
        ("a" * 69 + "ж", "UCS-2", 70, 1),
        ("€" * 70 + "ж", "UCS-2", 71, 2),
        ("\U0001f600", "UCS-2", 2, 1),
        ("\U0001f600" * 35, "UCS-2", 70, 1),
        ("\U0001f600" * 36, "UCS-2", 72, 2),
        (FAMILY, "UCS-2", 8, 1),
    ],
)
def test_known_lengths(text, encoding, units, count):
    found = parts(text)
    assert (found.encoding, found.units, len(found.texts)) == (encoding, units, count)


def test_a_surrogate_pair_stays_in_one_part():
    """67 is odd: after 33 pairs one unit is left over, and the pair that does not fit begins the next part."""
    found = parts("\U0001f600" * 67)
    assert [len(each) for each in found.texts] == [33, 33, 1]


def test_an_escape_stays_with_its_character():
    """153 is odd too: an extension character that would be cut begins the next part."""
    found = parts("a" * 152 + "€" + "b" * 20)
    assert found.texts == ("a" * 152, "€" + "b" * 20)
    assert found.units == 174


def test_what_packing_loses_counts():
    """306 septets that would fill two parts, but a euro sign falls on the seam."""
    text = "a" * 152 + "€" + "a" * 152
    assert parts(text).units == 306
    assert len(parts(text).texts) == 3


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=800))
def test_nothing_is_lost_and_every_part_has_room(text):
    found = parts(text)
    assert "".join(found.texts) == text
    for each in found.texts:
        if found.encoding == "UCS-2":
            size = len(each.encode("utf-16-be")) // 2
        else:
            size = len(each) + sum(character in "\f^{}\\[~]|€" for character in each)
        assert (
            size
            <= {("UCS-2", True): 70, ("UCS-2", False): 67, ("GSM-7", True): 160, ("GSM-7", False): 153}[
                (found.encoding, len(found.texts) == 1)
            ]
        )

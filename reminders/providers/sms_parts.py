"""How many SMS a text comes to, and where one ends and the next begins.

A text in the GSM 7-bit default alphabet (3GPP TS 23.038, section 6.2.1, with the extension table of 6.2.1.1) has room
for 160 septets in one SMS, 153 in each part of several; any other is sent as UCS-2, that is UTF-16, with room for 70 and
67 units. National language shift tables are not used: gateways do not promise them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Encoding = Literal["GSM-7", "UCS-2"]

_BASIC = frozenset(
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
_EXTENSION = frozenset("\f^{}\\[~]|€")
"""Each takes two septets, an escape and itself, which stay together in one part."""
_ROOM: dict[Encoding, tuple[int, int]] = {"GSM-7": (160, 153), "UCS-2": (70, 67)}


@dataclass(frozen=True, slots=True)
class Parts:
    """A text as it is sent. `units` is its length in septets or UTF-16 units, without what parts lose at their ends."""

    encoding: Encoding
    units: int
    texts: tuple[str, ...]


def parts(text: str) -> Parts:
    """Divide `text` as a phone network does; the parts' texts together are the text, and none ends inside a character."""
    encoding: Encoding = "GSM-7" if _BASIC.union(_EXTENSION).issuperset(text) else "UCS-2"
    single, several = _ROOM[encoding]
    units = sum(_size(character, encoding) for character in text)
    return Parts(encoding, units, (text,) if units <= single else tuple(_divided(text, encoding, several)))


def _size(character: str, encoding: Encoding) -> int:
    return 2 if (character in _EXTENSION and encoding == "GSM-7") or ord(character) > 0xFFFF else 1


def _divided(text: str, encoding: Encoding, room: int) -> Iterator[str]:
    start = used = 0
    for position, character in enumerate(text):
        size = _size(character, encoding)
        if used + size > room:
            yield text[start:position]
            start, used = position, 0
        used += size
    yield text[start:]

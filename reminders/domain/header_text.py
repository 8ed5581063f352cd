"""What text may stand in the header of a mail. Whatever may not is refused, never repaired."""

from __future__ import annotations

import re
import unicodedata

_ENCODED_WORD = re.compile(r"=\?[^?]*\?[bq]\?", re.IGNORECASE)
# Controls, lone surrogates, and the separators that some programs take for the end of a line.
_REFUSED = frozenset({"Cc", "Cs", "Zl", "Zp"})


def header_fault(text: str) -> str | None:
    """Why `text` must not be put into a header, without repeating it; None if it may.

    A line end would begin another header. An encoded word (RFC 2047) may hide one: some mail programs, and Python
    3.11's own, unpack it and take what was in it for lines of the header.
    """
    for position, character in enumerate(text):
        if unicodedata.category(character) in _REFUSED:
            return f"contains a control character or a line end (U+{ord(character):04X}) at position {position}"
    if _ENCODED_WORD.search(text):
        return "contains an encoded word (=?...?=)"
    return None

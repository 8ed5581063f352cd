"""The one redactor: what a far side said passes here before it is stored or logged."""

from __future__ import annotations

import re

LIMIT = 500
"""Characters of a far side's answer that are kept."""
MASK = "[redacted]"
_LONGEST_ADDRESS = 320

_EMAIL = re.compile(r"[^\s@<>\"'(),;:]{1,64}(?:@|%40|\\u0040|&#64;|&#x40;)[^\s@<>\"'(),;]{1,255}", re.IGNORECASE)
# Seven digits or more, grouped as telephone numbers are. Digits inside a longer word (a hash) are left alone.
_NUMBER = re.compile(r"(?<![A-Za-z0-9])\+?\(?\d(?:[\s().\-/\u2010-\u2015]{0,3}\d){6,24}(?![A-Za-z0-9])")
# Controls, lone surrogates, and the marks that reorder text on a terminal.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def redact(text: str | bytes, limit: int = LIMIT) -> str:
    """`text` fit to be stored: at most `limit` characters, storable in Postgres, without addresses and numbers.

    Anything shaped like an e-mail address or a telephone number becomes `[redacted]`, also where it is something else.
    Bytes are read as UTF-8; what is not valid, NUL, other controls and lone surrogates become U+FFFD, line ends a space.
    """
    longest = 4 * limit
    cut = len(text) > longest
    if isinstance(text, bytes):
        text = text[:longest].decode("utf-8", "replace")
    text = re.sub(r"\s", " ", text[:longest])
    if cut:
        # The cut may have left the first half of an address, which no pattern would know: give up the last word.
        text = text[: max(text.rfind(" "), len(text) - _LONGEST_ADDRESS, 0)]
    text = _UNPRINTABLE.sub("\ufffd", text)
    text = _NUMBER.sub(MASK, _EMAIL.sub(MASK, text))
    return text.strip()[:limit]

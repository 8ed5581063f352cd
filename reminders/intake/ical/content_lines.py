"""A calendar's bytes as unfolded content lines, each with the physical line it begins in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from reminders.domain.errors import RemindersError

MOST_BYTES = 32 << 20
"""Of one file: some hundred thousand events."""
LONGEST = 1 << 20
"""Bytes of one content line; what is longer is a fault of its component."""
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF16_BEGINS = {b"B\x00E\x00": "utf-16-le", b"\x00B\x00E": "utf-16-be"}
_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\n|\r|\Z)")
_FOLDED = b" \t"


@dataclass(frozen=True, slots=True)
class ContentLine:
    """`text` has no line end and no folds. With a `fault`, fit to follow "line N", it is not to be relied on."""

    number: int
    text: str
    fault: str | None = None


def read_bytes(source: BinaryIO, name: str) -> bytes:
    """All of a calendar, as UTF-8 if it was UTF-16. Raises `RemindersError` if it is too large or cannot be read."""
    try:
        raw = source.read(MOST_BYTES + 1)
    except OSError as error:
        raise RemindersError(f"{name} cannot be read: {error.strerror}") from error
    if len(raw) > MOST_BYTES:
        raise RemindersError(
            f"{name} is larger than {MOST_BYTES >> 20} MB, which no calendar is without attachments\n"
            "Export it without them, or in parts with --calendar NAME each"
        )
    encoding = "utf-16" if raw.startswith(_UTF16_MARKS) else _UTF16_BEGINS.get(raw[:4])
    if encoding is not None:
        raw = raw.decode(encoding, errors="replace").encode(errors="replace")
    return raw.removeprefix(_UTF8_MARK)


def looks_like_a_calendar(head: bytes) -> bool:
    """Whether a file that begins with `head` is a calendar, whatever its encoding."""
    letters = head.removeprefix(_UTF8_MARK).lstrip(b"\xff\xfe").replace(b"\0", b"").lstrip()
    return letters[:15].upper() == b"BEGIN:VCALENDAR"


def content_lines(raw: bytes) -> Iterator[ContentLine]:
    """The content lines in order, blank ones left out. Memory is bounded by `LONGEST`, however often a line is folded."""
    first, parts, size = 0, [], 0
    for number, match in enumerate(_LINE.finditer(raw), 1):
        line = match[1]
        if line[:1] and line[:1] in _FOLDED and first:
            size += len(line) - 1
            if size <= LONGEST:
                parts.append(line[1:])
            continue
        if first:
            yield _unfolded(first, b"".join(parts), size)
        if line.strip():
            first, parts, size = number, [line[:LONGEST]], len(line)
        else:
            first, parts, size = 0, [], 0
    if first:
        yield _unfolded(first, b"".join(parts), size)


def _unfolded(number: int, raw: bytes, size: int) -> ContentLine:
    # Folds may part the bytes of one character: decoded only now.
    if size > LONGEST:
        return ContentLine(number, raw[:80].decode("latin-1"), f"is longer than {LONGEST:,} bytes")
    try:
        return ContentLine(number, raw.decode())
    except UnicodeDecodeError:
        return ContentLine(number, raw.decode("latin-1"), "is not UTF-8; save the calendar as UTF-8")

"""A file's physical lines as text, numbered, bounded, and readable again from within a record."""

from __future__ import annotations

from collections import deque
from typing import BinaryIO

from reminders.domain.errors import RemindersError

LONGEST_RECORD = 131_072
"""In bytes for one line, in characters for a record of several. Twice what the longest permitted values take, escaped."""
LONGEST_SKIPPED = 64 << 20
"""Bytes of one line that are passed over in search of its end."""
_OPENING = 64
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class RecordTooLong(Exception):
    """The present record goes on beyond `LONGEST_RECORD`."""


class Lines:
    """An iterator over lines with their line ends, for `csv.reader`, and for whoever calls `next`.

    A line that is too long or no UTF-8 comes as what can be said of it (nothing; with the bad bytes escaped), and
    `fault` says what is wrong until the next record starts: so a broken line ends no file and is reported once.
    """

    def __init__(self, source: BinaryIO, name: str) -> None:
        self.number = 0
        """Of the line that came last."""
        self.first = 1
        """Of the line that the present record began with."""
        self.fault: str | None = None
        self.bytes_read = 0
        self.name = name
        self._source = source
        self._record: list[tuple[str, str | None]] = []
        self._size = 0
        self._opening = ""
        self._again: deque[tuple[str, str | None]] = deque()

    def peek(self) -> str:
        """The first line, or how it begins if it is too long; it stays the next one to come. Empty if there is none."""
        if not self._again:
            try:
                self._again.append(self._read())
            except StopIteration:
                return ""
        return self._again[0][0] or self._opening

    def start_record(self) -> None:
        """The next line is the first of a record."""
        self._record.clear()
        self._size = 0
        self.first = self.number + 1
        self.fault = None

    def give_back(self) -> None:
        """Make all but the first line of the present record come again.

        After a quoting mistake the parser has swallowed lines that may be records of their own.
        """
        self._again.extendleft(reversed(self._record[1:]))
        self.number = self.first

    def __iter__(self) -> Lines:
        return self

    def __next__(self) -> str:
        text, fault = self._again.popleft() if self._again else self._read()
        self.number += 1
        self._record.append((text, fault))
        if fault is not None and self.fault is None:
            self.fault = fault
        self._size += len(text)
        if self._size > LONGEST_RECORD:
            raise RecordTooLong
        return text

    def _read(self) -> tuple[str, str | None]:
        raw = self._readline(LONGEST_RECORD + 1)
        if not raw:
            raise StopIteration
        if self.number == 0:
            raw = self._without_mark(raw)
        if len(raw) > LONGEST_RECORD:
            self._opening = self._opening or raw[:_OPENING].decode(errors="ignore")
            self._skip_line(raw)
            return "", f"is longer than {LONGEST_RECORD:,} bytes"
        try:
            return raw.decode(), None
        except UnicodeDecodeError as error:
            where = f"byte 0x{raw[error.start]:02X} at position {error.start + 1} of line {self.number + 1}"
            return raw.decode(errors="surrogateescape"), f"is no UTF-8 text ({where})"

    def _skip_line(self, raw: bytes) -> None:
        skipped = len(raw)
        while raw and not raw.endswith(b"\n"):
            if skipped > LONGEST_SKIPPED:
                raise RemindersError(
                    f"Line {self.number + 1} of {self.name} has no end within {LONGEST_SKIPPED >> 20} MiB\n"
                    "A file of reminders is CSV or JSON Lines, with a line for each"
                )
            raw = self._readline(LONGEST_RECORD)
            skipped += len(raw)

    def _readline(self, limit: int) -> bytes:
        try:
            raw = self._source.readline(limit)
        except OSError as error:
            raise RemindersError(f"{self.name} cannot be read after line {self.number}: {error.strerror}") from error
        self.bytes_read += len(raw)
        return raw

    def _without_mark(self, raw: bytes) -> bytes:
        if raw.startswith(_UTF16_MARKS):
            raise RemindersError(
                f"{self.name} is UTF-16 (or UTF-32) text; UTF-8 is needed\n"
                "Save it as UTF-8, or convert it: iconv -f UTF-16 -t UTF-8 FILE"
            )
        return raw.removeprefix(_UTF8_MARK)

"""A stream of bytes into pages of whole CSV records, in flat memory.

A file is cut at line ends outside quotes and nowhere else, by the rules of `csv.reader`: a quote opens a value where it
is the value's first character, and a quote inside it is written twice.
"""

from __future__ import annotations

from dataclasses import dataclass

from reminders.domain.errors import RemindersError
from reminders.intake.lines import LONGEST_RECORD

PAGE_RECORDS = 1000
LARGEST_PAGE = 4 << 20
"""Bytes after which a page ends early. Pages stay in memory and in one row of a table."""
ENCODINGS = {
    "ascii", "utf-8", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1257", "iso8859-1", "iso8859-2", "iso8859-5",
    "iso8859-7", "iso8859-9", "iso8859-13", "iso8859-15", "koi8-r", "mac-roman",
}  # fmt: skip
"""As `codecs` names them. In each, a byte below 0x80 is that ASCII character wherever it stands."""
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


class MalformedFile(RemindersError):
    """A file that is none of its format, as a whole. Nothing of it was taken.

    `line` is the physical line at fault, from 1; None when it is the whole file.
    """

    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line
        self.reason = message


@dataclass(frozen=True, slots=True)
class FilePage:
    """Consecutive whole records of a file, without its header.

    `number` counts from 1, `first_line` is the physical line that `content` begins with, `records` what was cut, blank
    lines left out. `content` is UTF-8 whatever the file's encoding, and ends with a line end.
    """

    number: int
    first_line: int
    records: int
    content: bytes


@dataclass(frozen=True, slots=True)
class CutterState:
    """Where a `RecordCutter` stands between two feeds: small enough to be kept, enough to go on elsewhere.

    `tail` is what was fed and is in no page yet, as it was fed. `header` is UTF-8, None if it has not ended yet.
    """

    pages: int = 0
    records: int = 0
    next_line: int = 1
    header: bytes | None = None
    tail: bytes = b""


START = CutterState()
"""Before the first byte."""


class RecordCutter:
    """Cuts what it is fed into pages. The pages do not depend on how the bytes are split into feeds.

    `header` is the first record that is not blank, without the file's byte-order mark and its own line end, as UTF-8;
    None until it is there. `pages` and `records` count what was cut. `state` may be kept between feeds; a new cutter
    that is given it goes on from there.

    `feed`, `finish` and going on raise `MalformedFile`: for a byte-order mark of UTF-16, bytes that are not in
    `encoding`, NUL, a record longer than `LONGEST_RECORD`, and at the end for a quote that was never closed and for a
    file without a header.
    """

    def __init__(
        self, *, delimiter: str = ",", quote: str = '"', encoding: str = "utf-8", state: CutterState = START
    ) -> None:
        self.header = state.header
        self.pages = state.pages
        self.records = state.records
        self._encoding = encoding
        self._quote = quote.encode("ascii")
        self._opening = (delimiter + quote).encode("ascii")
        self._blank = f" \t\r{delimiter}".encode("ascii")
        self._page: list[bytes] = []
        self._page_records = 0
        self._page_size = 0
        self._page_line = state.next_line
        self._line = state.next_line
        self._record_line = state.next_line
        self._record_size = 0
        self._inside = False
        self._rest = b""
        self.feed(state.tail)

    @property
    def state(self) -> CutterState:
        tail = b"".join([line + b"\n" for line in self._page]) + self._rest
        return CutterState(self.pages, self.records, self._page_line, self.header, tail)

    def feed(self, data: bytes) -> list[FilePage]:
        """The pages that are full now."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        pages = [page for line in lines if (page := self._take(line)) is not None]
        self._check_size(len(self._rest))
        return pages

    def finish(self) -> list[FilePage]:
        """The last page, if anything is left for it. Nothing may be fed afterwards."""
        rest, self._rest = self._rest, b""
        pages = [page] if rest and (page := self._take(rest)) is not None else []
        if self._inside:
            raise MalformedFile("opens a quote that is never closed; the file may be cut off", self._record_line)
        if self.header is None:
            raise MalformedFile("the file is empty; its first line must name the columns")
        if self._page_records:
            pages.append(self._cut())
        return pages

    def _take(self, line: bytes) -> FilePage | None:
        """Add a physical line, without its line feed. Returns the page that is full with it."""
        if self._line == 1:
            line = _without_mark(line)
        if not self._inside:
            self._record_line = self._line
            self._record_size = 0
        self._check_size(len(line))
        self._record_size += len(line) + 1
        self._line += 1
        self._page.append(line)
        if (self._inside or self._quote in line) and self._ends_inside(line):
            self._inside = True
            return None
        self._inside = False
        if self.header is None:
            self._take_header()
            return None
        if line.strip(self._blank):
            self._page_records += 1
        self._page_size += self._record_size
        if self._page_records < PAGE_RECORDS and self._page_size < LARGEST_PAGE:
            return None
        if not self._page_records:
            self._start_page()
            return None
        return self._cut()

    def _ends_inside(self, line: bytes) -> bool:
        """Whether a quoted value goes on at the end of this line of a record."""
        quote, opening = self._quote, self._opening
        inside, at = self._inside, 0
        if not inside and line.startswith(quote):
            inside, at = True, 1
        while True:
            if inside:
                closing = line.find(quote, at)
                if closing < 0:
                    return True
                at = closing + 1
                if line.startswith(quote, at):
                    at += 1
                    continue
            next_one = line.find(opening, at)
            if next_one < 0:
                return False
            inside, at = True, next_one + len(opening)

    def _take_header(self) -> None:
        # A comma alone names no column, but it is a header, and a wrong one.
        if any(line.strip() for line in self._page):
            self.header = self._checked(b"\n".join(self._page)).removesuffix(b"\r")
        self._start_page()

    def _cut(self) -> FilePage:
        self.pages += 1
        self.records += self._page_records
        content = self._checked(b"\n".join([*self._page, b""]))
        page = FilePage(self.pages, self._page_line, self._page_records, content)
        self._start_page()
        return page

    def _start_page(self) -> None:
        self._page.clear()
        self._page_records = self._page_size = 0
        self._page_line = self._line

    def _checked(self, raw: bytes) -> bytes:
        """`raw` as UTF-8, if it is text."""
        nul = raw.find(b"\0")
        if nul >= 0:
            what = "contains a NUL byte; the file is no text, or was damaged on its way"
            raise MalformedFile(what, self._page_line + raw.count(b"\n", 0, nul))
        try:
            text = raw.decode(self._encoding)
        except UnicodeDecodeError as error:
            what = f"is no {self._encoding.upper()} text (byte 0x{raw[error.start]:02X})"
            raise MalformedFile(what, self._page_line + raw.count(b"\n", 0, error.start)) from None
        return raw if self._encoding == "utf-8" else text.encode()

    def _check_size(self, more: int) -> None:
        inside = self._inside
        if more + (self._record_size if inside else 0) > LONGEST_RECORD:
            hint = "; a quote that opens there may never be closed" if inside else ""
            what = f"is longer than {LONGEST_RECORD:,} bytes{hint}"
            raise MalformedFile(what, self._record_line if inside else self._line)


def _without_mark(line: bytes) -> bytes:
    if line.startswith(_UTF16_MARKS):
        raise MalformedFile("is UTF-16 (or UTF-32) text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 FILE", 1)
    return line.removeprefix(_UTF8_MARK)

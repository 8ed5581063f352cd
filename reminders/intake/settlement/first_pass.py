"""The first pass over a settlement file: all of it is looked at before anything is written, so that a broken one changes nothing.

It also says which file it is. The bytes themselves cannot: a file that is fetched in slices is never there as a whole, and
a hash cannot be kept half-way. Its header and pages can, and they are the same whatever way the file has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import BinaryIO

from reminders.domain.errors import RemindersError
from reminders.intake.settlement.cutting import CutterState, FilePage, MalformedFile
from reminders.intake.settlement.formats import Format

PIECE = 1 << 18
"""Bytes that are read at once."""
_ARCHIVES = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "a zip archive or a workbook",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"(\xb5/\xfd": "zstd",
}


@dataclass(frozen=True, slots=True)
class FirstPass:
    """What a file is found to be. `sha256` is in hex; `digests` has that of each page."""

    header: bytes
    sha256: str
    digests: tuple[bytes, ...]
    records: int


def content_digest(header: bytes, page_digests: Iterable[bytes]) -> bytes:
    """Which file it is: the SHA-256 over the header's and each page's own."""
    digest = sha256(sha256(header).digest())
    for each in page_digests:
        digest.update(each)
    return digest.digest()


def check_start(head: bytes) -> None:
    """Raise `MalformedFile` for what begins like something else than text."""
    for mark, what in _ARCHIVES.items():
        if head.startswith(mark):
            raise MalformedFile(f"the file is {what}, not text; unpack it, or export it as CSV")


def first_pass(stream: BinaryIO, form: Format) -> FirstPass:
    """Read all of it. Raises `MalformedFile`; `RemindersError` if it cannot be read."""
    cutter = form.cutter(CutterState())
    digests = []
    header_known = False
    for place, piece in enumerate(_pieces(stream)):
        if place == 0:
            check_start(piece)
        digests += [sha256(page.content).digest() for page in cutter.feed(piece)]
        if not header_known and cutter.header is not None:
            form.read_header(cutter.header)
            header_known = True
    digests += [sha256(page.content).digest() for page in cutter.finish()]
    assert cutter.header is not None
    form.read_header(cutter.header)
    return FirstPass(cutter.header, content_digest(cutter.header, digests).hex(), tuple(digests), cutter.records)


def second_pass(stream: BinaryIO, form: Format, first: FirstPass) -> Iterator[tuple[FilePage, int]]:
    """The pages, each with how many bytes of the file have been read by then.

    Raises `RemindersError` at the first page that is not what the first pass has seen there.
    """
    cutter = form.cutter(CutterState())
    bytes_read = 0
    for piece in _pieces(stream):
        bytes_read += len(piece)
        for page in _same(cutter.feed(piece), first):
            yield page, bytes_read
    for page in _same(cutter.finish(), first):
        yield page, bytes_read


def _same(pages: list[FilePage], first: FirstPass) -> Iterator[FilePage]:
    for page in pages:
        if page.number > len(first.digests) or sha256(page.content).digest() != first.digests[page.number - 1]:
            raise RemindersError(
                "the file has changed while it was read; run the same command again once it is complete"
            )
        yield page


def _pieces(stream: BinaryIO) -> Iterator[bytes]:
    while True:
        try:
            piece = stream.read(PIECE)
        except OSError as error:
            raise RemindersError(f"the file cannot be read: {error.strerror}") from error
        if not piece:
            return
        yield piece

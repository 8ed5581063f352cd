"""What tells one settlement file from another, and from what is none.

The bytes themselves cannot say which file it is: one that is fetched in slices is never there as a whole, and a hash cannot
be kept half-way. Its header and pages can, and they are the same whatever way the file has come.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

from reminders.intake.settlement.cutting import MalformedFile

_ARCHIVES = {
    b"\x1f\x8b": "gzip", b"PK\x03\x04": "a zip archive or a workbook", b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"(\xb5/\xfd": "zstd",
}  # fmt: skip


def page_digest(content: bytes) -> bytes:
    """SHA-256; the ledger works out the same."""
    return sha256(content).digest()


def content_digest(header: bytes, page_digests: Iterable[bytes]) -> bytes:
    """Which file it is: SHA-256 over the header's digest and each page's."""
    digest = sha256(sha256(header).digest())
    for each in page_digests:
        digest.update(each)
    return digest.digest()


def check_start(head: bytes) -> None:
    """Raise `MalformedFile` for what begins like something else than text."""
    for mark, what in _ARCHIVES.items():
        if head.startswith(mark):
            raise MalformedFile(f"the file is {what}, not text; unpack it, or export it as CSV")

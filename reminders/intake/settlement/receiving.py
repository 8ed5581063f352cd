"""A settlement file on its way into the ledger: cut into pages as it comes, a few at a time, in flat memory."""

from __future__ import annotations

from typing import BinaryIO
from uuid import UUID

from reminders.domain.errors import Refused
from reminders.intake.settlement.content import check_start, content_digest
from reminders.intake.settlement.cutting import CutterState, FilePage, MalformedFile
from reminders.intake.settlement.files import CHUNK
from reminders.intake.settlement.formats import Format
from reminders.ledger import settlement_files
from reminders.ledger.database import Database
from reminders.ledger.settlement_files import Received, StoredFile, StoredPage

LARGEST_FILE = 512 << 20
"""Bytes of a file that is kept in the ledger. One that is read where it lies has no bound."""
HELD_AT_MOST = 4 << 20
"""Bytes of pages that are kept at once, in one transaction."""


class LostFile(Refused):
    """Another process receives the file, or it was given up."""


class Receiver:
    """Takes the bytes of one file, from where it stands, and keeps them. `size` counts from its beginning."""

    def __init__(self, database: Database, file: StoredFile, form: Format) -> None:
        self._database = database
        self._file_id = file.id
        self._form = form
        self._kept = self.size = file.size
        self._kept_total = file.total
        self._pages: list[FilePage] = []
        self.total = file.total
        self.etag = file.etag
        self._header = file.header
        state = CutterState(file.pages, file.records, file.next_line, file.header, file.tail or b"")
        self._cutter = form.cutter(state)

    def take(self, piece: bytes) -> None:
        """Raises `MalformedFile`, or `LostFile`."""
        if self.size == 0:
            check_start(piece)
        self._pages += self._cutter.feed(piece)
        self.size += len(piece)
        self._check_header()
        if sum(len(page.content) for page in self._pages) >= HELD_AT_MOST:
            self.keep()

    def keep(self) -> None:
        """Commit what was taken, so that the next slice can go on from there. Raises `LostFile`."""
        if self.size > self._kept or self.total != self._kept_total:
            self._append(self._cutter.state)

    def complete(self) -> None:
        """Nothing more comes. Raises `MalformedFile`, or `LostFile`."""
        self._pages += self._cutter.finish()
        self._check_header()
        self.total = self.size
        self._append(CutterState(header=self._cutter.header, next_line=self._cutter.state.next_line))
        header = self._cutter.header or b""
        digest = content_digest(header, settlement_files.page_digests(self._database, self._file_id))
        # Crash here: all pages are kept, and the next slice finds that nothing is missing.
        if not settlement_files.finish(self._database, self._file_id, self.size, digest):
            raise LostFile("another process receives this file")

    def _append(self, state: CutterState) -> None:
        received = Received(
            size=self.size,
            pages=[StoredPage(page.number, page.first_line, page.records, page.content) for page in self._pages],
            header=state.header,
            tail=state.tail,
            next_line=state.next_line,
            total=self.total,
            etag=self.etag,
        )
        if not settlement_files.append(self._database, self._file_id, self._kept, received):
            raise LostFile("another process receives this file, or it was given up")
        self._kept, self._kept_total = self.size, self.total
        self._pages.clear()

    def _check_header(self) -> None:
        if self._header is None and self._cutter.header is not None:
            self._form.read_header(self._cutter.header)
            self._header = self._cutter.header


def upload(database: Database, stream: BinaryIO, form: Format, *, source: str, name: str, actor: str) -> UUID:
    """Keep a whole file. Raises `MalformedFile` (nothing is kept then) and `Refused` for one that is too large."""
    file_id = settlement_files.add(database, source=source, name=name, actor=actor)
    assert file_id is not None
    receiver = Receiver(database, settlement_files.read(database, file_id), form)
    try:
        while piece := stream.read(CHUNK):
            if receiver.size + len(piece) > LARGEST_FILE:
                raise Refused(
                    f"{name} is larger than the {LARGEST_FILE >> 20} MiB that the ledger keeps\n"
                    "Split it, or run `reminders reconcile` where it lies: then there is no bound."
                )
            receiver.take(piece)
        receiver.complete()
    except (MalformedFile, Refused) as error:
        settlement_files.refuse(database, file_id, " ".join(str(error).split())[:500])
        raise
    except KeyboardInterrupt:
        settlement_files.refuse(database, file_id, "broken off")
        raise KeyboardInterrupt("Broken off; nothing of the file is kept") from None
    return file_id

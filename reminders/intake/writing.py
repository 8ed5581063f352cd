"""Batches into the ledger, each in a transaction of its own, through short absences of Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from reminders.domain.errors import Conflict
from reminders.domain.request import ReminderRequest
from reminders.intake.checking import Batch
from reminders.intake.patience import PATIENCE, first_line, patiently
from reminders.intake.records import Reject
from reminders.ledger import scheduling
from reminders.ledger.background import BackgroundConnection
from reminders.ledger.database import DATABASE_AWAY
from reminders.ledger.scheduling import ScheduledReminder

Answer: TypeAlias = tuple[int, ScheduledReminder | Conflict | str]
"""A request's position and what the ledger says of it; as text why it refuses it."""


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch. `rejects` are those of the check and those of the ledger, by line."""

    batch: Batch
    scheduled: int
    existing: int
    rejects: Sequence[Reject]


class BatchWriter:
    """Writes one batch after the other. A batch is idempotent, so it is simply written again after any failure."""

    def __init__(
        self,
        background: BackgroundConnection,
        deduplicates: Mapping[str, bool],
        *,
        patience: float = PATIENCE,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` is called with one line whenever Postgres has failed and is tried again."""
        self._background = background
        self._deduplicates = deduplicates
        self._patience = patience
        self._tell = tell

    def write(self, batches: Iterable[Batch]) -> Iterator[Written]:
        """Commit them in order; while Postgres writes one, the next is taken from `batches`.

        Raises `ServiceUnavailable` if Postgres stays away.
        """
        # Crash here, or anywhere: a batch is in the ledger as a whole or not at all, and running the import again
        # finds what is there.
        previous: tuple[Batch, bool] | None = None
        for batch in batches:
            rows = scheduling.encoded(batch.requests, self._deduplicates)
            done = self._finish(*previous) if previous else None
            previous = batch, bool(batch.requests) and self._start(rows)
            if done is not None:
                yield done
        if previous:
            yield self._finish(*previous)

    def _start(self, rows: str) -> bool:
        """Whether it is under way. If not, `_finish` does it all."""
        try:
            scheduling.start_insert(self._background, rows)
        except DATABASE_AWAY:
            return False
        return True

    def _finish(self, batch: Batch, started: bool) -> Written:
        existing = 0
        rejects = list(batch.rejects)
        for position, answer in self._answers(batch.requests, started):
            line = batch.lines[position]
            if isinstance(answer, str):
                rejects.append(Reject(line, None, answer))
            elif isinstance(answer, Conflict):
                rejects.append(Reject(line, "reference", str(answer)))
            elif answer.id != batch.requests[position].id:
                existing += 1
            # else an earlier try was committed, and only its reply was lost.
        scheduled = len(batch.requests) - existing - (len(rejects) - len(batch.rejects))
        rejects.sort(key=lambda reject: reject.line)
        return Written(batch, scheduled, existing, rejects)

    def _answers(self, requests: Sequence[ReminderRequest], started: bool) -> Iterable[Answer]:
        """The ledger's answers for those that were not created now."""
        if started:
            try:
                return scheduling.finish_insert(self._background, requests).items()
            except (*DATABASE_AWAY, *scheduling.ROW_REFUSED):
                # Tried again below, which tells what is the matter.
                pass
        return self._insert(requests, 0)

    def _insert(self, requests: Sequence[ReminderRequest], start: int) -> Iterator[Answer]:
        """The same, by position from `start`: one bad row must not stop the others of its batch."""
        if not requests:
            return
        try:
            others = self._insert_patiently(requests)
        except scheduling.ROW_REFUSED as error:
            if len(requests) == 1:
                yield start, f"is refused by Postgres: {first_line(error)}"
                return
            middle = len(requests) // 2
            yield from self._insert(requests[:middle], start)
            yield from self._insert(requests[middle:], start + middle)
        else:
            yield from ((start + position, answer) for position, answer in others.items())

    def _insert_patiently(self, requests: Sequence[ReminderRequest]) -> Mapping[int, ScheduledReminder | Conflict]:
        rows = scheduling.encoded(requests, self._deduplicates)

        def insert() -> Mapping[int, ScheduledReminder | Conflict]:
            scheduling.start_insert(self._background, rows)
            return scheduling.finish_insert(self._background, requests)

        return patiently(insert, self._patience, self._tell)

"""Batches into the ledger, each in a transaction of its own, through short absences of Postgres."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reminders.domain.errors import Conflict, ServiceUnavailable
from reminders.domain.request import ReminderRequest
from reminders.intake.checking import Batch
from reminders.intake.records import Reject
from reminders.ledger import scheduling
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.scheduling import ScheduledReminder

PATIENCE = 60.0
"""Seconds that an absence of Postgres is sat out."""
FIRST_WAIT, LONGEST_WAIT = 0.1, 5.0


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a batch. `rejects` are those of the check and those of the ledger, by line."""

    batch: Batch
    scheduled: int
    existing: int
    rejects: Sequence[Reject]


class BatchWriter:
    """Writes one batch at a time. A batch is idempotent, so it is simply written again after any failure."""

    def __init__(
        self,
        database: Database,
        deduplicates: Mapping[str, bool],
        *,
        patience: float = PATIENCE,
        tell: Callable[[str], None],
    ) -> None:
        """`tell` is called, from the writing thread, with one line whenever Postgres is being waited for."""
        self._database = database
        self._deduplicates = deduplicates
        self._patience = patience
        self._tell = tell
        self._stopped = threading.Event()

    def write(self, batch: Batch) -> Written:
        """Commit the batch. Raises `ServiceUnavailable` if Postgres stays away."""
        # Crash here, or anywhere: a batch is in the ledger as a whole or not at all, and running the import again
        # finds what is there.
        existing = 0
        rejects = list(batch.rejects)
        for position, answer in self._insert(batch.requests, 0):
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

    def stop(self) -> None:
        """Wait for Postgres no longer."""
        self._stopped.set()

    def _insert(
        self, requests: Sequence[ReminderRequest], start: int
    ) -> Iterator[tuple[int, ScheduledReminder | Conflict | str]]:
        """The ledger's answers for those not created, by position from `start`; as text why it refuses a row.

        One bad row must not stop the others of its batch.
        """
        if not requests:
            return
        try:
            others = self._insert_patiently(requests)
        except scheduling.ROW_REFUSED as error:
            if len(requests) == 1:
                yield start, f"is refused by Postgres: {_first_line(error)}"
                return
            middle = len(requests) // 2
            yield from self._insert(requests[:middle], start)
            yield from self._insert(requests[middle:], start + middle)
        else:
            yield from ((start + position, answer) for position, answer in others.items())

    def _insert_patiently(self, requests: Sequence[ReminderRequest]) -> Mapping[int, ScheduledReminder | Conflict]:
        wait = FIRST_WAIT
        give_up_at = time.monotonic() + self._patience
        while True:
            try:
                return scheduling.insert_committed(self._database, requests, self._deduplicates)
            except DATABASE_AWAY as error:
                remaining = give_up_at - time.monotonic()
                if remaining <= 0 or self._stopped.is_set():
                    raise ServiceUnavailable(
                        f"Postgres has been away for {self._patience:g} s: {_first_line(error)}"
                    ) from error
                self._tell(f"Postgres is away, trying again for {remaining:.0f} s: {_first_line(error)}")
            self._stopped.wait(min(wait, remaining))
            wait = min(2 * wait, LONGEST_WAIT)


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__

"""From records to checked requests, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from reminders.domain.allowed_places import AllowedPlaces, nothing_allowed
from reminders.domain.errors import InvalidInput
from reminders.domain.request import ReminderRequest
from reminders.intake.columns import to_arguments
from reminders.intake.lines import Lines
from reminders.intake.records import Records, Reject
from reminders.pipeline.provider import Provider
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

BATCH = 1000
"""Records read for one transaction."""
OVERDUE_AFTER = timedelta(hours=24)
"""How far an instant may lie in the past and is still scheduled without a word (DESIGN section 9)."""
_TAKES_THEM = "--overdue send or skip takes such rows"
Overdue: TypeAlias = Literal["send", "skip", "reject"]


@dataclass(slots=True)
class Batch:
    """Some records read one after the other, and what checking came to."""

    read: int = 0
    skipped: int = 0
    requests: list[ReminderRequest] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    """Of the requests, at the same positions."""
    rejects: list[Reject] = field(default_factory=list)
    last_line: int = 0
    bytes_read: int = 0
    """Of the whole file, up to and including this batch."""


class Checker:
    """Checks records as `schedule` does, and what is to become of instants long past."""

    def __init__(
        self,
        settings: Settings,
        overdue: Overdue,
        now: datetime,
        allowed_to: Callable[[str], AllowedPlaces] = nothing_allowed,
    ) -> None:
        self.deduplicates: dict[str, bool] = {}
        """Of each channel met so far, whether its destinations are expected to deduplicate."""
        self._settings = settings
        self._allowed_to = allowed_to
        self._overdue = overdue
        self._oldest = now - OVERDUE_AFTER
        self._providers: dict[str, Provider] = {}

    def batches(self, records: Records, lines: Lines) -> Iterator[Batch]:
        """The records by the thousand. Raises `SettingsError` for a channel that is installed but cannot be used."""
        batch = Batch()
        for record in records:
            batch.read += 1
            if isinstance(record, Reject):
                batch.rejects.append(record)
            else:
                self._add(batch, *record)
            if batch.read == BATCH:
                yield _ended(batch, lines)
                batch = Batch()
        if batch.read:
            yield _ended(batch, lines)

    def _add(self, batch: Batch, line: int, values: dict[str, Any]) -> None:
        try:
            request = to_request(self._provider, self._allowed_to, **to_arguments(values))
        except InvalidInput as error:
            batch.rejects.append(Reject(line, error.field, error.reason))
            return
        if request.due_at < self._oldest and self._overdue != "send":
            if self._overdue == "skip":
                batch.skipped += 1
            else:
                batch.rejects.append(Reject(line, "due_at", f"{long_past(request.due_at)}; {_TAKES_THEM}"))
            return
        batch.requests.append(request)
        batch.lines.append(line)

    def _provider(self, channel: str) -> Provider:
        provider = self._providers.get(channel)
        if provider is None:
            # The registry's own cache hashes all settings for every question.
            provider = self._providers[channel] = registry.load(channel, self._settings)
            self.deduplicates[channel] = provider.deduplicates
        return provider


def _ended(batch: Batch, lines: Lines) -> Batch:
    batch.last_line = lines.number
    batch.bytes_read = lines.bytes_read
    return batch


def long_past(due_at: datetime) -> str:
    """Why an instant before `OVERDUE_AFTER` is not scheduled unless somebody says so."""
    return f"was due at {due_at.isoformat()}, over {OVERDUE_AFTER // timedelta(hours=1)} hours ago"

"""The present that a drill gives to a purge and an import, so that what has just ended has ended long ago."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from reminders.settings import Settings

PAST_RETENTION = 3600.0
"""Seconds by which what ends meanwhile is too old to be kept."""


def later(settings: Settings) -> datetime:
    """Now, moved on by the retention and an hour, in UTC."""
    return datetime.now(UTC) + timedelta(seconds=settings.retention + PAST_RETENTION)

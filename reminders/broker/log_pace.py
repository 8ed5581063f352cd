"""Log lines that come again and again while something is away: let through once in a while, on one line."""

from __future__ import annotations

import logging
from threading import Lock
from time import monotonic

BROKER_AWAY_EVERY = 30.0
NO_PROVIDER_EVERY = 60.0
"""Seconds between two lines about the same thing."""


class OncePer(logging.Filter):
    """Of the records whose text begins with `beginning`, passes one in `seconds`; with `apart`, for each first argument."""

    def __init__(self, beginning: str, seconds: float, *, apart: bool = False) -> None:
        super().__init__()
        self._beginning = beginning
        self._seconds = seconds
        self._apart = apart
        self._lock = Lock()
        self._passed: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith(self._beginning):
            return True
        about = str(record.args[0]) if self._apart and isinstance(record.args, tuple) and record.args else ""
        with self._lock:
            now = monotonic()
            if now - self._passed.get(about, float("-inf")) < self._seconds:
                return False
            self._passed[about] = now
        record.msg, record.args = " ".join(record.getMessage().split()), ()
        return True


def pace_logs() -> None:
    """Slow down, in this process, what Celery and we would say at every attempt. Calling it again changes nothing."""
    for logger, paced in _PACED.items():
        logging.getLogger(logger).addFilter(paced)


_PACED = {
    "celery.worker.consumer.consumer": OncePer("consumer: Cannot connect to", BROKER_AWAY_EVERY),
    "celery.beat": OncePer("beat: Connection error", BROKER_AWAY_EVERY),
    "reminders.pipeline.deliver": OncePer("deliver.no_provider", NO_PROVIDER_EVERY, apart=True),
    "reminders.pipeline.own_secrets": OncePer("secrets.unreadable", NO_PROVIDER_EVERY, apart=True),
}

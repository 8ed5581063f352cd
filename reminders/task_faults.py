"""What becomes of an exception that leaves a task: its text goes neither into the log nor to Flower."""

from __future__ import annotations

import logging
from traceback import extract_tb
from typing import Any

from celery import Task
from celery.app import autoretry
from celery.exceptions import Ignore, Reject, Retry

from reminders.domain.errors import RemindersError
from reminders.pipeline.tracing import origin

logger = logging.getLogger(__name__)

_MEANT = (Retry, Ignore, Reject, RemindersError)
"""Celery's own words, and refusals, whose texts are written for people and name no data."""


class TaskFailed(Exception):
    """A task of ours raised something that nobody expected: a fault of ours."""


class FaultShyTask(Task):  # type: ignore[misc] # Celery has no types
    """Celery would log and publish the text of an exception, in which Postgres quotes whole rows."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.run(*args, **kwargs)
        except _MEANT:
            raise
        except Exception as error:
            if isinstance(error, TypeError) and _is_about_arguments(error):
                raise  # names the arguments that are missing, or are none
            logger.error("task.failed task=%s: %s", self.name, origin(error))  # noqa: TRY400 (not its text)
            raise TaskFailed(f"{type(error).__name__}; the worker's log says where") from None


def _is_about_arguments(error: TypeError) -> bool:
    """Whether Python refused the call itself: no line of the function was run."""
    ran = [each.filename for each in extract_tb(error.__traceback__)]
    return all(name in {__file__, autoretry.__file__} for name in ran)

"""What the tasks share by which operators decide over the broker: how they run, and what is said of a refusal."""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from reminders import bootstrap
from reminders.celery import app
from reminders.domain.errors import InvalidInput, RemindersError

# Celery otherwise registers every task with every app of the process: an application's own app must not get ours.
# An operator's word is about what they saw when they gave it: a worker's death must not have the broker repeat it ten
# minutes later. What fails for the database's sake has changed nothing.
by_an_operator = partial(
    app.task,
    shared=False,
    typing=False,  # what lacks an argument is refused here, in words, and not by Flower with an error of its own
    acks_late=False,
    throws=(RemindersError,),
    autoretry_for=bootstrap.DATABASE_FAULTS,
    max_retries=8,
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
)


@contextmanager
def refusal_logged(logger: logging.Logger, action: str, about: str) -> Iterator[None]:
    """Log a refusal in one line, with what was asked for, and let it through."""
    try:
        yield
    except RemindersError as error:
        logger.warning("task.refused about=%s action=%s: %s", about, action, " ".join(str(error).split()))
        raise


def known(given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a message names. A name that is none of these must not widen what is chosen: raises `InvalidInput`."""
    if unknown := sorted(set(given) - set(names)):
        raise InvalidInput(unknown[0], f"is no filter; there are {', '.join(names)}")
    return given

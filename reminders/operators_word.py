"""What the tasks share by which operators decide over the broker: how they run, and what is said of a refusal."""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import Parameter, signature
from typing import Any

from reminders import bootstrap
from reminders.celery import app
from reminders.domain.errors import InvalidInput, RemindersError
from reminders.domain.pauses import PauseScope
from reminders.ledger.database import Database
from reminders.ledger.scope_known import unknown
from reminders.task_faults import FaultShyTask

logger = logging.getLogger(__name__)


class OperatorsTask(FaultShyTask):
    """One whose message is refused in words, in one line, if it lacks an argument or names one that there is not."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with refusal_logged(logger, self.name.removeprefix("reminders."), "arguments"):
            check_arguments(self.run, args, kwargs)
        return super().__call__(*args, **kwargs)


def check_arguments(run: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` with the name of an argument that is missing, or that is none of those which `run` takes by name."""
    taken = signature(run).parameters.values()
    named = [each.name for each in taken if each.kind is Parameter.KEYWORD_ONLY]
    if args:
        raise InvalidInput("arguments", f"are given by name: {', '.join(named)}")
    open_ended = any(each.kind is Parameter.VAR_KEYWORD for each in taken)
    if not open_ended and (strange := sorted(set(kwargs) - set(named))):
        # Whatever is no name may be an address.
        raise InvalidInput(
            strange[0] if strange[0].isidentifier() else "arguments", f"is no argument; there are {', '.join(named)}"
        )
    needed = [each.name for each in taken if each.name in named and each.default is Parameter.empty]
    if missing := [each for each in needed if each not in kwargs]:
        raise InvalidInput(
            missing[0], f"is needed; with {', '.join(needed)} the task knows what is wanted, of whom and why"
        )


# Celery otherwise registers every task with every app of the process: an application's own app must not get ours.
# An operator's word is about what they saw when they gave it: a worker's death must not have the broker repeat it ten
# minutes later. What fails for the database's sake has changed nothing.
by_an_operator = partial(
    app.task,
    base=OperatorsTask,
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


def scope_told(logger: logging.Logger, database: Database, scope: PauseScope, actor: str) -> list[str]:
    """The parts of `scope` that the ledger does not know, after saying so in the log."""
    if names := unknown(database, scope):
        logger.warning("hold.scope_unknown unknown=%s actor=%s: no reminder or setting has it", ",".join(names), actor)
    return names


def known(given: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """What a message names. A name that is none of these must not widen what is chosen: raises `InvalidInput`."""
    if unknown := sorted(set(given) - set(names)):
        raise InvalidInput(unknown[0], f"is no filter; there are {', '.join(names)}")
    return given

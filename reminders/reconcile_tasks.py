"""The Celery tasks of reconciliation: one page, or one slice of a file that is fetched, a message.

A file is named by its id in the ledger, or by an https address in the first message alone. No address is logged.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

from reminders import bootstrap
from reminders.celery import app
from reminders.celery_options import RECONCILE_TASK, RECONCILE_TICK_TASK
from reminders.domain.errors import InvalidInput, RemindersError, ServiceUnavailable, SettingsError
from reminders.intake.settlement.fetching import Access
from reminders.intake.settlement.files import open_workshop
from reminders.intake.settlement.running import Workshop
from reminders.intake.settlement.stepping import Next, ask_for, left_alone, step, tonight
from reminders.ledger.review import checked_words

logger = logging.getLogger(__name__)

IDLE = 600.0
"""Seconds after which nobody works on a file any more, whose message must have been lost."""
PATIENCE = 5.0
"""Seconds for which a step waits for Postgres; the broker brings the message again."""

task = partial(
    app.task,
    shared=False,
    throws=(RemindersError,),
    autoretry_for=(*bootstrap.DATABASE_FAULTS, ServiceUnavailable),
    max_retries=8,
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
)


@task(name=RECONCILE_TASK)
def reconcile(
    *,
    actor: str | None = None,
    reason: str | None = None,
    file: str | None = None,
    url: str | None = None,
    run: str | None = None,
    fence: int | None = None,
    **unknown: object,
) -> dict[str, Any]:
    """Work on a file of the ledger (`file`), or fetch one (`url`); `actor` says who asks, `reason` why.

    Does one step, and leaves the next to another message; `run` and `fence` are what that one goes on with. Every step may
    be repeated, and two at once do it once.
    """
    with _refusal_logged():
        if unknown:
            # Not which: what somebody has misspelt may be an address.
            raise InvalidInput("message", "may have actor, reason, file and url, and no other arguments")
        if (file is None) == (url is None):
            raise InvalidInput("file", "or url is needed, and not both")
        who = None if run is not None or actor is None else checked_words("actor", actor)
        if url is not None:
            after = ask_for(
                workshop(),
                access(),
                _text("url", url),
                actor=checked_words("actor", actor),
                because=None if reason is None else checked_words("reason", reason),
            )
        else:
            now = Next(_id("file", file), None if run is None else _id("run", run), fence)
            after = step(workshop(), access(), now, actor=who)
    _send(after)
    return {"file": str(after.file) if after else file, "goes_on": after is not None}


@task(name=RECONCILE_TICK_TASK, acks_late=False)
def tick() -> dict[str, int]:
    """Fetch the file of the night once its time has come, and go on with files whose messages were lost.

    Lost with its process, it is replaced by the next one.
    """
    with _refusal_logged():
        config = workshop().config
        asked = config.nightly and tonight(workshop(), access(), config.nightly, datetime.now(UTC))
        alone = left_alone(workshop(), IDLE)
    for each in [*([asked] if asked else []), *alone]:
        _send(each)
    return {"asked": int(asked is not None), "gone_on": len(alone)}


@lru_cache(maxsize=1)
def workshop() -> Workshop:
    """What this process reconciles with. Raises `SettingsError` without `REMINDERS_RECONCILE`."""
    settings = bootstrap.installation()
    if settings.reconcile is None:
        raise SettingsError("REMINDERS_RECONCILE is not set: this worker has no configuration to reconcile by")
    made = open_workshop(bootstrap.database(), settings, settings.reconcile, logger.warning)
    return replace(made, patience=PATIENCE)


def access() -> Access:
    """How this process fetches files."""
    settings = bootstrap.installation()
    return Access(settings.allow_private, settings.reconcile_bearers)


def _send(after: Next | None) -> None:
    # Crash here: the ledger has what is to be done, and the tick finds that nobody does it.
    if after is None:
        return
    given: dict[str, Any] = {"file": str(after.file)}
    if after.run is not None:
        given |= {"run": str(after.run), "fence": after.fence}
    # A message must not wait beyond the broker's redelivery.
    wait = min(after.wait, bootstrap.installation().visibility / 2)
    reconcile.apply_async(kwargs=given, countdown=wait or None)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(name, "must be text")
    return value


def _id(name: str, value: object) -> UUID:
    try:
        return UUID(str(value))
    except ValueError:
        raise InvalidInput(name, "is no id") from None


@contextmanager
def _refusal_logged() -> Iterator[None]:
    try:
        yield
    except ServiceUnavailable:
        raise
    except RemindersError as error:
        logger.warning("reconcile.refused: %s", " ".join(str(error).split()))
        raise

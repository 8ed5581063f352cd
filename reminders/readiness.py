"""Whether a worker line can do its work: asked before its workers start, and by each worker about itself.

A worker that delivers refuses to start only when no channel at all can send. A ledger that is away or behind is waited
for: a release that migrates it may still be running, and a worker that ended meanwhile would only be started again.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Sequence
from threading import Event
from time import monotonic

from sqlalchemy.exc import SQLAlchemyError

from reminders import bootstrap
from reminders.celery_options import DELIVERY_QUEUES, broker_url
from reminders.domain.errors import RemindersError, ServiceUnavailable, SettingsError
from reminders.ledger.database import Database
from reminders.ledger.schema_version import require_head
from reminders.settings import Settings
from reminders.supervised import hold_on

logger = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 15.0
"""Seconds between two looks at a ledger that is not ready; doubled from the first to the longest."""
SAY_EVERY = 60.0


class LedgerAway(Exception):
    """Postgres cannot be asked which version the ledger has."""


def check_channels(settings: Settings, queues: Sequence[str]) -> None:
    """Warn of each channel that cannot send, if `queues` deliver. Raises `SettingsError` when none can."""
    if not any(queue in DELIVERY_QUEUES for queue in queues):
        return
    installed = bootstrap.channels(settings)
    faults = installed.faults.items()
    if not installed.ready:
        reasons = "; ".join(f"{channel}: {fault}" for channel, fault in faults) or "none is installed"
        raise SettingsError(f"No channel can send ({reasons})\nA worker that delivers needs at least one channel")
    for channel, fault in faults:
        logger.warning("Channel %s cannot send, its reminders wait until it can: %s", channel, fault)


def check_ledger(settings: Settings) -> None:
    """Raise `ServiceUnavailable` for a ledger older than this release, `LedgerAway` if Postgres does not answer."""
    if settings.database_url is None:
        raise SettingsError("DATABASE_URL is not set")
    try:
        require_head(settings.database_url.reveal(), settings.schema)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        first = str(cause).strip().partition("\n")[0]
        raise LedgerAway(f"Postgres does not answer: {first}") from error


def await_ledger(settings: Settings, pause: Callable[[float], object] | None = None) -> None:
    """Return once the ledger is at this release's version; say once a minute what it is waited for."""
    pause = pause or Event().wait
    delay, said_at = FIRST_PAUSE, float("-inf")
    while True:
        try:
            check_ledger(settings)
        except (ServiceUnavailable, LedgerAway) as error:
            if monotonic() - said_at >= SAY_EVERY:
                said_at = monotonic()
                logger.warning("Workers wait for the ledger. %s", " ".join(str(error).split()))
        else:
            return
        pause(delay)
        delay = min(2 * delay, LONGEST_PAUSE)


def tell_ledger(settings: Settings) -> None:
    """Tell the ledger which channels and zones there are here; a database that is away will be told another time."""
    assert settings.database_url is not None
    database = Database(settings.database_url.reveal(), schema=settings.schema, pool_size=1)
    try:
        bootstrap.tell_ledger(settings, database)
    except bootstrap.DATABASE_FAULTS as error:
        logger.warning("The ledger was not told of this installation's channels: %s", " ".join(str(error).split()))
    finally:
        database.close()


def check_worker(queues: Sequence[str]) -> None:
    """What a worker process asks of itself when it starts, whoever started it.

    Raises `SettingsError` and `ServiceUnavailable`. A database that is away is none of them: its tasks will wait.
    """
    settings = bootstrap.installation()
    broker_url(settings)
    check_channels(settings, queues)
    try:
        check_ledger(settings)
    except LedgerAway as error:
        logger.warning("%s. Tasks wait until it does", error)


def main(queues: Sequence[str]) -> int:
    """`python -m reminders.readiness QUEUE...`: ends with 0 when workers of `queues` may start, with 1 if they must not."""
    hold_on(os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s ready: %(message)s")
    try:
        settings = bootstrap.installation()
        check_channels(settings, queues)
        await_ledger(settings)
        tell_ledger(settings)
    except RemindersError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

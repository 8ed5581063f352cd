"""Whether a worker line can do its work: asked before its workers start, and by each worker about itself.

A worker that delivers refuses to start when no channel at all can send, and every line when the doctor finds something
without which a guarantee would not hold (`reminders.operate.doctor.start`). Postgres or Redis that is away, and a ledger that
is behind, are waited for, with growing pauses: a release that migrates may still be running, and a process that ended
meanwhile would only be started again.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Event
from time import monotonic

from psycopg2.errors import InsufficientPrivilege
from sqlalchemy.exc import SQLAlchemyError

from reminders import bootstrap
from reminders.broker.link import BrokerAway
from reminders.celery_options import DELIVERY_QUEUES, broker_url
from reminders.domain.errors import RemindersError, ServiceUnavailable, SettingsError
from reminders.ledger.database import Database
from reminders.ledger.schema_version import require_head
from reminders.log_lines import before_set_up, set_up_log
from reminders.operate.doctor.check import Finding, first_line
from reminders.operate.doctor.start import fatal_of_ledger, of_broker
from reminders.settings import Settings, load
from reminders.supervised import hold_on

logger = logging.getLogger("reminders.readiness")  # also where it is run as `__main__`

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 15.0
"""Seconds between two looks at a server that is not ready; doubled from the first to the longest."""
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
        logger.warning(
            "readiness.channel_cannot_send: Channel %s cannot send, its reminders wait until it can: %s", channel, fault
        )


def check_ledger(settings: Settings) -> None:
    """Raise `ServiceUnavailable` for a ledger older than this release, `LedgerAway` if Postgres does not answer."""
    if settings.database_url is None:
        raise SettingsError("DATABASE_URL is not set")
    try:
        require_head(settings.database_url.reveal(), settings.schema)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or error
        first = first_line(cause)
        if isinstance(cause, InsufficientPrivilege):
            raise SettingsError(
                f"The role of DATABASE_URL may not read the ledger: {first}\n"
                "Let the role that migrates run the workers, or grant it the rights; `reminders doctor` says which"
            ) from error
        raise LedgerAway(f"Postgres does not answer: {first}") from error


def refuse(findings: Sequence[Finding]) -> None:
    """Mention what was accepted. Raises `SettingsError` with all that was not."""
    for finding in findings:
        if finding.accepted:
            logger.warning("readiness.accepted: %s: %s", finding.check.name, finding.found)
    told = [f"{each.check.name}: {each.found}. {each.check.remedy}" for each in findings if not each.accepted]
    if told:
        raise SettingsError("\n".join(told))


def refuse_ledger(settings: Settings) -> None:
    """Raise `SettingsError` for what is fatal about Postgres or the ledger's tables, `LedgerAway` if it does not answer."""
    try:
        findings = fatal_of_ledger(settings)
    except bootstrap.DATABASE_FAULTS as error:
        raise LedgerAway(f"Postgres does not answer: {first_line(error)}") from error
    refuse(findings)


def refuse_broker(settings: Settings) -> None:
    """Raise `SettingsError` for what is fatal about Redis, `BrokerAway` if it does not answer."""
    try:
        findings, told = of_broker(settings)
    except BrokerAway as error:
        raise BrokerAway(f"Redis does not answer: {error}") from error
    for each in told:
        logger.warning("readiness.doubtful: %s: %s. %s", each.check.name, each.found, each.check.remedy)
    refuse(findings)


def await_(ask: Callable[[], None], waiting: str, pause: Callable[[float], object] | None = None) -> None:
    """Return once `ask` finds its server ready; say once a minute that one is `waiting`, and why."""
    pause = pause or Event().wait
    delay, said_at = FIRST_PAUSE, float("-inf")
    while True:
        try:
            ask()
        except (ServiceUnavailable, LedgerAway, BrokerAway) as error:
            if monotonic() - said_at >= SAY_EVERY:
                said_at = monotonic()
                logger.warning("readiness.waiting: %s. %s", waiting, " ".join(str(error).split()))
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
        logger.warning(
            "readiness.ledger_not_told: The ledger was not told of this installation's channels: %s",
            " ".join(str(error).split()),
        )
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
        refuse_ledger(settings)
    except LedgerAway as error:
        logger.warning("readiness.ledger_away: %s. Tasks wait until it does", error)
    with suppress(BrokerAway):  # Celery says so itself
        refuse_broker(settings)


def check_installation(settings: Settings) -> None:
    """Raise `SettingsError` for what no process would start with; a server that is away is passed over."""
    for refuse_one in (refuse_ledger, refuse_broker):
        with suppress(LedgerAway, BrokerAway):
            refuse_one(settings)


def main(queues: Sequence[str]) -> int:
    """`python -m reminders.readiness [QUEUE...]`: ends with 0 when the line may start, with 1 if it must not.

    Without queues it is a line that needs the broker alone, as beat does.
    """
    hold_on(os.environ)
    before_set_up(os.environ, "ready")
    try:
        settings = bootstrap.installation() if queues else load()
        set_up_log(settings, "ready")
        if queues:
            check_channels(settings, queues)
            await_(partial(check_ledger, settings), "Workers wait for the ledger")
            await_(partial(refuse_ledger, settings), "Workers wait for the ledger")
            tell_ledger(settings)
        await_(partial(refuse_broker, settings), "This line waits for Redis")
    except RemindersError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    gc.freeze()  # nothing is worth collecting at its end, which the line waits for
    sys.exit(main(sys.argv[1:]))

"""The Celery tasks: parse, call one stage. What they decide is in `reminders.pipeline`."""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from functools import partial
from typing import Any
from uuid import UUID

from celery import signals

from reminders import bootstrap
from reminders.broker.junk import drop_malformed
from reminders.broker.shutdown import shutting_down
from reminders.celery import app
from reminders.celery_options import COUNT_TASK, DELIVER_TASK, PARTITIONS_TASK, PURGE_TASK, SCAN_TASK, WOKEN_BY_WATCH
from reminders.ledger.counting import count_attempts
from reminders.ledger.status import make_partitions
from reminders.operate.other_retention import purge_others
from reminders.operate.retention import purge
from reminders.operate.settlement_retention import purge_settlements
from reminders.pipeline.trail import about
from reminders.settings import Settings

logger = logging.getLogger(__name__)

# Celery otherwise registers every task with every app of the process: an application's own app must not get ours.
task = partial(app.task, shared=False)


@task(name=SCAN_TASK, acks_late=False)
def scan_due() -> int:
    """A wake-up: hold the minute, then end. Lost with its process, it is replaced by the next tick."""
    settings = bootstrap.installation()
    _record(scan_due.request, taken=1)
    return bootstrap.scan().hold(settings.scan_every, shutting_down)


@task(
    name=DELIVER_TASK,
    autoretry_for=bootstrap.DATABASE_FAULTS,
    max_retries=None,
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
)
def deliver(*arguments: Any, **named: Any) -> str:
    """Deliver one reminder: `reminder_id`, `delivery_key` and the ids of its `caps`, if any, by place or by name; any others
    are passed over.

    Retried by Celery only while no claim has committed.
    """
    given = {**named, **dict(zip(("reminder_id", "delivery_key", "caps"), arguments, strict=False))}
    try:
        reminder_id, key = UUID(given["reminder_id"]), given["delivery_key"]
    except (KeyError, ValueError, TypeError, AttributeError):
        key = None
    if not (isinstance(key, str) and key.isascii() and key.isprintable()):
        drop_malformed(DELIVER_TASK, "it names no reminder")
        return "malformed"
    with about(reminder_id, key):
        return bootstrap.deliver()(reminder_id, key, _caps(given.get("caps")))


MOST_CAPS = 4
"""A destination's, a tenant's and a channel's, and a drain's rate."""


def _caps(given: object) -> list[UUID]:
    """Ids of caps as a message names them; what is none names no cap of ours."""
    found = []
    for each in given[:MOST_CAPS] if isinstance(given, list) else ():
        with suppress(ValueError, TypeError, AttributeError):
            found.append(UUID(each))
    return found


@task(name=PARTITIONS_TASK)
def make_attempt_partitions() -> list[str]:
    """Keep the coming months' partitions of the attempts in existence."""
    return make_partitions(bootstrap.database())


@task(name=COUNT_TASK, acks_late=False)
def count_attempts_recorded() -> int:
    """Count what was recorded since the last time. Lost with its process, the next one goes on where it stopped."""
    return count_attempts(bootstrap.database()).attempts


PURGE_SECONDS = 20.0
"""For which one purge task runs; what is left is the next one's."""


@task(name=PURGE_TASK, acks_late=False)
def purge_ended() -> dict[str, int]:
    """Purge what ended longer ago than `REMINDERS_RETENTION`, a while, and leave the rest to another message.

    Lost with its process, the next night goes on where it stopped.
    """
    settings = bootstrap.installation()
    started = time.monotonic()
    done = purge(bootstrap.database(), settings.retention, seconds=PURGE_SECONDS)
    logger.info(
        "purge.done purged=%d marked=%d complete=%s waiting=%d", done.purged, done.marked, done.complete, done.waiting
    )
    end = started + PURGE_SECONDS
    complete = done.complete and _purge_settlements(settings, end - time.monotonic())
    complete = complete and _purge_others(settings, end - time.monotonic())
    if not complete:
        purge_ended.apply_async(expires=3600.0)
    return {"purged": done.purged, "marked": done.marked}


def _purge_settlements(settings: Settings, seconds: float) -> bool:
    done = purge_settlements(
        bootstrap.database(), files=settings.retention, others=settings.reconcile_keep, seconds=seconds
    )
    if done.files or done.runs or done.lines:
        logger.info(
            "purge.settlements files=%d runs=%d lines=%d decisions=%d complete=%s",
            done.files, done.runs, done.lines, done.decisions, done.complete,
        )  # fmt: skip
    return done.complete


def _purge_others(settings: Settings, seconds: float) -> bool:
    done = purge_others(
        bootstrap.database(), reminders=settings.retention, evidence=settings.evidence_keep, seconds=seconds
    )
    if done.gone:
        counts = " ".join(f"{table}={number}" for table, number in done.gone.items())
        logger.info("purge.others count=%d complete=%s: %s", sum(done.gone.values()), done.complete, counts)
    return done.complete


def _count_dropped_tick(sender: Any, request: Any, expired: bool = False, **_: Any) -> None:
    if not expired or sender.name != SCAN_TASK:
        return
    logger.warning("scan.tick_dropped: it waited longer than a period")
    _record(request, dropped=1)


def _record(request: Any, **counted: int) -> None:
    try:
        bootstrap.scan_ledger().record_tick(by_beat=not request.get(WOKEN_BY_WATCH), **counted)
    except bootstrap.DATABASE_FAULTS:
        logger.warning("scan.tick_not_recorded: the database is away")


signals.task_revoked.connect(_count_dropped_tick, weak=False)

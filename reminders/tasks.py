"""The Celery tasks: parse, call one stage. What they decide is in `reminders.pipeline`."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any
from uuid import UUID

from celery import signals

from reminders import bootstrap
from reminders.broker.shutdown import shutting_down
from reminders.celery import app
from reminders.celery_options import DELIVER_TASK, SCAN_TASK
from reminders.ledger.review import LetterFilter, redrive
from reminders.ledger.status import make_partitions

logger = logging.getLogger(__name__)

# Celery otherwise registers every task with every app of the process: an application's own app must not get ours.
task = partial(app.task, shared=False)


@task(name=SCAN_TASK, acks_late=False)
def scan_due() -> int:
    """A wake-up: hold the minute, then end. Lost with its process, it is replaced by the next tick."""
    settings = bootstrap.installation()
    try:
        bootstrap.scan_ledger().record_tick(taken=1)
    except bootstrap.DATABASE_FAULTS:
        logger.warning("scan.tick_not_recorded: the database is away")
    return bootstrap.scan().hold(settings.scan_every, shutting_down)


@task(
    name=DELIVER_TASK,
    autoretry_for=bootstrap.DATABASE_FAULTS,
    max_retries=None,
    retry_backoff=1,
    retry_backoff_max=30,
    retry_jitter=True,
)
def deliver(reminder_id: str, delivery_key: str, *_more: Any, **_named: Any) -> str:
    """Deliver one reminder. Retried by Celery only while no claim has committed; later arguments are tolerated."""
    try:
        parsed = UUID(reminder_id)
        key = str(delivery_key)
    except (ValueError, TypeError, AttributeError):
        logger.warning("deliver.malformed: the message names no reminder and is dropped")
        return "malformed"
    return bootstrap.deliver()(parsed, key)


@task(name="reminders.redrive_dead_letters")
def redrive_dead_letters(
    *,
    actor: str,
    reason: str,
    ids: list[str] | None = None,
    tenant: str | None = None,
    kind: str | None = None,
    channel: str | None = None,
    limit: int = 1000,
    checked: bool = False,
) -> int:
    """Send dead letters' reminders again; see `reminders dlq redrive`. Returns how many."""
    wanted = LetterFilter(ids=[UUID(each) for each in ids or ()], tenant=tenant, kind=kind, channel=channel)
    redriven = redrive(bootstrap.database(), wanted, actor=actor, reason=reason, limit=limit, checked=checked)
    logger.info("review.redriven count=%d actor=%s", len(redriven), actor)
    return len(redriven)


@task(name="reminders.make_partitions")
def make_attempt_partitions() -> list[str]:
    """Keep the coming months' partitions of the attempts in existence."""
    return make_partitions(bootstrap.database())


def _count_dropped_tick(request: Any, expired: bool = False, **_: Any) -> None:
    if expired and request.name == SCAN_TASK:
        logger.warning("scan.tick_dropped: it waited longer than a period")
        bootstrap.scan_ledger().record_tick(dropped=1)


signals.task_revoked.connect(_count_dropped_tick, weak=False)

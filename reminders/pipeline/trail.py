"""The trail of each reminder through the log, one line a stage, by which its id can be followed from schedule to its end.

Off unless `REMINDERS_TRAIL` or a log level of DEBUG asks for it: it is some lines a delivery. And what the lines of a
delivery are about, so that each bears its ids, whoever logs it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from uuid import UUID

from reminders.pipeline.ports import Lapsed, Message

trail = logging.getLogger("reminders.trail")

_about: ContextVar[tuple[UUID, str] | None] = ContextVar("about", default=None)


@contextmanager
def about(reminder_id: UUID, delivery_key: str) -> Iterator[None]:
    """Whatever this thread logs within the block is about this delivery."""
    before = _about.set((reminder_id, delivery_key))
    try:
        yield
    finally:
        _about.reset(before)


def follows() -> bool:
    """Whether the trail is logged; for loops, which cost something even if it is not."""
    return trail.isEnabledFor(logging.INFO)


def bound_ids() -> dict[str, str]:
    """What a line that this thread logs now is about."""
    found = _about.get()
    return {} if found is None else {"reminder": str(found[0]), "key": found[1]}


def follow_scheduled(reminder_id: UUID, delivery_key: str, *, created: bool) -> None:
    trail.info("schedule.made reminder=%s key=%s created=%s", reminder_id, delivery_key, created)


def follow_leased(messages: Iterable[Message]) -> None:
    if follows():
        for each in messages:
            trail.info("scan.leased reminder=%s key=%s", each.reminder_id, each.delivery_key)


def follow_sent(messages: Iterable[Message]) -> None:
    if follows():
        for each in messages:
            trail.info("publish.sent reminder=%s key=%s queue=%s", each.reminder_id, each.delivery_key, each.route)


def follow_repaired(rows: Iterable[Lapsed], fate: str) -> None:
    if follows():
        for each in rows:
            at = (each.reminder_id, each.delivery_key, each.claim_number)
            trail.info("repair.lapsed reminder=%s key=%s claim=%d fate=%s", *at, fate)

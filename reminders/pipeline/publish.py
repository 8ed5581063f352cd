"""Publish: leased reminders become messages, and only what the broker surely took stays `published`."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from reminders.pipeline.ports import Message, Publisher, ScanLedger
from reminders.pipeline.tally import PUBLISH_REFUSED, events
from reminders.pipeline.trail import follow_sent

logger = logging.getLogger(__name__)

LOCKED_PAUSES = (0.005, 0.02, 0.05)
"""Seconds before the mark is tried again on rows that it did not get."""
LOCKED_LEASE = 1.0
"""Seconds after which those are leased again that it never got: their lease need not run out for it."""


def publish(
    ledger: ScanLedger,
    publisher: Publisher,
    messages: Sequence[Message],
    token: UUID,
    *,
    redeliver: float,
    lease: float,
    pause: Callable[[float], None] = time.sleep,
) -> int:
    """Mark and send what was leased under `token`; return how many messages the broker accepted.

    The mark is committed before the messages leave: marking five hundred rows afterwards would hold their locks while
    workers try to claim them.
    """
    marked = _marked(ledger, [message.reminder_id for message in messages], token, redeliver, pause)
    # Crash here: rows `published`, nothing sent. Their deadline, or the look that compares ledger and broker, wakes them.
    going_out = [message for message in messages if message.reminder_id in marked]
    accepted = publisher.publish(going_out)
    follow_sent(going_out[:accepted])
    # Crash here: rows `published`, messages sent. Nothing to repair.
    refused = [message.reminder_id for message in going_out[accepted:]]
    if refused:
        # Crash here: rows `published` whose messages may be missing; the deadline wakes them.
        events.add(PUBLISH_REFUSED, len(refused))
        ledger.take_back_if_published(refused, token, lease)
        logger.warning(
            "publish.refused count=%d: the broker did not surely take them; their lease's end wakes them", len(refused)
        )
    return accepted


def _marked(
    ledger: ScanLedger, ids: list[UUID], token: UUID, redeliver: float, pause: Callable[[float], None]
) -> set[UUID]:
    """Mark what is still leased. A scan that looked at the same moment may hold a row's lock for an instant longer.

    What is missing was cancelled, moved or leased by another meanwhile, or is locked by an application.
    """
    marked = set(ledger.mark_published_if_leased(ids, token, redeliver))
    for seconds in LOCKED_PAUSES:
        missing = [each for each in ids if each not in marked]
        if not missing:
            break
        pause(seconds)
        marked.update(ledger.mark_published_if_leased(missing, token, redeliver))
    if missing := [each for each in ids if each not in marked]:
        # Crash here: rows `leased`; the lease's end wakes them.
        ledger.shorten_lease_if_leased(missing, token, LOCKED_LEASE)
    return marked

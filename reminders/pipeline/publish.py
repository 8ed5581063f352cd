"""Publish: leased reminders become messages, and only what the broker surely took stays `published`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from reminders.pipeline.ports import Message, Publisher, ScanLedger

logger = logging.getLogger(__name__)


def publish(
    ledger: ScanLedger,
    publisher: Publisher,
    messages: Sequence[Message],
    token: UUID,
    *,
    redeliver: float,
    lease: float,
) -> int:
    """Mark and send what was leased under `token`; return how many messages the broker accepted.

    The mark is committed before the messages leave: marking five hundred rows afterwards would hold their locks while
    workers try to claim them.
    """
    marked = set(ledger.mark_published_if_leased([message.reminder_id for message in messages], token, redeliver))
    # Crash here: rows `published`, nothing sent. Their deadline, or the look that compares ledger and broker, wakes them.
    going_out = [message for message in messages if message.reminder_id in marked]
    accepted = publisher.publish(going_out)
    # Crash here: rows `published`, messages sent. Nothing to repair.
    refused = [message.reminder_id for message in going_out[accepted:]]
    if refused:
        # Crash here: rows `published` whose messages may be missing; the deadline wakes them.
        ledger.take_back_if_published(refused, token, lease)
        logger.warning(
            "publish.refused count=%d: the broker did not surely take them; their lease's end wakes them", len(refused)
        )
    return accepted

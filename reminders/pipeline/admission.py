"""Admission: a message of something that is capped takes its tokens right before its claim, or waits for its turn.

Messages of what no cap covers carry none, and pass as they are. Whoever gets no claim, gives its tokens back.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from reminders.domain.identity import uuid7
from reminders.domain.turns import KnownCap, Refused
from reminders.pipeline.deliver import Deliver
from reminders.pipeline.tally import REFUSED, events

logger = logging.getLogger(__name__)

MARGIN = 5.0
"""Seconds by which a call's place outlives the claim: the claim's time begins later."""


UNCALLED = "uncalled"
"""What is told instead of a turn where nobody will be called: the tenant has been turned off, or to shadow."""


class Caps(Protocol):
    """What a worker knows of caps."""

    def of(self, ids: Sequence[UUID]) -> Sequence[KnownCap]:
        """Those of the caps that are in force."""


class Tokens(Protocol):
    """Tokens of caps, shared by all workers."""

    def take(self, caps: Sequence[KnownCap], holder: UUID, seconds: float) -> Refused | None: ...

    def give_back(self, caps: Sequence[KnownCap], holder: UUID, *, unused: bool) -> None: ...


class TurnLedger(Protocol):
    """Where a reminder waits for its turn."""

    def wait_for_turn(self, reminder_id: UUID, delivery_key: str, refused: Refused, caps: Sequence[UUID]) -> str:
        """Park it until its turn comes; nothing is burnt. What the message is told, in a word; `UNCALLED`: it is not parked."""

    def hold_again(self, reminder_id: UUID, delivery_key: str, refused: Refused, caps: Sequence[UUID]) -> str:
        """The same for what a drain has let go, and has no token for now: it is held, and let go again."""


@dataclass(frozen=True, slots=True)
class Admission:
    """One worker process's way of delivering, under caps."""

    deliver: Deliver
    caps: Caps
    tokens: Tokens
    ledger: TurnLedger

    def __call__(self, reminder_id: UUID, delivery_key: str, caps: Sequence[UUID] = ()) -> str:
        """Carry one message through; see `Deliver`."""
        known = self.caps.of(caps) if caps else ()
        if not known:
            return self.deliver(reminder_id, delivery_key)
        holder = uuid7()
        refused = self.tokens.take(known, holder, self.deliver.policy.claim + MARGIN)
        # Crash here: tokens taken, no claim. Tokens are lost, places end by themselves; the message comes again.
        if refused is not None:
            lets_go = any(each.lets_go for each in known if each.id == refused.cap)
            put_off = self.ledger.hold_again if lets_go else self.ledger.wait_for_turn
            answer = put_off(reminder_id, delivery_key, refused, caps)
            if answer == UNCALLED:
                return self.deliver(reminder_id, delivery_key)
            logger.info("deliver.no_claim reason=%s cap=%s key=%s", answer, refused.cap, delivery_key)
            events.add(f"{REFUSED}{answer}")
            return answer
        claimed: list[bool] = []
        try:
            return self.deliver(reminder_id, delivery_key, claimed=lambda: claimed.append(True))
        finally:
            self.tokens.give_back(known, holder, unused=not claimed)

"""The answer to one delivery.

The order is the contract: verify, read, apply once, answer. The answers are:

    200   applied, now or before: both get the same body, so that the sender need not know which
    400   signed by the sender, but not a message
    401   the signature is missing, wrong or stale; nothing is stored
    409   the key is known with another body
    413   larger than any message
    503   it could not be stored; the sender calls again
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from reminders.receiver.addresses import Place
from reminders.receiver.group_commit import GroupCommit
from reminders.receiver.kit import NotVerified
from reminders.receiver.message import Malformed, Message, claimed_tenant, message_of, read_claims
from reminders.receiver.misbehaviour import refusal, seconds_of_delay
from reminders.receiver.report import Handled, Tally
from reminders.receiver.store import Effect, Receipt, Store, Verdict
from reminders.receiver.verification import Verifier

logger = logging.getLogger(__name__)

LARGEST_BODY = 64 * 1024
"""Bytes. Our largest message, with every field at its limit, is below 20 KiB."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer with a JSON body, to be sent after `delay` seconds."""

    status: int
    body: bytes
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class _Refusal:
    status: int
    reason: str


class Hook:
    """Answers deliveries. Each one is counted in `tally` and told to `on_delivery`, which must return at once.

    `clock` gives Unix time in seconds.
    """

    def __init__(
        self,
        verifier: Verifier,
        store: Store,
        tally: Tally,
        on_delivery: Callable[[Handled], None],
        clock: Callable[[], float],
    ) -> None:
        self._verifier = verifier
        self._store = store
        self._commits = GroupCommit(store)
        self._tally = tally
        self._on_delivery = on_delivery
        self._clock = clock

    async def post(self, place: Place, headers: Mapping[str, str], body: bytes) -> Answer:
        """Answer a POST to `place`. `headers` must find a name whatever its case."""
        claims = read_claims(body)
        try:
            verified = self._verifier.verify(place.destinations, claimed_tenant(claims), headers, body)
            message = message_of(claims, verified.key)
        except NotVerified as error:
            return self._refuse(_Refusal(401, str(error)))
        except Malformed as error:
            return self._refuse(_Refusal(400, str(error)))
        try:
            result = await self._commits.run(lambda: self._decide(place, message, body))
        except sqlite3.Error:
            logger.exception("receiver.not_stored: the store cannot be written")
            return self._refuse(_Refusal(503, "the store cannot be written; call again"), message)
        if isinstance(result, _Refusal):
            return self._refuse(result, message)
        return self._acknowledge(message, result, seconds_of_delay(place.script, place.query))

    def refuse_too_large(self) -> Answer:
        """Answer a POST whose body nobody will read."""
        return self._refuse(_Refusal(413, f"the body is larger than {LARGEST_BODY} bytes"))

    def _decide(self, place: Place, message: Message, body: bytes) -> Receipt | _Refusal:
        if place.script:
            scripted = refusal(place.script, self._store.calls(message.tenant_id, message.key))
            if scripted is not None:
                self._store.count_call(message.tenant_id, message.key)
                return _Refusal(*scripted)
        effect = Effect(message.tenant_id, message.user_id, message.kind, message.reference, message.due_at)
        return self._store.apply_once(message.key, body, effect)

    def _acknowledge(self, message: Message, receipt: Receipt, delay: float) -> Answer:
        if receipt.verdict is Verdict.CONFLICT:
            return self._refuse(
                _Refusal(409, "this key was received before, with another body"), message, receipt.verdict
            )
        self._tell(Handled(self._now(), 200, message, receipt.verdict, receipt.effect_number))
        return Answer(200, _json(key=message.key, reference=f"effect-{receipt.effect_number}"), delay)

    def _refuse(self, why: _Refusal, message: Message | None = None, verdict: Verdict | None = None) -> Answer:
        self._tell(Handled(self._now(), why.status, message, verdict, reason=why.reason))
        return Answer(why.status, _json(error=why.reason))

    def _tell(self, handled: Handled) -> None:
        self._tally.add(handled.verdict)
        self._on_delivery(handled)

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock(), UTC)


def _json(**fields: object) -> bytes:
    return json.dumps({"v": 1, **fields}, separators=(",", ":"), ensure_ascii=False).encode()

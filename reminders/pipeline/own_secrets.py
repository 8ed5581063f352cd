"""Secrets of a destination's or tenant's own, for signing: fetched and decrypted once for each mark, and then remembered.

A mark changes with every rotation and revocation. What it stands for only ever gets less, by the end of a grace, and that
is remembered with it: neither needs a query, a message to the workers or a restart.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from reminders.domain.delivery import Delivery
from reminders.domain.errors import SecretUnreadable
from reminders.pipeline.ports import Claim

logger = logging.getLogger(__name__)

MOST_REMEMBERED = 4096
"""Marks; each takes about half a kilobyte."""


@dataclass(frozen=True, slots=True)
class OwnSecret:
    """A secret of somebody's own; `seconds` is how long it still signs, None without end."""

    secret: bytes = field(repr=False)
    seconds: float | None


@dataclass(frozen=True, slots=True)
class SecretsOfMark:
    """What a secret mark stands for: own secrets, newest first, and for how many seconds the derived one signs as well."""

    own: tuple[OwnSecret, ...]
    derived: float


class SecretLedger(Protocol):
    """Where secrets of one's own are kept."""

    def of_mark(self, delivery: Delivery, mark: str) -> SecretsOfMark:
        """What `mark` stands for at this delivery's destination. Raises `SecretUnreadable`."""


@dataclass(frozen=True, slots=True)
class _Remembered:
    """Secrets with the instants of this process's clock at which they cease to sign."""

    own: tuple[tuple[bytes, float], ...] = field(repr=False)
    derived_until: float


class OwnSecrets:
    """What the deliveries of one worker process are signed with.

    `derive` gives the secret that is derived for a delivery's destination, or is None where there is no master secret.
    `clock` gives seconds, and should run through a suspension of the machine.
    """

    def __init__(
        self,
        ledger: SecretLedger,
        derive: Callable[[Delivery], bytes] | None,
        *,
        clock: Callable[[], float],
        most: int = MOST_REMEMBERED,
    ) -> None:
        self._ledger = ledger
        self._derive = derive
        self._clock = clock
        self._most = most
        self._lock = Lock()
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()

    def __call__(self, claim: Claim) -> tuple[bytes, ...]:
        """All secrets that sign now, newest first; none where the derived one signs alone.

        Raises `SecretUnreadable`, after a line in the log that says what to do, and what the ledger raises when it is away.
        """
        if claim.secret_mark is None:
            return ()
        try:
            return self._in_force(claim.delivery, claim.secret_mark)
        except SecretUnreadable as error:
            what = " ".join(str(error).split())
            logger.error("secrets.unreadable key=%s: nothing was sent: %s", error.key or "-", what)  # noqa: TRY400
            raise

    def _in_force(self, delivery: Delivery, mark: str) -> tuple[bytes, ...]:
        found = self._find(delivery, mark)
        now = self._clock()
        signing = tuple(secret for secret, until in found.own if now < until)
        if now >= found.derived_until:
            return signing
        if self._derive is None:
            raise SecretUnreadable(
                "", "REMINDERS_WEBHOOK_SECRET is not set, and the secret derived from it still signs"
            )
        return (*signing, self._derive(delivery))

    def _find(self, delivery: Delivery, mark: str) -> _Remembered:
        with self._lock:
            if (known := self._remembered.get(mark)) is not None:
                self._remembered.move_to_end(mark)
                return known
        # Read before the ledger is asked: what has ended by Postgres's clock is then never thought to go on by ours.
        asked_at = self._clock()
        stands_for = self._ledger.of_mark(delivery, mark)
        found = _Remembered(
            tuple(
                (each.secret, float("inf") if each.seconds is None else asked_at + each.seconds)
                for each in stands_for.own
            ),
            asked_at + stands_for.derived,
        )
        with self._lock:
            self._remembered[mark] = found
            while len(self._remembered) > self._most:
                self._remembered.popitem(last=False)
        return found

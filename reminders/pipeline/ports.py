"""What the stages need of the world outside, as protocols; `bootstrap` hands in the concrete parts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol
from uuid import UUID

from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Outcome, Retry
from reminders.domain.retry_policy import Bury, LetterKind, OnUnknown, Park, Wait
from reminders.pipeline.look import Look
from reminders.pipeline.shares import InFlight


@dataclass(frozen=True, slots=True)
class Message:
    """A delivery message for the broker; `route` is the queue's name.

    `caps` are the caps that cover it, and `woke_at` is when it was due: the scan's own knowledge, never sent.
    """

    reminder_id: UUID
    delivery_key: str
    route: str
    caps: tuple[UUID, ...] = ()
    woke_at: datetime | None = field(default=None, compare=False)


class Publisher(Protocol):
    """Puts delivery messages on the broker."""

    def publish(self, messages: Sequence[Message]) -> int:
        """Send them in one pipeline, in order; return how many the broker surely accepted (a prefix).

        Never raises for a broker that is away: returns 0.
        """


@dataclass(frozen=True, slots=True)
class OnBroker:
    """Delivery messages the broker has: waiting in queues, and taken but unacknowledged.

    `held` counts only as far as live workers can hold that many: a killed worker's messages stay unacknowledged until
    the visibility timeout.
    """

    queued: int
    held: int


class Gauge(Protocol):
    """Reads how many delivery messages the broker has."""

    def in_flight(self) -> OnBroker | None:
        """None when the broker cannot be asked."""


@dataclass(frozen=True, slots=True)
class Leased:
    """What one lease came to."""

    messages: list[Message]
    passed_over: Sequence[tuple[str, UUID]] = ()
    """In which lanes there are due rows of which destinations that hold as much as they may."""
    empty: frozenset[str] = frozenset()
    """Lanes that were asked and have no due work any more."""
    put_off: int = 0
    """How many were not leased but put off, because their destination is held."""
    tenants: frozenset[str] = frozenset()
    """Whose rows they were."""


@dataclass(frozen=True, slots=True)
class Lapsed:
    """A claim that has ended and was not carried through to the reminder, with what the delivery row says."""

    reminder_id: UUID
    delivery_key: str
    claim_number: int
    delivery_status: str
    on_unknown: OnUnknown
    attempts: int
    alone_deaths: int
    route: str
    cancel_requested: bool
    waited: float
    seconds_to_retry: float
    letter_kind: LetterKind | None
    confirmed_late: bool
    shut_down: bool
    """Whether its worker had been told to stop: then its end says nothing against the reminder."""


class RepairMoves(Protocol):
    """The moves on lapsed claims, inside one transaction that holds the rows' locks."""

    @property
    def lapsed(self) -> Sequence[Lapsed]:
        """What was found and locked."""

    def repeat(self, rows: Sequence[Lapsed]) -> None:
        """Wake them at once, each alone, under the same key; the outcome so far is unknown.

        After a shutdown no attempt is burnt and each goes where it went before.
        """

    def look_up(self, rows: Sequence[Lapsed]) -> None:
        """The same, for those whose next claim asks the far side for the key instead of sending."""

    def bury(self, rows: Sequence[Lapsed], kind: LetterKind, reason: str) -> None:
        """End them as dead letters."""

    def carry_over(self, rows: Sequence[Lapsed]) -> None:
        """Bring the reminder to where the recorded outcome of the delivery says it is."""

    def confirm_late(self, rows: Sequence[Lapsed]) -> None:
        """End them as delivered: an earlier attempt has reported its success after its claim had lapsed."""


class ScanLedger(Protocol):
    """The moves of the scan."""

    def look(self, limit: int) -> Look: ...

    def lanes_with_due_work(self) -> list[str]: ...

    def in_flight(self, destinations: Sequence[UUID]) -> InFlight:
        """What is on its way or under a claim: of every lane, and of these destinations."""

    def lease(self, limit: int, seconds: float, token: UUID, *, with_retries: bool = True) -> Leased:
        """Lease the rows that have been due longest, at most `limit`; those of route `retry` only if asked."""

    def lease_from_lanes(
        self,
        lanes: Sequence[tuple[str, int]],
        limit: int,
        seconds: float,
        token: UUID,
        *,
        cap: int | None = None,
        with_retries: bool = True,
    ) -> Leased:
        """Lease up to a number of rows from each lane, at most `limit` in all.

        A row is passed over if with it its destination would hold more than `cap`.
        """

    def set_aside(self, passed_over: Sequence[tuple[str, UUID]], limit: int, *, with_retries: bool = True) -> int:
        """Move due rows of a destination from a lane to one of the destination's own; return how many.

        Looks at the `limit` rows of each lane that have been due longest.
        """

    def register_tenants(self, tenants: Iterable[str]) -> None:
        """Let those of the tenants that the ledger does not know yet start as the settings say."""

    def end_given_up(self, limit: int) -> list[str]:
        """End up to `limit` reminders that are past their `give_up_at`; what each has become."""

    def shorten_lease_if_leased(self, ids: Sequence[UUID], token: UUID, seconds: float) -> None:
        """Let leases end `seconds` from now."""

    def within_limits(self, messages: Sequence[Message], token: UUID, *, crowded: bool = False) -> list[Message]:
        """Those of the leased that may go out now, with their caps; if `crowded`, none to who has a slow call open."""

    def hurry(self, limit: int) -> tuple[int, float | None]:
        """Wake what waits under caps that have turns to give: how many, and in how many seconds to ask again, if anything waits."""

    def mark_published_if_leased(self, ids: Sequence[UUID], token: UUID, deadline: float) -> list[UUID]: ...

    def take_back_if_published(self, ids: Sequence[UUID], token: UUID, seconds: float) -> None: ...

    def wake_lost_messages(self, limit: int, older_than: float) -> int:
        """Make the `limit` oldest published rows due at once; the broker no longer has their messages."""

    def release_held(self, limit: int) -> int:
        """Let up to `limit` rows go that a pause holds which has ended, each pause at its rate; how many were looked at.

        What another pause covers stays held, by that one.
        """

    def plan_due(self, limit: int) -> int:
        """Make the next occurrences of up to `limit` series whose time has come; how many were looked at."""

    def repair(self, limit: int) -> AbstractContextManager[RepairMoves]:
        """Lock lapsed claims; the block's moves are committed together."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The committed right to call the provider once."""

    delivery: Delivery
    claim_number: int
    claimed_at: datetime
    on_unknown: OnUnknown
    uncertain: bool
    attempts: int
    """Attempts used before this one, in the present budget."""
    waited: float
    """Seconds since the first attempt of the present budget."""
    body_hash: bytes | None
    """Of the body that an earlier attempt sent; every later one must match it."""
    delays: tuple[float, ...] | None = None
    """Seconds between attempts that the tenant has set instead of the installation's; None if it has not."""
    secret_mark: str | None = None
    """Stands for the secrets of the destination's and its tenant's own, as they are since the last change of either; None
    where neither has any. Before and after the slash: the destination's and the tenant's own mark."""
    template_id: UUID | None = None
    """The version of a template that the first claim pinned; None if the channel has none, or none was found."""

    @property
    def asks(self) -> bool:
        """Whether it is the right to ask the far side for the key, and not to send."""
        return self.uncertain and self.on_unknown == "look_up"

    def unsettled(self, settle: float) -> float:
        """For how many seconds more, of `settle` since the attempt in doubt was claimed, the far side is not asked."""
        since = self.delivery.uncertain_since
        return 0.0 if since is None else settle - (self.claimed_at - since).total_seconds()


@dataclass(frozen=True, slots=True)
class Report:
    """What an attempt came to, for the record.

    `looked_up` marks one that asked for the key instead of sending; if it came to a retry, it is certain that nothing
    was delivered before.
    """

    outcome: Outcome
    duration_ms: int
    body_hash: bytes | None
    looked_up: bool = False
    trips: bool = False
    """Whether so many of the last calls to the destination have failed that its breaker opens."""

    @property
    def certain(self) -> bool:
        """Whether what was unknown before is known now not to have taken effect."""
        return self.looked_up and isinstance(self.outcome, Retry)


class ClaimLedger(Protocol):
    """The moves of deliver. Each is guarded."""

    def claim(self, reminder_id: UUID, delivery_key: str, token: UUID, seconds: float) -> Claim | None: ...

    def claimed_with(self, reminder_id: UUID, delivery_key: str, token: UUID) -> Claim | None:
        """The open claim that was taken with this token, if it was: its reply may have been lost."""

    def refusal(self, reminder_id: UUID, delivery_key: str) -> str:
        """Why there was no claim; a standing reason (expired, confirmed late) is turned into its own move here."""


class FinalizeLedger(Protocol):
    """The moves that end a claim.

    Each answers `done`; `cancel requested` or `confirmed late` (an earlier attempt has reported its success), with
    nothing changed yet; or `lapsed`.
    """

    def finalize_delivered_if_sending(self, claim: Claim, report: Report) -> str: ...

    def finalize_parked_if_sending(self, claim: Claim, report: Report, decision: Park) -> str: ...

    def finalize_waiting_if_sending(self, claim: Claim, report: Report, decision: Wait) -> str:
        """Park it until the hold ends that the outcome asks for, and record that hold; nothing is burnt."""

    def finalize_buried_if_sending(self, claim: Claim, report: Report, decision: Bury) -> str: ...

    def finalize_cancelled_if_sending(self, claim: Claim, report: Report) -> str: ...

    def finalize_confirmed_if_sending(self, claim: Claim, report: Report) -> str:
        """End it as delivered, because an earlier attempt was; this one is recorded as what it came to."""

    def release_not_called_if_sending(self, claim: Claim, seconds: float) -> bool:
        """Give the claim back: the provider was not called, nothing is burnt, wake again after `seconds`."""

    def record_late(self, claim: Claim, report: Report) -> None:
        """Complete the record of an attempt whose claim has lapsed; a late success is stamped on the delivery."""

"""What one provider call came to, as a value. Providers return these; the policy decides what follows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Literal

OutcomeName = Literal["delivered", "retry", "rejected", "unknown", "blocked"]
BlockScope = Literal["destination", "provider"]


@dataclass(frozen=True, slots=True)
class Delivered:
    """The far side confirmed the delivery. `reference` is its own name for it, if it gave one."""

    name: ClassVar[OutcomeName] = "delivered"
    reference: str | None = None
    status_code: int | None = None
    reason: str = ""
    error_class: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """Surely not delivered; worth trying again, at the earliest `after` from now.

    An answer that does not exclude an effect, such as a gateway's, is `Unknown`. `blameless` says that it tells nothing
    against the destination: nothing was called, or the fault is ours. It does not count as its failure. `timed_out` says
    that it took the whole deadline.
    """

    name: ClassVar[OutcomeName] = "retry"
    error_class: str
    reason: str
    status_code: int | None = None
    after: timedelta | None = None
    blameless: bool = False
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Rejected:
    """Refused for good: trying the same again cannot succeed.

    `gone` says that the destination itself is no more: it is disabled, and nothing is sent there until an operator
    enables it. `may_be_our_own` marks a conflict that an earlier attempt at the same key may have caused, being still
    under way: while one is unknown, the answer is no refusal. `blameless`: see `Retry`.
    """

    name: ClassVar[OutcomeName] = "rejected"
    error_class: str
    reason: str
    status_code: int | None = None
    gone: bool = False
    may_be_our_own: bool = False
    blameless: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """The request left us and nothing tells whether it took effect.

    Repeated only where the destination deduplicates on the delivery key; otherwise a person decides. `blameless`: see `Retry`.
    """

    name: ClassVar[OutcomeName] = "unknown"
    error_class: str
    reason: str
    status_code: int | None = None
    timed_out: bool = False
    blameless: bool = False


@dataclass(frozen=True, slots=True)
class Blocked:
    """Not sent, and nothing would be sent until `after` has passed; the attempt is not counted.

    Scope `destination`: the far side asks for a pause, and all reminders that go there wait. Scope `provider`: our own
    credentials for the channel were refused, and all of the tenant's reminders over the channel wait. That is told to a
    person, unless it is `passing`: a limit that ends by itself. The policy takes `after` as at least one second and at most
    a day.
    """

    name: ClassVar[OutcomeName] = "blocked"
    scope: BlockScope
    after: timedelta
    error_class: str
    reason: str
    status_code: int | None = None
    passing: bool = False


Outcome = Delivered | Retry | Rejected | Unknown | Blocked

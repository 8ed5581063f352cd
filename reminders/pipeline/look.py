"""What one look of a scan at the ledger shows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the wake index shows; counts stop at the limit that was asked for."""

    published: int
    sending: int
    due: int
    lapsed: int
    given_up: bool
    """Whether reminders are past their `give_up_at` and have no open claim."""
    retrying: int
    """How many of those in flight go to queue `retry`."""
    seconds_to_next: float | None
    """Until the earliest row that is not yet due wakes; None if there is none."""
    limited: bool = False
    """Whether caps or the state of destinations may stand in the way of what is due."""
    others: int = 0
    """Of the rows that were counted as due, how many are of other dispatchers' tenants. They are in no other count."""
    crowded_out: bool = False
    """Whether the count stopped at its limit among rows of others: behind them there may be due work of our own."""
    slow: int = 0
    """How many of those `sending` are slow calls."""

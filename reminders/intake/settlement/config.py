"""What a reconciliation is set up to do: whose files, in what form, against which orders, and who is told of what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time, timedelta

from reminders.domain.settlement import DecisionName
from reminders.intake.settlement.formats import Format


@dataclass(frozen=True, slots=True)
class Rule:
    """The reminder that one kind of decision makes.

    `due` counts from when the decision was first made; `at` moves it to the next such wall time in the order's zone
    (else in `zone`, else UTC); `expires` counts from there. Tenant, user and destination are an operator's, and given
    for `unknown_order` alone: all other decisions are told to the order's own user.
    """

    kind: str
    channel: str
    due: timedelta = timedelta(0)
    at: time | None = None
    zone: str | None = None
    expires: timedelta | None = None
    tenant_id: str | None = None
    user_id: str | None = None
    destination: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class SqlQueries:
    """The texts of the built-in matcher. `query` takes `:references`; `expected` takes `:before`, `:after`, `:limit`."""

    query: str
    expected: str | None = None


@dataclass(frozen=True, slots=True)
class Nightly:
    """The file that is fetched every night. `at` is a wall time in `zone`; `{date}` in the URL becomes a date there."""

    url: str = field(repr=False)
    """May carry a signature: it belongs into no log, error or message."""
    at: time
    zone: str
    days_ago: int = 0
    """Which date `{date}` is: 0 is the day on which the file is fetched."""


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """One provider's account: how its files are read, matched and told of.

    `matcher` is a `module:attribute`, or the queries of the built-in one. Decisions without a rule are recorded and not
    told. `grace` is how long a payout may be late; decisions whose payout was longer than `max_age` ago are not told.
    """

    source: str
    format: Format
    matcher: str | SqlQueries
    grace: timedelta
    max_age: timedelta
    rules: Mapping[DecisionName, Rule]
    nightly: Nightly | None

"""How lines find their orders: the application's matcher, or one over a table of its database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, runtime_checkable

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import RemindersError
from reminders.domain.settlement import Decision, Order


class MatcherFault(RemindersError):
    """The application's matcher or hook raised, or gave what is no answer. Its page was rolled back."""


class Matcher(Protocol):
    """What the application supplies. `connection` is a psycopg2 connection inside the page's transaction.

    It may read and write with it and must neither commit nor roll back.
    """

    def match(self, connection: DriverConnection, references: Sequence[str]) -> Mapping[str, Order]:
        """The orders of these references, by reference; unknown ones are left out. Asked once for a page."""

    def expected(
        self, connection: DriverConnection, *, before: datetime, after: str | None, limit: int
    ) -> Sequence[Order]:
        """Orders whose payout was expected before an instant, by reference, at most `limit` of those beyond `after`."""


@dataclass(frozen=True, slots=True)
class Decided:
    """One change of the decisions. `decision` is what stands now, or of a withdrawn one what stood."""

    outcome: Literal["created", "corrected", "withdrawn"]
    decision: Decision


@runtime_checkable
class HearsDecisions(Protocol):
    """What a matcher has besides, if the application keeps something of the decisions itself."""

    def decided(self, connection: DriverConnection, decisions: Sequence[Decided]) -> None:
        """Called in the page's transaction with what has changed; whatever it writes is committed with the decisions."""


def load_matcher(name: str) -> Matcher:
    """The matcher that `module:attribute` names; an attribute that is a class or function is called without arguments.

    Raises `SettingsError` naming what cannot be found.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class SqlMatcher:
    """A matcher over the application's own tables in the same database.

    `query` takes `:references` (text[]), `expected_query` takes `:before`, `:after` (null at first) and `:limit` and gives
    rows in the order of reference. Columns are named as the fields of `Order`; `destination_<channel>` are its destinations.
    """

    query: str
    expected_query: str | None = None

    def match(self, connection: DriverConnection, references: Sequence[str]) -> Mapping[str, Order]:
        """As `Matcher` says."""
        raise NotImplementedError

    def expected(
        self, connection: DriverConnection, *, before: datetime, after: str | None, limit: int
    ) -> Sequence[Order]:
        """As `Matcher` says."""
        raise NotImplementedError


Rows = Sequence[Mapping[str, Any]]

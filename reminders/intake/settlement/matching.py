"""How lines find their orders: the application's matcher, or one over tables of its database."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from psycopg2.errors import ReadOnlySqlTransaction
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import RemindersError, SettingsError
from reminders.domain.money import has_more_digits
from reminders.domain.settlement import Decision, Order
from reminders.intake.patience import first_line
from reminders.intake.settlement.config import SqlQueries
from reminders.ledger.database import DATABASE_AWAY
from reminders.ledger.settlement_matching import is_open, run_query
from reminders.providers.redaction import redact

DESTINATION = "destination_"
_NEEDED = ("reference", "tenant_id", "user_id", "amount", "currency")
_ANSWER = TypeVar("_ANSWER")


class MatcherFault(RemindersError):
    """The application's matcher or hook raised, or gave what is no answer. Its page was rolled back."""


class Matcher(Protocol):
    """What the application supplies. `connection` is a psycopg2 connection inside the page's transaction.

    It may read and write with it, and must neither commit nor roll back.
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


@dataclass(frozen=True, slots=True)
class SqlMatcher:
    """A matcher over the application's own tables in the same database, which it can only read.

    `query` takes `:references` (text[]); `expected_query` takes `:before`, `:after` (null at first) and `:limit`, and gives
    its rows by reference. Columns are named as the fields of `Order`; those of `destination_<channel>` are its destinations.
    """

    query: str
    expected_query: str | None = None

    def match(self, connection: DriverConnection, references: Sequence[str]) -> Mapping[str, Order]:
        """As `Matcher` says."""
        rows = _rows(connection, "query", self.query, {"references": list(references)})
        return {order.reference: order for order in map(_order, rows)}

    def expected(
        self, connection: DriverConnection, *, before: datetime, after: str | None, limit: int
    ) -> Sequence[Order]:
        """As `Matcher` says; nothing is expected without a query for it."""
        if self.expected_query is None:
            return ()
        given = {"before": before, "after": after, "limit": limit}
        rows = _rows(connection, "expected", self.expected_query, given)
        return [_order(row) for row in rows]


class AskedMatcher:
    """A matcher whose answers are checked before anything is made of them. Everything raises `MatcherFault`."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    def match(self, connection: DriverConnection, references: Sequence[str]) -> Mapping[str, Order]:
        """The known ones of these orders."""
        if not references:
            return {}
        found = self._ask(connection, "match", lambda: self._matcher.match(connection, references))
        if not isinstance(found, Mapping):
            raise MatcherFault(f"{self._name('match')} must return a mapping of orders, not {type(found).__name__}")
        wanted = set(references)
        for reference, order in found.items():
            self._check("match", order)
            if order.reference != reference:
                raise MatcherFault(f"{self._name('match')} gave order {order.reference!r} for reference {reference!r}")
        return {reference: order for reference, order in found.items() if reference in wanted}

    def expected(self, connection: DriverConnection, *, before: datetime, after: str | None, limit: int) -> list[Order]:
        """The next orders whose payout was expected before an instant."""
        found = self._ask(
            connection,
            "expected",
            lambda: list(self._matcher.expected(connection, before=before, after=after, limit=limit)),
        )[:limit]
        for order in found:
            self._check("expected", order)
            if order.reference == after:
                raise MatcherFault(
                    f"{self._name('expected')} gave order {after!r} again; it must give those beyond `after`"
                )
        return found

    def tell(self, connection: DriverConnection, decided: Sequence[Decided]) -> None:
        """Let the application hear what has changed, if it wants to."""
        matcher: Any = self._matcher
        if decided and isinstance(matcher, HearsDecisions):
            self._ask(connection, "decided", lambda: matcher.decided(connection, decided))

    def _ask(self, connection: DriverConnection, what: str, call: Callable[[], _ANSWER]) -> _ANSWER:
        try:
            answer = call()
        except DATABASE_AWAY:
            raise
        except MatcherFault as fault:
            raise MatcherFault(f"{self._name(what)}: {redact(str(fault))}") from fault
        except (Exception, SystemExit) as error:
            # A matcher that ends the process would end it as if all had been done.
            said = redact(first_line(error))
            raise MatcherFault(f"{self._name(what)} raised {type(error).__name__}: {said}") from error
        if not is_open(connection):
            raise MatcherFault(
                f"{self._name(what)} ended the page's transaction, or went on after an error of Postgres in it; "
                "it must neither commit nor roll back"
            )
        return answer

    def _check(self, what: str, given: object) -> None:
        if not isinstance(given, Order):
            raise MatcherFault(
                f"{self._name(what)} must give objects of reminders.reconciliation.Order, not {type(given).__name__}"
            )
        order: Any = given  # what it holds is the application's
        at = order.payout_expected_at
        if not isinstance(order.amount, Decimal) or not order.amount.is_finite():
            fault = "amount must be a Decimal"
        elif not isinstance(order.currency, str) or not order.currency:
            fault = "currency must be a code such as EUR"
        elif order.amount < 0:
            fault = "amount is negative"
        elif has_more_digits(order.amount, order.currency):
            fault = f"amount has more digits than {order.currency} has"
        elif not isinstance(order.destinations, Mapping):
            fault = "destinations must be a mapping by channel"
        elif at is not None and (not isinstance(at, datetime) or at.utcoffset() is None):
            fault = "payout_expected_at must be a datetime with its UTC offset"
        else:
            return
        raise MatcherFault(f"{self._name(what)}, order {order.reference!r}: {fault}")

    def _name(self, what: str) -> str:
        return f"{type(self._matcher).__name__}.{what}"


def load_matcher(named: str | SqlQueries) -> Matcher:
    """The matcher a configuration names: `module:attribute`, where a class or function is called without arguments, or
    the built-in one with these queries.

    Raises `SettingsError` naming what cannot be found or does not do.
    """
    if isinstance(named, SqlQueries):
        return SqlMatcher(named.query, named.expected)
    module, _, attribute = named.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        if not hasattr(found, "match") or isinstance(found, type):
            found = found()
    except (Exception, SystemExit) as error:
        raise SettingsError(
            f"matcher {named!r} cannot be had: {type(error).__name__}: {redact(first_line(error))}"
        ) from error
    lacking = [name for name in ("match", "expected") if not callable(getattr(found, name, None))]
    if lacking:
        raise SettingsError(f"matcher {named!r} lacks {' and '.join(lacking)}; see docs/reconciliation.md")
    matcher: Matcher = found
    return matcher


def _rows(connection: DriverConnection, name: str, sql: str, given: Mapping[str, Any]) -> list[dict[str, Any]]:
    try:
        return run_query(connection, sql, given)
    except ReadOnlySqlTransaction as error:
        raise MatcherFault(f"{name} must only read: {first_line(error)}") from error


def _order(row: Mapping[str, Any]) -> Order:
    lacking = [name for name in _NEEDED if row.get(name) is None]
    if lacking:
        named = f"order {row['reference']!r}" if row.get("reference") is not None else "a row"
        raise MatcherFault(f"{named} has no {', '.join(lacking)}")
    amount = row["amount"]
    return Order(
        reference=str(row["reference"]),
        tenant_id=str(row["tenant_id"]),
        user_id=str(row["user_id"]),
        amount=Decimal(amount) if isinstance(amount, int) else amount,
        currency=str(row["currency"]).upper(),
        destinations={
            name.removeprefix(DESTINATION): str(value)
            for name, value in row.items()
            if name.startswith(DESTINATION) and value is not None
        },
        zone=row.get("zone"),
        payout_expected_at=row.get("payout_expected_at"),
    )

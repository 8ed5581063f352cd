"""A page of orders: read what is known of them, ask for the orders, decide, and write what has changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.deciding import CONCERNS_AN_ORDER
from reminders.domain.settlement import Order
from reminders.intake.settlement.applying import Applied, Applying
from reminders.intake.settlement.comparing import Group, Item, compare
from reminders.intake.settlement.config import Reconciliation
from reminders.intake.settlement.matching import AskedMatcher, Decided
from reminders.ledger import settlement_decisions, settlement_lines, settlement_runs
from reminders.ledger.settlement_lines import OF_ORDER

PAGE = 500
"""Orders that are decided over in one transaction."""


class Settling:
    """Decides over pages of orders of one source, in the caller's transaction."""

    def __init__(self, schema: str, config: Reconciliation, matcher: AskedMatcher, applying: Applying) -> None:
        self._schema = schema
        self._config = config
        self._matcher = matcher
        self._applying = applying

    def look(self, connection: DriverConnection, keys: Sequence[str], *, now: datetime) -> list[Item]:
        """What follows for these groups, against what is on record. Plans by index from here on."""
        references = [key.removeprefix(OF_ORDER) for key in keys if key.startswith(OF_ORDER)]
        return self._compare(connection, keys, self._matcher.match(connection, references), now)

    def look_for_missing(self, connection: DriverConnection, *, after: str, now: datetime) -> tuple[list[Item], str]:
        """The same for orders of which nothing has come although it should have; and the last of them, or ''."""
        orders = self._matcher.expected(connection, before=now - self._config.grace, after=after or None, limit=PAGE)
        by_key = {f"{OF_ORDER}{order.reference}": order for order in orders}
        settlement_runs.by_index(connection)
        lines = settlement_lines.of_groups(connection, self._schema, self._config.source, list(by_key))
        keys = [key for key in by_key if not any(each.category in CONCERNS_AN_ORDER for each in lines.get(key, ()))]
        items = self._compare(connection, keys, {order.reference: order for order in orders}, now)
        return items, orders[-1].reference if orders else ""

    def apply(
        self, connection: DriverConnection, run: UUID, items: Sequence[Item], *, now: datetime, reminders: bool
    ) -> list[Applied]:
        """Write what has changed, and let the application hear of it in the same transaction."""
        settlement_runs.by_index(connection)
        done = self._applying.apply(connection, run, items, now=now, reminders=reminders)
        settlement_runs.as_usual(connection)
        self._matcher.tell(connection, [decided for each in done if (decided := _decided(each)) is not None])
        return done

    def _compare(
        self, connection: DriverConnection, keys: Sequence[str], orders: Mapping[str, Order], now: datetime
    ) -> list[Item]:
        source = self._config.source
        settlement_runs.by_index(connection)
        lines = settlement_lines.of_groups(connection, self._schema, source, keys)
        references = {key: key.removeprefix(OF_ORDER) for key in keys if key.startswith(OF_ORDER)}
        groups = [Group(key, orders.get(references.get(key, "")), lines.get(key, ())) for key in keys]
        ids = [line.line_id for found in lines.values() for line in found]
        on_record = settlement_decisions.recorded(connection, self._schema, source, list(references.values()), ids)
        return compare(source, groups, on_record, now=now, grace=self._config.grace)


def _decided(applied: Applied) -> Decided | None:
    match applied.outcome:
        case "created" | "corrected" | "withdrawn" as outcome:
            return Decided(outcome, applied.record.decision)
    return None

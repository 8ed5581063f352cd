"""An application with orders of its own, the files its provider writes, and hands to reconcile them."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from reminders.domain.settlement import DECISIONS, DecisionName
from reminders.intake.settlement.config import Reconciliation, Rule, SqlQueries
from reminders.intake.settlement.files import carry_out, check, pages
from reminders.intake.settlement.matching import load_matcher
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import AlreadyRunning, Run, Workshop, begin
from reminders.intake.settlement.stripe import stripe_format
from reminders.ledger.database import Database
from reminders.settings import Settings

ORDERS = "shop_orders"
QUERY = f"""
SELECT reference, 'shop' AS tenant_id, customer AS user_id, amount, currency, zone, hook AS destination_webhook,
       payout_expected_at FROM {ORDERS} WHERE reference = ANY (:references)"""
EXPECTED = f"""
SELECT reference, 'shop' AS tenant_id, customer AS user_id, amount, currency, zone, hook AS destination_webhook,
       payout_expected_at FROM {ORDERS}
WHERE payout_expected_at < :before AND (:after IS NULL OR reference > :after) ORDER BY reference LIMIT :limit"""
HOOK = "http://127.0.0.1:8780/hook"
COLUMNS = (
    "automatic_payout_id,automatic_payout_effective_at_utc,balance_transaction_id,created_utc,currency,gross,fee,net,"
    "reporting_category,source_id,payment_intent_id,charge_id,payment_metadata[order_id]"
)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DUE = timedelta(days=1)


def rules(**more: Any) -> dict[DecisionName, Rule]:
    """A webhook for every decision, a day later; for unknown orders an operator's."""
    told = {name: Rule(kind=name, channel="webhook", due=DUE, **more) for name in DECISIONS}
    told["unknown_order"] = Rule(
        kind="unknown_order", channel="webhook", due=DUE, tenant_id="ops", user_id="desk", destination=HOOK
    )
    return told


def config(**more: Any) -> Reconciliation:
    wanted: dict[str, Any] = {
        "source": "stripe",
        "format": stripe_format(),
        "matcher": SqlQueries(QUERY, EXPECTED),
        "grace": timedelta(days=2),
        "max_age": timedelta(days=14),
        "rules": rules(),
        "nightly": None,
    }
    return Reconciliation(**{**wanted, **more})


@dataclass(frozen=True)
class Row:
    """One line of a file. `order` is its reference."""

    line: str
    order: str = ""
    gross: str = "50.00"
    category: str = "charge"
    charge: str = ""
    payout: str = "po_1"
    currency: str = "eur"
    fee: str = "0.00"
    created: datetime = TODAY - timedelta(days=2)
    paid: datetime = TODAY - timedelta(days=1)

    def text(self) -> str:
        net = Decimal(self.gross) - Decimal(self.fee)
        return (
            f"{self.payout},{self.paid:%Y-%m-%d %H:%M:%S},{self.line},{self.created:%Y-%m-%d %H:%M:%S},{self.currency},"
            f"{self.gross},{self.fee},{net},{self.category},src,pi,{self.charge or 'ch_' + self.line},{self.order}"
        )


def file_of(rows: Iterable[Row | str]) -> bytes:
    texts = (row if isinstance(row, str) else row.text() for row in rows)
    return "".join(f"{text}\n" for text in (COLUMNS, *texts)).encode()


class Shop:
    """The application's side: its orders, and what it runs."""

    def __init__(self, database: Database, settings: Settings, told: list[str] | None = None) -> None:
        self.database = database
        self.settings = settings
        self.told: list[str] = [] if told is None else told
        self.now: datetime | None = None

    def sql(self, text: str, *given: Any) -> list[tuple[Any, ...]]:
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute(text, given)
            return cursor.fetchall() if cursor.description else []

    def order(self, reference: str, amount: str = "50.00", **more: Any) -> None:
        given = {
            "customer": f"user of {reference}",
            "currency": "EUR",
            "zone": None,
            "hook": HOOK,
            "payout_expected_at": None,
        }
        given.update(more)
        names = ", ".join(given)
        self.sql(
            f"INSERT INTO {ORDERS} (reference, amount, {names}) VALUES (%s, %s{', %s' * len(given)}) "
            f"ON CONFLICT (reference) DO UPDATE SET amount = EXCLUDED.amount, "
            + ", ".join(f"{name} = EXCLUDED.{name}" for name in given),
            reference, Decimal(amount), *given.values(),
        )  # fmt: skip

    def workshop(self, matcher: Any = None, **more: Any) -> Workshop:
        settings = config(**more)
        clock = None if self.now is None else (lambda: self.now)
        found = load_matcher(settings.matcher) if matcher is None else matcher
        return Workshop(self.database, self.settings, settings, found, self.told.append, clock=clock)

    def begin(self, content: bytes, workshop: Workshop, **wishes: Any) -> tuple[Run | AlreadyRunning, Any]:
        checked = check(io.BytesIO(content), "f.csv", workshop.config.format)
        return begin(workshop, checked.file, actor="test", **wishes), checked.header

    def run(self, rows: Iterable[Row | str] | bytes, matcher: Any = None, **more: Any) -> Report:
        """A file from begin to end."""
        wishes = {name: more.pop(name) for name in ("only_page", "reminders", "lease") if name in more}
        content = rows if isinstance(rows, bytes) else file_of(rows)
        workshop = self.workshop(matcher, **more)
        run, header = self.begin(content, workshop, **wishes)
        assert isinstance(run, Run), run
        return carry_out(run, header, pages(io.BytesIO(content), workshop.config.format))

    def look_for_missing(self, **more: Any) -> Report:
        run = begin(self.workshop(**more), "missing", actor="test")
        assert isinstance(run, Run)
        return carry_out(run)

    def decisions(self) -> set[tuple[Any, ...]]:
        """What stands, without its times."""
        return set(
            self.sql(
                "SELECT name, order_reference, line_id, payout_id, currency, trim_scale(amount), trim_scale(total), trim_scale(expected), reason "
                "FROM reminders.reconciliation_decisions WHERE withdrawn_at IS NULL"
            )
        )

    def reminders(self, *statuses: str) -> set[tuple[Any, ...]]:
        """Kind, user, reference, slot and the amount told of reminders, those of these statuses (live without any)."""
        return set(
            self.sql(
                "SELECT kind, user_id, reference, slot, data->>'amount' FROM reminders.reminders WHERE status = ANY (%s)",
                list(statuses or ["live"]),
            )
        )

    def image(self) -> tuple[Any, ...]:
        """All that a replay must leave as it is: decisions and reminders, row by row."""
        return tuple(
            self.sql(f"SELECT to_jsonb(t)::text FROM reminders.{table} t ORDER BY 1")
            for table in ("settlement_lines", "reconciliation_decisions", "reminders", "due", "notification_deliveries")
        )

    def sums(self, report: Report) -> tuple[Any, ...]:
        return report.categories, report.decisions

    def deliver(self, kind: str) -> None:
        """As a worker would have: the reminders of this kind are sent."""
        with self.database.transaction() as connection, connection.cursor() as cursor:
            cursor.execute("SET LOCAL search_path = reminders")
            cursor.execute(
                "UPDATE reminders SET status = 'delivered', finished_at = clock_timestamp(), last_outcome = 'delivered' "
                "WHERE kind = %s AND status = 'live'", (kind,),
            )  # fmt: skip
            cursor.execute("DELETE FROM due d USING reminders r WHERE r.id = d.id AND r.status = 'delivered'")


def changed(row: Row, **more: Any) -> Row:
    return replace(row, **more)


def statuses(found: Mapping[str, int]) -> dict[str, int]:
    return dict(found)

"""One run: what a bookkeeper would conclude, and who is told."""

from datetime import timedelta
from decimal import Decimal

from integration.settlement.shop import DUE, TODAY, Row


def test_an_order_paid_in_full_is_settled_and_its_customer_told(shop):
    shop.order("A", "50.00")
    report = shop.run([Row("l1", "A", "50.00", fee="1.50"), Row("p1", "", "-48.50", "payout")])
    assert shop.decisions() == {("settled", "A", None, "po_1", "EUR", Decimal(50), None, Decimal(50), None)}
    assert shop.reminders() == {("settled", "user of A", "A", "settled:po_1", "50.00")}
    assert (report.run.state, report.run.read, report.run.new) == ("finished", 2, 2)
    assert [
        (each.category, each.currency, each.count, each.gross, each.fee, each.net) for each in report.categories
    ] == [
        ("charge", "EUR", 1, Decimal("50.00"), Decimal("1.50"), Decimal("48.50")),
        ("payout", "EUR", 1, Decimal("-48.50"), Decimal(0), Decimal("-48.50")),
    ]
    assert [(each.decision, each.currency, each.count, each.amount) for each in report.decisions] == [
        ("settled", "EUR", 1, Decimal("50.00"))
    ]
    assert report.outcomes == {"created": 1}
    assert report.reminders == {"live": 1}
    assert report.payouts == ()
    ((due_at, decided_at),) = shop.sql(
        "SELECT r.due_at, d.decided_at FROM reminders.reminders r JOIN reminders.reconciliation_decisions d ON d.reminder_id = r.id"
    )
    assert due_at == decided_at + DUE


def test_missing_after_grace(shop):
    shop.order("A", payout_expected_at=TODAY - timedelta(days=5))
    shop.order("B", payout_expected_at=TODAY - timedelta(days=1))
    report = shop.run([])
    assert {each[:3] for each in shop.decisions()} == {("missing", "A", None)}
    assert report.outcomes == {"created": 1}
    report = shop.run([Row("l1", "A")])
    assert {each[:3] for each in shop.decisions()} == {("settled", "A", None)}
    assert report.outcomes == {"created": 1, "withdrawn": 1}
    assert {each[0] for each in shop.reminders()} == {"settled"}
    assert {each[0] for each in shop.reminders("cancelled")} == {"missing"}

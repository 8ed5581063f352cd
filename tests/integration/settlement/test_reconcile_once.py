"""One run: what a bookkeeper would conclude, and who is told."""

from datetime import timedelta
from decimal import Decimal

from integration.settlement.shop import DUE, TODAY, Row


def test_an_order_paid_in_full_is_settled_and_its_customer_told(shop):
    shop.order("A", "50.00")
    report = shop.run([Row("l1", "A", "50.00", fee="1.50"), Row("p1", "", "-48.50", "payout")])
    assert shop.decisions() == {("settled", "A", None, "po_1", "EUR", Decimal(50), None, Decimal(50), None)}
    assert shop.reminders() == {("settled", "user of A", "A", "settled:stripe:po_1", "50.00")}
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
    shop.order("B", payout_expected_at=TODAY)  # nor yet when midnight has passed since
    report = shop.run([])
    assert {each[:3] for each in shop.decisions()} == {("missing", "A", None)}
    assert report.outcomes == {"created": 1}
    report = shop.run([Row("l1", "A")])
    assert {each[:3] for each in shop.decisions()} == {("settled", "A", None)}
    assert report.outcomes == {"created": 1, "withdrawn": 1}
    assert {each[0] for each in shop.reminders()} == {"settled"}
    assert {each[0] for each in shop.reminders("cancelled")} == {"missing"}


def test_a_look_for_missing_orders_alone_also_withdraws_what_is_missing_no_more(shop):
    shop.order("A", payout_expected_at=TODAY - timedelta(days=5))
    assert shop.look_for_missing().outcomes == {"created": 1}
    assert shop.look_for_missing().outcomes == {"unchanged": 1}
    shop.order("A", payout_expected_at=None)
    report = shop.look_for_missing()
    assert (report.run.kind, report.outcomes) == ("missing", {"withdrawn": 1})
    assert {each[0] for each in shop.reminders("cancelled")} == {"missing"}


def test_a_file_about_other_orders_also_withdraws_what_is_missing_no_more(shop):
    shop.order("A", payout_expected_at=TODAY - timedelta(days=5))
    shop.run([])
    shop.order("A", payout_expected_at=None)
    shop.order("B")
    assert shop.run([Row("b", "B")]).outcomes == {"created": 1, "withdrawn": 1}
    assert {each[:2] for each in shop.decisions()} == {("settled", "B")}


def test_two_sources_with_the_same_orders_and_payouts_tell_each_what_they_have_to_tell(shop):
    shop.order("A")
    shop.order("M", payout_expected_at=TODAY - timedelta(days=5))
    for source in ("stripe", "adyen"):
        report = shop.run([Row("a", "A")], source=source)
        assert report.outcomes == {"created": 2}
        assert report.not_told == {}
    assert {each[:4] for each in shop.reminders()} == {
        (name, f"user of {order}", order, f"{name}:{source}:{payout}")
        for name, order, payout in (("settled", "A", "po_1"), ("missing", "M", ""))
        for source in ("stripe", "adyen")
    }

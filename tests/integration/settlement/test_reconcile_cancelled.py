"""What a person has cancelled, and what a run has: only the latter comes back."""

import pytest

from integration.settlement.shop import Row, changed

CANCEL = "SELECT reminders.cancel(id) FROM reminders.reminders WHERE kind = 'refunded' AND reference = 'C'"
REFUND = Row("r", "", "-5.00", "refund", charge="ch_c")


@pytest.fixture
def refunded(shop):
    """Two orders, of which C was refunded in part."""
    shop.order("A")
    shop.order("C")
    shop.run([Row("a", "A"), Row("c", "C"), REFUND])
    return shop


@pytest.mark.parametrize("after_the_move", [False, True], ids=["before", "after"])
def test_what_a_person_cancelled_stays_so_when_its_line_moves_to_another_order_and_back(refunded, after_the_move):
    if not after_the_move:
        refunded.sql(CANCEL)
    refunded.run([changed(REFUND, order="A")])
    if after_the_move:
        assert refunded.sql(CANCEL) == [("cancelled",)]
    report = refunded.run([changed(REFUND, order="C", gross="-6.00")])
    assert "refunded" not in {each[0] for each in refunded.reminders()}
    (found,) = [each for each in report.changes if each.decision == "refunded"]
    assert found.note.endswith("its reminder was cancelled and was left as it is")
    assert refunded.sql("SELECT told, told_reason FROM reminders.reconciliation_decisions WHERE name = 'refunded'") == [
        ("left", "was cancelled")
    ]


def test_what_a_run_has_withdrawn_says_so_until_it_comes_back(refunded):
    withdrawn = (
        "SELECT status, withdrawn_at IS NOT NULL FROM reminders.reminders WHERE kind = 'refunded' AND reference = 'C'"
    )
    assert refunded.sql(withdrawn) == [("live", False)]
    refunded.run([changed(REFUND, order="A")])
    assert refunded.sql(withdrawn) == [("cancelled", True)]
    refunded.run([changed(REFUND, order="C")])
    assert refunded.sql(withdrawn) == [("live", False)]

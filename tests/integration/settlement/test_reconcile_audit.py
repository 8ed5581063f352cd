"""The audit names what should exist and does not, and repairs it when asked; a run in work is left alone."""

import io
from datetime import timedelta

import pytest

from integration.settlement.shop import TODAY, Row, file_of
from reminders.intake.settlement.auditing import audit
from reminders.intake.settlement.files import pages
from reminders.intake.settlement.running import AlreadyRunning, begin

ROWS = [
    Row("a", "A"),
    Row("b", "B", "40.00"),
    Row("c", "C"),
    Row("u", "nobody's"),
    Row("r", "", "-5.00", "refund", charge="ch_c"),
]


@pytest.fixture
def told(shop):
    for reference in ("A", "B", "C"):
        shop.order(reference)
    shop.run(ROWS)
    return shop


def found(result):
    return {(each.finding, each.decision, each.order or each.line_id, each.repaired) for each in result.found}


def check(shop, **wishes):
    return audit(shop.workshop(), actor="test", **wishes)


def test_nothing_is_named_where_all_is_there(told):
    result = check(told)
    assert (result.counts, result.decisions, result.run_id) == ({}, 5, None)
    assert result.statuses == {
        ("settled", "live"): 2, ("short_paid", "live"): 1, ("unknown_order", "live"): 1, ("refunded", "live"): 1,
    }  # fmt: skip
    image = told.image()
    assert check(told, repair=True).counts == {}
    assert told.image() == image


PLANTED = {
    "DELETE FROM reminders.reconciliation_decisions WHERE order_reference = 'A'": ("decision_missing", "settled", "A"),
    "UPDATE reminders.reconciliation_decisions SET amount = 41 WHERE order_reference = 'B'": ("decision_differs", "short_paid", "B"),
    "DELETE FROM reminders.due; DELETE FROM reminders.reminders WHERE kind = 'refunded'": ("reminder_missing", "refunded", "C"),
    "UPDATE shop_orders SET amount = 60 WHERE reference = 'A'": ("decision_stale", "settled", "A"),
    "UPDATE reminders.reconciliation_decisions SET withdrawn_at = now() WHERE name = 'settled' AND order_reference = 'C'; "
    "UPDATE shop_orders SET amount = 60 WHERE reference = 'C'": ("reminder_stale", "settled", "C"),
}  # fmt: skip


@pytest.mark.parametrize(("plant", "named"), PLANTED.items())
def test_what_is_planted_is_named_changes_nothing_and_is_repaired_when_asked(told, plant, named):
    told.sql(plant)
    image = told.image()
    result = check(told)
    assert (*named, False) in found(result)
    assert result.repaired == 0
    assert told.image() == image
    repaired = check(told, repair=True)
    assert (*named, True) in found(repaired)
    assert repaired.repaired == sum(repaired.counts.values())
    assert repaired.run_id is not None
    assert check(told).counts == {}
    settled_by_run = told.run(ROWS)
    assert set(settled_by_run.outcomes) == {"unchanged"}


def test_what_died_or_could_not_be_told_is_named_and_not_repaired_here(told):
    told.sql("DELETE FROM reminders.due WHERE id IN (SELECT id FROM reminders.reminders WHERE kind = 'short_paid')")
    told.sql("UPDATE reminders.reminders SET status = 'dead', finished_at = now() WHERE kind = 'short_paid'")
    told.order("D", hook=None)
    told.run([Row("d", "D")])
    result = check(told, repair=True)
    assert found(result) == {("not_delivered", "short_paid", "B", False), ("not_told", "settled", "D", False)}
    assert result.statuses["short_paid", "dead"] == 1


def test_missing_orders_are_looked_for_too(told):
    told.order("M", payout_expected_at=TODAY - timedelta(days=5))
    assert found(check(told)) == {("decision_missing", "missing", "M", False)}
    assert found(check(told, repair=True)) == {("decision_missing", "missing", "M", True)}
    assert [check(told, repair=each).decisions for each in (False, True)] == [6, 6]
    told.sql("UPDATE reminders.reconciliation_decisions SET expected = 41 WHERE name = 'missing'")
    assert check(told).counts == {"decision_differs": 1}
    told.sql("UPDATE reminders.reconciliation_decisions SET expected = 50 WHERE name = 'missing'")
    told.order("M", payout_expected_at=None)
    assert found(check(told)) == {("decision_stale", "missing", "M", False)}


def test_what_a_run_has_in_work_is_left_to_it(told):
    content, workshop = file_of([Row("b", "B", "50.00")]), told.workshop()
    run, header = told.begin(content, workshop)
    run.page_of_lines(header, next(pages(io.BytesIO(content), workshop.config.format)))
    assert check(told).counts == {}
    assert check(told, repair=True).counts == {}
    run.let_go()
    assert found(check(told)) == {
        ("decision_missing", "settled", "B", False),
        ("decision_stale", "short_paid", "B", False),
    }


def test_only_one_repairs_at_a_time(told):
    assert not isinstance(begin(told.workshop(), "audit", actor="test"), AlreadyRunning)
    assert isinstance(check(told, repair=True), AlreadyRunning)


def test_many_findings_are_counted_and_some_shown(told):
    told.sql("TRUNCATE reminders.reconciliation_decisions")
    result = check(told, limit=2)
    assert (result.counts, len(result.found)) == ({"decision_missing": 5}, 2)
    # What is decided anew finds its reminders, and does not send a second one.
    number = told.sql("SELECT count(*) FROM reminders.reminders")
    check(told, repair=True)
    assert told.sql("SELECT count(*) FROM reminders.reminders") == number


@pytest.mark.parametrize("wrong", ["zzz", "", "a", "o:zzz", "o;"])
def test_a_key_written_by_hand_neither_keeps_the_audit_going_nor_outlives_the_file(told, wrong):
    everything, keys = told.decisions(), "SELECT line_id, group_key FROM reminders.settlement_lines"
    before = sorted(told.sql(keys))
    told.sql("UPDATE reminders.settlement_lines SET group_key = %s WHERE line_id = 'r'", wrong)
    # What is in the group "" alone is never looked at, since a look begins there.
    assert bool(check(told).counts) == bool(wrong)
    check(told, repair=True)
    told.run(ROWS)
    assert sorted(told.sql(keys)) == before
    assert told.decisions() == everything
    assert check(told).counts == {}

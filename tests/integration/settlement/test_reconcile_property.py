"""Any sequence of partial files, replays, pages and corrections ends in the decisions of one clean run over the final facts."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from integration.settlement.shop import Row
from reminders.intake.settlement.auditing import audit

LINES = [f"l{n}" for n in range(7)]
CHARGES = ["ch_l0", "ch_l1", "ch_l2", "ch_elsewhere"]
TABLES = (
    "reconciliation_run_decisions", "reconciliation_run_groups", "reconciliation_decisions", "settlement_lines", "due", "reminders",
)  # fmt: skip
CATEGORIES = ["charge", "charge", "refund", "dispute", "charge_failure", "partial_capture_reversal"]


def signed(row_: Row) -> Row:
    """As a balance sees it: only a charge brings money."""
    return row_ if row_.category == "charge" else replace(row_, gross=f"-{row_.gross}")


row = st.builds(
    Row,
    line=st.sampled_from(LINES),
    order=st.sampled_from(["A", "B", "unknown", ""]),
    gross=st.sampled_from(["50.00", "20.00", "30.00", "5.00"]),
    category=st.sampled_from(CATEGORIES),
    charge=st.sampled_from([*CHARGES, ""]),
    payout=st.sampled_from(["po_1", "po_2"]),
    currency=st.sampled_from(["eur", "eur", "eur", "usd"]),
).map(signed)
file = st.lists(row, min_size=1, max_size=5, unique_by=lambda each: each.line)
step = st.one_of(
    st.tuples(st.just("file"), file),
    st.tuples(st.just("replay"), st.integers(0, 5)),
    st.tuples(st.just("page"), file),
    st.tuples(st.just("repair"), st.none()),
    st.tuples(st.just("forget"), st.sampled_from(["settled", "refunded", "unknown_order"])),
)


def empty(shop):
    shop.sql("; ".join(f"DELETE FROM reminders.{table}" for table in TABLES))


HERE = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(HERE, max_examples=25, derandomize=True)
@given(steps=st.lists(step, min_size=1, max_size=8))
def test_any_sequence_ends_as_one_clean_run_over_the_final_facts(shop, steps):
    check(shop, steps)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@settings(HERE, max_examples=300)
@given(steps=st.lists(step, min_size=1, max_size=12))
def test_any_longer_sequence_does(shop, steps):
    check(shop, steps)


def check(shop, steps):
    empty(shop)
    shop.order("A")
    shop.order("B", "30.00")
    files: list[list[Row]] = []
    facts: dict[str, Row] = {}
    for what, given_ in steps:
        if what == "replay":
            if not files:
                continue
            rows = files[given_ % len(files)]
        elif what == "repair":
            audit(shop.workshop(), actor="test", repair=True)
            continue
        elif what == "forget":
            shop.sql(
                "DELETE FROM reminders.due USING reminders.reminders r WHERE due.id = r.id AND r.kind = %s", given_
            )
            shop.sql("DELETE FROM reminders.reminders WHERE kind = %s", given_)
            continue
        else:
            rows = given_
        files.append(rows)
        facts.update({each.line: each for each in rows})
        report = shop.run(rows, **({"only_page": 1} if what == "page" else {}))
        assert report.run.rejected == 0
    audit(shop.workshop(), actor="test", repair=True)
    found = shop.decisions(), shop.reminders()
    counted = shop.sql(
        "SELECT count(*), count(DISTINCT r.id) FROM reminders.reconciliation_decisions d JOIN reminders.reminders r "
        "ON r.id = d.reminder_id AND r.status = 'live' WHERE d.withdrawn_at IS NULL"
    )
    assert counted == [(len(found[0]), len(found[0]))]
    again = audit(shop.workshop(), actor="test")
    assert again.counts == {}
    empty(shop)
    if facts:
        shop.run([replace(each) for each in facts.values()])
    assert found == (shop.decisions(), shop.reminders())

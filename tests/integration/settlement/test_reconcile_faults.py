"""What is missing is made again; what fails is rolled back as a whole; what is broken off is gone on with."""

import io
from datetime import timedelta
from uuid import uuid4

import pytest

from integration.settlement.shop import ORDERS, QUERY, Row, file_of
from reminders.domain.errors import NotFound, SettingsError
from reminders.intake.settlement import steps
from reminders.intake.settlement.files import carry_out, pages
from reminders.intake.settlement.matching import MatcherFault, SqlMatcher, load_matcher
from reminders.intake.settlement.reporting import report as report_of
from reminders.intake.settlement.reporting import runs
from reminders.intake.settlement.running import AlreadyRunning, LostRun, go_on

ROWS = [Row("a", "A"), Row("b", "B", "40.00"), Row("u", "nobody's")]


@pytest.fixture
def told(shop):
    shop.order("A")
    shop.order("B")
    shop.run(ROWS)
    return shop


def forget(shop, kind):
    shop.sql("DELETE FROM reminders.due USING reminders.reminders r WHERE due.id = r.id AND r.kind = %s", kind)
    shop.sql("DELETE FROM reminders.reminders WHERE kind = %s", kind)


def test_a_reminder_that_is_gone_without_a_trace_is_made_again_under_its_identity(told):
    key = "SELECT delivery_key, due_at FROM reminders.reminders WHERE kind = 'settled'"
    before = told.sql(key)
    everything = told.reminders()
    forget(told, "settled")
    report = told.run(ROWS)
    assert told.sql(key) == before
    assert told.reminders() == everything
    assert report.outcomes == {"repaired": 1, "unchanged": 2}
    assert [(each.outcome, each.order, each.note) for each in report.changes] == [
        ("repaired", "A", "its reminder was missing and is scheduled")
    ]
    assert told.run(ROWS).outcomes == {"unchanged": 3}


def test_a_purged_reminder_is_not_sent_again(told):
    told.deliver("settled")
    told.sql(
        "INSERT INTO reminders.keys_seen (identity_key, request_hash, reminder_id, delivery_key, version, due_at, status, "
        "finished_at, purge_id) SELECT identity_key, request_hash, id, delivery_key, version, due_at, status, finished_at, "
        "gen_random_uuid() FROM reminders.reminders WHERE kind = 'settled'"
    )
    forget(told, "settled")
    report = told.run(ROWS)
    assert report.outcomes == {"unchanged": 3}
    assert told.sql("SELECT count(*) FROM reminders.reminders WHERE kind = 'settled'") == [(0,)]
    assert dict(report.reminders) == {"live": 2, "purged": 1}
    # Nor when the decisions are forgotten as well, and it is decided anew.
    told.sql("TRUNCATE reminders.reconciliation_decisions")
    told.run(ROWS)
    assert told.sql("SELECT count(*) FROM reminders.reminders WHERE kind = 'settled'") == [(0,)]


class Hearing(SqlMatcher):
    """Keeps what it is told in the application's own table, and fails when it should."""

    fails = False

    def decided(self, connection, decisions):
        with connection.cursor() as cursor:
            for each in decisions:
                cursor.execute(
                    f"UPDATE {ORDERS} SET customer = customer || %s WHERE reference = %s",
                    (f"+{each.outcome} {each.decision.name}", each.decision.order_reference),
                )
        if self.fails:
            raise RuntimeError("the shelf of anna@example.com is full")


@pytest.fixture
def hearing():
    return Hearing(QUERY)


def test_the_application_hears_of_changes_in_the_same_transaction(shop, hearing):
    shop.order("A")
    shop.order("B")
    shop.run(ROWS, matcher=hearing)
    shop.run(ROWS, matcher=hearing)
    shop.run([Row("b", "B", "50.00")], matcher=hearing)
    assert sorted(shop.sql(f"SELECT customer FROM {ORDERS}")) == [
        ("user of A+created settled",), ("user of B+created short_paid+created settled+withdrawn short_paid",)
    ]  # fmt: skip


def test_a_hook_that_raises_rolls_its_page_back_and_is_named(shop, hearing):
    shop.order("A")
    shop.order("B")
    Hearing.fails = True
    try:
        with pytest.raises(MatcherFault) as raised:
            shop.run(ROWS, matcher=hearing)
    finally:
        Hearing.fails = False
    assert str(raised.value) == "Hearing.decided raised RuntimeError: the shelf of [redacted] is full"
    assert shop.decisions() == shop.reminders() == set()
    assert sorted(shop.sql(f"SELECT customer FROM {ORDERS}")) == [("user of A",), ("user of B",)]
    ((run,),) = [runs(shop.database)]
    assert (run.state, run.step, run.page, run.error) == ("interrupted", "decide", 1, str(raised.value))
    # The same file again goes on with it: its lines are in.
    report = shop.run(ROWS, matcher=hearing)
    assert (report.run.run_id, report.run.state, report.run.error, report.outcomes) == (
        run.run_id, "finished", None, {"created": 3}
    )  # fmt: skip


@pytest.mark.parametrize("word", ["COMMIT", "ROLLBACK"])
def test_a_matcher_that_ends_the_transaction_is_refused(shop, word):
    class Ending(SqlMatcher):
        def match(self, connection, references):
            found = super().match(connection, references)
            with connection.cursor() as cursor:
                cursor.execute(word)
            return found

    shop.order("A")
    with pytest.raises(
        MatcherFault, match=r"^Ending.match ended the page's transaction.*neither commit nor roll back$"
    ):
        shop.run(ROWS, matcher=Ending(QUERY))
    assert shop.decisions() == shop.reminders() == set()


def test_a_transaction_that_fails_late_leaves_neither_decision_nor_reminder(shop, monkeypatch):
    shop.order("A")
    real = steps.settlement_runs.move

    def move(connection, schema, run, stand):
        real(connection, schema, run, stand)
        if stand.step == "decide" and stand.position:
            raise OSError("no more")

    with monkeypatch.context() as patch:
        patch.setattr(steps.settlement_runs, "move", move)
        with pytest.raises(OSError, match="no more"):
            shop.run(ROWS)
    assert shop.decisions() == shop.reminders() == set()
    assert shop.run(ROWS).outcomes == {"created": 3}


BAD_QUERIES = {
    "SELECT 1 AS reference WHERE 'x' = ANY (:references) OR true": "order 1 has no tenant_id, user_id, amount, currency",
    "SELECT nothing FROM nowhere WHERE reference = ANY (:references)": "relation .nowhere. does not exist",
    QUERY.replace("amount,", "amount::float8 AS amount,", 1): "amount must be a Decimal",
    QUERY.replace("reference,", "'other' AS reference,", 1): None,
    QUERY.replace("payout_expected_at FROM", "now()::timestamp AS payout_expected_at FROM", 1): "with its UTC offset",
}


@pytest.mark.parametrize(("query", "fault"), BAD_QUERIES.items())
def test_what_a_matcher_must_not_give_is_told(shop, query, fault):
    shop.order("A")
    if fault is None:
        shop.run([Row("a", "A")], matcher=SqlMatcher(query))
        assert {each[0] for each in shop.decisions()} == {"unknown_order"}
        return
    with pytest.raises(MatcherFault, match=fault):
        shop.run([Row("a", "A")], matcher=SqlMatcher(query))
    assert shop.decisions() == set()


def test_a_matcher_that_gives_the_same_overdue_orders_for_ever_is_stopped(shop):
    shop.order("A", payout_expected_at=shop.sql("SELECT now() - interval '9 days'")[0][0])
    endless = f"SELECT *, 'shop' AS tenant_id, customer AS user_id FROM {ORDERS} WHERE payout_expected_at < :before LIMIT :limit"
    with pytest.raises(
        MatcherFault, match=r"^SqlMatcher.expected gave order 'A' again; it must give those beyond `after`$"
    ):
        shop.run([], matcher=SqlMatcher(QUERY, endless))


def test_matchers_that_cannot_be_had_are_named():
    for name, why in {
        "nowhere.at.all:x": "ModuleNotFoundError", "decimal:Nothing": "AttributeError", "decimal:Decimal": "lacks match and expected",
    }.items():  # fmt: skip
        with pytest.raises(SettingsError, match=f"^matcher '{name}' .*{why}"):
            load_matcher(name)


def test_a_run_that_nobody_holds_any_more_is_gone_on_with_where_it_stands(shop):
    shop.order("A")
    shop.order("B")
    filler = [Row(f"f{n:04}", "nobody's") for n in range(1_000)]
    content, workshop = file_of([ROWS[0], *filler, ROWS[1]]), shop.workshop()
    run, header = shop.begin(content, workshop, lease=timedelta(0))
    one, two = pages(io.BytesIO(content), workshop.config.format)
    assert run.page_of_lines(header, one).new == 1_000
    other, _ = shop.begin(content, workshop)
    assert (other.id, other.fence, other.next_page) == (run.id, run.fence + 1, 2)
    with pytest.raises(LostRun):
        run.page_of_lines(header, two)
    with pytest.raises(LostRun):
        go_on(workshop, run.id, run.fence)
    run.let_go("late")
    assert isinstance(shop.begin(content, workshop)[0], AlreadyRunning)
    assert other.page_of_lines(header, one) is None
    report = carry_out(other, header, [one, two])
    assert (report.run.new, report.run.read, report.outcomes) == (1_002, 1_002, {"created": 1_002})
    assert len(runs(shop.database)) == 1


def test_other_wishes_give_a_broken_off_run_up(shop):
    shop.order("A")
    content, workshop = file_of(ROWS), shop.workshop()
    run, header = shop.begin(content, workshop)
    run.page_of_lines(header, next(pages(io.BytesIO(content), workshop.config.format)))
    run.let_go()
    other, _ = shop.begin(content, workshop, reminders=False)
    assert other.id != run.id
    carry_out(other, header, pages(io.BytesIO(content), workshop.config.format))
    assert shop.reminders() == set()
    assert [(each.state, each.reminders) for each in runs(shop.database)] == [("finished", False), ("given_up", True)]


def test_tasks_go_on_with_a_run_one_page_each(shop):
    shop.order("A")
    content, workshop = file_of(ROWS), shop.workshop()
    run, header = shop.begin(content, workshop)
    (page,) = pages(io.BytesIO(content), workshop.config.format)
    assert go_on(workshop, run.id, run.fence).page_of_lines(header, page).read == 3
    assert go_on(workshop, run.id, run.fence).page_of_lines(header, page) is None
    assert go_on(workshop, run.id, run.fence).decide_next() is True
    assert go_on(workshop, run.id, run.fence).decide_next() is False
    assert go_on(workshop, run.id, run.fence).missing_next() is False
    again = go_on(workshop, run.id, run.fence)
    assert again.step == "done"
    assert again.finish().outcomes == {"created": 3}
    assert again.finish().run.state == "finished"
    with pytest.raises(NotFound):
        report_of(shop.database, uuid4())


def test_a_row_that_only_postgres_refuses_stops_no_others(shop):
    for n in range(9):
        shop.order(f"o{n}")
    shop.sql("ALTER TABLE reminders.reminders ADD CONSTRAINT no_four CHECK (reference <> 'o4')")
    try:
        report = shop.run([Row(f"l{n}", f"o{n}") for n in range(9)])
    finally:
        shop.sql("ALTER TABLE reminders.reminders DROP CONSTRAINT no_four")
    assert report.outcomes == {"created": 9}
    assert {each[2] for each in shop.reminders()} == {f"o{n}" for n in range(9) if n != 4}
    (reason,) = report.not_told
    assert reason.startswith("is refused by Postgres: ")
    assert "no_four" in reason


def test_payouts_that_do_not_add_up_are_named(shop):
    shop.order("A")
    rows = [
        Row("a", "A", payout="po_1"), Row("p1", "", "-50.00", "payout", payout="po_1"),
        Row("b", "", "10.00", "other", payout="po_2"), Row("p2", "", "-9.99", "payout", payout="po_2"),
        Row("c", "", "7.00", "other", payout="po_3"), Row("y", "", "980", "other", payout="po_1", currency="jpy"),
    ]  # fmt: skip
    report = shop.run(rows)
    assert [(each.payout_id, each.currency, str(each.lines), each.paid and str(each.paid), each.difference and str(each.difference))
            for each in report.payouts] == [
        ("po_2", "EUR", "10.00", "-9.99", "0.01"), ("po_3", "EUR", "7.00", None, None),
    ]  # fmt: skip
    assert report.totals["payouts"] == 2
    assert shop.run(rows[2:3]).totals["payouts"] == 1

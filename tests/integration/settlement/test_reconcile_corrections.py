"""A corrected file changes what it corrects and nothing else, and says what became of each reminder."""

from dataclasses import replace
from datetime import timedelta

import pytest

from integration.settlement.shop import DUE, HOOK, TODAY, Row, changed, rules


@pytest.fixture
def paid(shop):
    """Three orders: one paid in full, one short, one refunded in part."""
    for reference in ("A", "B", "C"):
        shop.order(reference)
    rows = [
        Row("a", "A"),
        Row("b", "B", "40.00"),
        Row("c", "C"),
        Row("r", "", "-5.00", "refund", charge="ch_c"),
    ]
    shop.run(rows)
    shop.rows = rows
    return shop


def change_of(report, decision):
    (found,) = [each for each in report.changes if each.decision == decision]
    return found


def attempt(shop, kind):
    """As after a first attempt that is to be repeated."""
    shop.sql(
        "INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at, "
        "claimed_until, worker, on_unknown, body_format, retry_at) SELECT delivery_key, id, 'retrying', 1, gen_random_uuid(), now(), "
        "now() + interval '1 second', 'w', 'repeat', 1, now() FROM reminders.reminders WHERE kind = %s",
        kind,
    )


def test_an_unsent_reminder_is_brought_to_what_is_right(paid):
    before = paid.image()
    report = paid.run([changed(paid.rows[1], gross="45.00")])
    assert {each[:5] for each in paid.reminders() if each[0] == "short_paid"} == {
        ("short_paid", "user of B", "B", "short_paid:stripe:po_1", "45.00")
    }
    found = change_of(report, "short_paid")
    assert (found.outcome, str(found.amount), found.note) == (
        "corrected", "45.00", "amount was 40.00 EUR, is 45.00 EUR; its reminder was brought to it",
    )  # fmt: skip
    assert report.run.changed == 1
    # Nothing else has changed: of four decisions and reminders three are as they were, and no key is another.
    after = paid.image()
    assert [len(set(old) - set(new)) for old, new in zip(before, after, strict=True)] == [1, 1, 1, 0, 0]
    again = paid.run([changed(paid.rows[1], gross="45.00")])
    assert (again.outcomes, again.changes) == ({"unchanged": 1}, ())
    assert paid.image() == after


def test_a_sent_reminder_is_left_alone_and_that_is_said(paid):
    paid.deliver("short_paid")
    image = paid.image()[2:]
    report = paid.run([changed(paid.rows[1], gross="45.00")])
    assert paid.image()[2:] == image
    assert change_of(report, "short_paid").note == (
        "amount was 40.00 EUR, is 45.00 EUR; its reminder is delivered and was left as it is"
    )
    assert paid.sql(
        "SELECT amount::text, told, told_reason FROM reminders.reconciliation_decisions WHERE name = 'short_paid'"
    ) == [("45.00", "left", "is delivered")]
    again = paid.run([changed(paid.rows[1], gross="45.00")])
    assert again.outcomes == {"unchanged": 1}


def test_an_attempted_reminder_keeps_its_content(paid):
    attempt(paid, "short_paid")
    report = paid.run([changed(paid.rows[1], gross="45.00")])
    assert {each[4] for each in paid.reminders() if each[0] == "short_paid"} == {"40.00"}
    assert change_of(report, "short_paid").note.endswith("; its reminder has been attempted and was left as it is")


def test_what_no_longer_follows_is_withdrawn_and_its_reminder_cancelled(paid):
    report = paid.run([changed(paid.rows[1], gross="50.00")])
    assert {each[0] for each in paid.reminders("cancelled")} == {"short_paid"}
    assert {each[:2] for each in paid.decisions()} == {("settled", x) for x in "ABC"} | {("refunded", "C")}
    found = change_of(report, "short_paid")
    assert (found.outcome, found.note) == ("withdrawn", "no longer follows; its reminder: cancelled")
    assert report.outcomes == {"created": 1, "withdrawn": 1}
    again = paid.run([changed(paid.rows[1], gross="50.00")])
    assert again.outcomes == {"unchanged": 1}


def test_what_was_sent_and_no_longer_follows_is_said_to_be_too_late(paid):
    paid.deliver("short_paid")
    report = paid.run([changed(paid.rows[1], gross="50.00")])
    assert change_of(report, "short_paid").note == "no longer follows; its reminder: too_late"
    assert {each[0] for each in paid.reminders("delivered")} == {"short_paid"}


def test_five_hundred_withdrawn_at_once_take_a_few_statements(shop, monkeypatch):
    from reminders.ledger import caller, settlement_decisions

    rows = [Row(f"l{n:03}", f"o{n:03}", "40.00") for n in range(500)]
    for n in range(500):
        shop.order(f"o{n:03}")
    shop.run(rows)
    asked = []

    def fetch(connection, schema, statement, **given):
        asked.append(statement.name)
        return caller.fetch(connection, schema, statement, **given)

    monkeypatch.setattr(settlement_decisions, "fetch", fetch)
    shop.run([changed(row, gross="50.00") for row in rows])
    assert len(shop.reminders("cancelled")) == 500
    assert {each[0] for each in shop.decisions()} == {"settled"}
    assert asked.count("reconciliation_cancel") == 1
    assert len(asked) <= 6


def test_what_follows_again_is_told_again_if_it_had_been_cancelled(paid):
    paid.run([changed(paid.rows[1], gross="50.00")])
    report = paid.run([paid.rows[1]])
    assert {each[0] for each in paid.reminders()} == {"settled", "short_paid", "refunded"}
    found = change_of(report, "short_paid")
    assert (found.outcome, found.note) == ("created", "follows again; its reminder was brought to it")
    assert paid.sql("SELECT count(*) FROM reminders.reminders WHERE kind = 'short_paid'") == [(1,)]


def test_the_time_of_what_follows_again_counts_from_then(paid):
    due = "SELECT due_at FROM reminders.reminders WHERE kind = 'short_paid'"
    before = paid.sql(due)[0][0]
    paid.run([changed(paid.rows[1], gross="50.00")])
    paid.now = before + timedelta(days=3)
    paid.run([paid.rows[1]])
    assert paid.sql(due) == [(paid.now + DUE,)]


def test_what_follows_again_and_was_delivered_is_not_told_again(paid):
    paid.deliver("short_paid")
    paid.run([changed(paid.rows[1], gross="50.00")])
    paid.run([paid.rows[1]])
    assert {each[0] for each in paid.reminders("delivered")} == {"short_paid"}
    assert paid.sql("SELECT count(*) FROM reminders.reminders WHERE kind = 'short_paid'") == [(1,)]


def test_what_a_person_cancelled_does_not_come_back(paid):
    paid.sql("SELECT reminders.cancel(id) FROM reminders.reminders WHERE kind = 'short_paid'")
    report = paid.run([changed(paid.rows[1], gross="45.00")])
    assert change_of(report, "short_paid").note.endswith("its reminder was cancelled and was left as it is")
    paid.run([changed(paid.rows[1], gross="50.00")])
    paid.run([paid.rows[1]])
    assert {each[0] for each in paid.reminders("cancelled")} >= {"short_paid"}
    assert "short_paid" not in {each[0] for each in paid.reminders()}


def test_a_line_that_moves_to_another_order_takes_its_reminder_along(paid):
    report = paid.run([changed(paid.rows[3], order="A")])
    assert ("refunded", "user of A", "A", "refunded:stripe:r", "5.00") in paid.reminders()
    assert {each[:3] for each in paid.reminders("cancelled")} == {("refunded", "user of C", "C")}
    assert change_of(report, "refunded").note == (
        "order was C, is A; its reminder: cancelled; another reminder is scheduled for it"
    )


def test_a_payment_that_moves_to_another_order_is_taken_from_the_first(paid):
    paid.order("D")
    paid.run([changed(paid.rows[0], order="D")])
    assert {each[1] for each in paid.decisions() if each[0] == "settled"} == {"C", "D"}
    assert {each[:3] for each in paid.reminders("cancelled")} == {("settled", "user of A", "A")}


def test_a_line_that_moves_to_another_order_and_back_is_told_to_the_first_again(paid):
    paid.run([changed(paid.rows[3], order="A")])
    report = paid.run([changed(paid.rows[3], order="C", gross="-6.00")])
    assert {each for each in paid.reminders() if each[0] == "refunded"} == {
        ("refunded", "user of C", "C", "refunded:stripe:r", "6.00")
    }
    assert {each[:3] for each in paid.reminders("cancelled")} == {("refunded", "user of A", "A")}
    assert change_of(report, "refunded").note.endswith(
        "order was A, is C; its reminder: cancelled; another reminder is scheduled for it; its reminder was brought to it"
    )
    paid.deliver("refunded")
    paid.run([changed(paid.rows[3], order="A")])
    paid.deliver("refunded")
    paid.run([changed(paid.rows[3], order="C", gross="-7.00")])
    assert "refunded" not in {each[0] for each in paid.reminders()}
    assert paid.sql("SELECT told, told_reason FROM reminders.reconciliation_decisions WHERE name = 'refunded'") == [
        ("left", "is delivered")
    ]


def test_a_charge_that_appears_late_names_the_order_of_its_refund(shop):
    shop.order("A")
    shop.run([Row("r", "", "-5.00", "refund", charge="ch_a")])
    assert {each[:3] for each in shop.decisions()} == {("unknown_order", None, "r")}
    report = shop.run([Row("a", "A")])
    assert {each[:3] for each in shop.decisions()} == {("settled", "A", None), ("refunded", "A", "r")}
    assert {each[:2] for each in shop.reminders("cancelled")} == {("unknown_order", "desk")}
    assert report.outcomes == {"created": 2, "withdrawn": 1}


def test_an_order_that_becomes_known_replaces_the_unknown(shop):
    report = shop.run([Row("a", "A")])
    assert [(each.line_id, each.reason) for each in report.unmatched] == [("a", "nobody knows order A")]
    shop.order("A")
    shop.run([Row("a", "A")])
    assert {each[:2] for each in shop.decisions()} == {("settled", "A")}


def test_a_partial_refund_that_comes_late_corrects_the_totals_after_it(shop):
    shop.order("A")
    late = Row("r1", "A", "-5.00", "refund", created=TODAY - timedelta(days=2))
    shop.run([Row("a", "A"), Row("r2", "A", "-7.00", "refund", created=TODAY - timedelta(days=1, hours=2))])
    report = shop.run([late])
    assert {(each[2], str(each[6])) for each in shop.decisions() if each[0] == "refunded"} == {
        ("r1", "5"),
        ("r2", "12"),
    }
    assert change_of(report, "refunded").note.startswith("total was 7.00 EUR, is 12.00 EUR; ")


def test_what_was_not_to_be_told_is_not_told_when_it_is_corrected(shop):
    shop.order("A")
    shop.run([Row("a", "A", "40.00")], reminders=False)
    report = shop.run([Row("a", "A", "45.00")])
    assert shop.reminders() == set()
    assert dict(report.not_told) == {"reminders off": 1}
    assert report.outcomes == {"corrected": 1}


def test_old_payouts_are_on_record_and_not_told(shop):
    shop.order("A")
    old = Row("a", "A", created=TODAY - timedelta(days=30), paid=TODAY - timedelta(days=20))
    report = shop.run([old])
    assert shop.reminders() == set()
    assert dict(report.not_told) == {"too old": 1}
    assert dict(shop.run([old]).not_told) == {"too old": 1}


def test_a_decision_without_a_rule_is_on_record_and_not_told(shop):
    shop.order("A")
    report = shop.run([Row("a", "A")], rules={})
    assert (dict(report.not_told), report.outcomes) == ({"no rule": 1}, {"created": 1})
    assert shop.reminders() == set()
    # A rule that is added later speaks of what is decided later.
    shop.run([Row("a", "A")])
    assert shop.reminders() == set()


def test_what_cannot_be_scheduled_says_why_and_is_tried_again(shop):
    shop.order("A", hook=None)
    shop.order("B", hook="ftp://nowhere")
    shop.order("C")
    rows = [Row("a", "A"), Row("b", "B"), Row("c", "C")]
    report = shop.run(rows)
    assert report.outcomes == {"created": 3}
    assert {each[2] for each in shop.reminders()} == {"C"}
    reasons = sorted(report.not_told)
    assert reasons[0].startswith("destination: ")
    assert reasons[1] == "destination: none is known for channel webhook"
    again = shop.run(rows)
    assert (again.outcomes, sum(again.not_told.values())) == ({"unchanged": 3}, 2)
    shop.order("A", hook=HOOK)
    later = shop.run(rows)
    assert later.outcomes == {"repaired": 1, "unchanged": 2}
    assert {each[2] for each in shop.reminders()} == {"A", "C"}


def test_a_channel_that_is_not_installed_refuses_its_reminders_only(shop):
    shop.order("A")
    wanted = rules()
    wanted["settled"] = replace(wanted["settled"], channel="pigeon")
    report = shop.run([Row("a", "A"), Row("x", "nobody's")], rules=wanted)
    assert report.outcomes == {"created": 2}
    assert {each[0] for each in shop.reminders()} == {"unknown_order"}
    (reason,) = report.not_told
    assert reason == "destination: none is known for channel pigeon"


def test_a_reminder_of_the_application_with_the_same_identity_is_left_as_it_is(shop):
    shop.order("A")
    shop.sql(
        "SELECT reminders.schedule('shop', 'user of A', 'settled', 'webhook', %s, now() + interval '1 day', NULL, 'A', 'settled:stripe:po_1')",
        HOOK,
    )
    report = shop.run([Row("a", "A")])
    (reason,) = report.not_told
    assert "already stands for this tenant" in reason
    assert {each[4] for each in shop.reminders()} == {None}


def test_due_times_follow_the_rule_in_the_zone_of_the_order(shop):
    from datetime import UTC, datetime, time

    shop.now = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
    shop.order("A", zone="Europe/Berlin")
    shop.order("B")
    row = {"created": shop.now, "paid": shop.now}
    wanted = rules(at=time(9, 0), zone="Asia/Tokyo", expires=timedelta(hours=3))
    shop.run([Row("a", "A", **row), Row("b", "B", **row)], rules=wanted)
    found = {reference: (due, expires, zone) for reference, due, expires, zone in shop.sql(
        "SELECT reference, due_at, expires_at, zone FROM reminders.reminders")}  # fmt: skip
    # A day later is 29 March, 21:00 in Berlin, after the clocks went forward: the next nine o'clock is on the 30th.
    assert found["A"][0] == datetime(2026, 3, 30, 7, 0, tzinfo=UTC)
    assert found["A"][1] - found["A"][0] == timedelta(hours=3)
    assert (found["A"][2], found["B"][2]) == ("Europe/Berlin", None)
    # In Tokyo it is the 30th, 05:00: nine o'clock is on the same day.
    assert found["B"][0] == datetime(2026, 3, 30, 0, 0, tzinfo=UTC)

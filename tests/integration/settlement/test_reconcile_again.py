"""The same file, a part of it, files in another order: nothing is repeated, and the end is the same."""

import io
import random

import pytest

from integration.settlement.shop import Row, config, file_of
from reminders.intake.settlement.files import carry_out, check, pages
from reminders.intake.settlement.running import AlreadyRunning, begin

LINES = 2_300


def big_file():
    """Three pages whose orders have lines on different pages: payments in two parts, refunds that name only a charge."""
    rows = [Row(f"a{n:05}", f"o{n}", "30.00" if n % 3 else "50.00") for n in range(1_100)]
    rows += [Row(f"b{n:05}", f"o{n}", "20.00") for n in range(1_100) if n % 3]
    rows += [Row(f"r{n:05}", "", "-5.00", "refund", charge=f"ch_a{n:05}") for n in range(0, 1_100, 7)]
    rows += [Row(f"u{n:05}", "nobody's", "9.00") for n in range(20)]
    rows += [Row(f"x{n:05}", "", "-7.00", "dispute", charge="ch_unknown") for n in range(10)]
    return rows


@pytest.fixture
def filled(shop):
    for n in range(1_100):
        shop.order(f"o{n}")
    return shop


def test_a_replay_changes_nothing_and_has_the_same_sums(filled):
    rows = big_file()
    first = filled.run(rows)
    image = filled.image()
    assert first.outcomes == {"created": 1_100 + len(range(0, 1_100, 7)) + 30}
    assert {each[0] for each in filled.decisions()} == {"settled", "refunded", "unknown_order"}
    again = filled.run(rows)
    assert filled.image() == image
    assert filled.sums(again) == filled.sums(first)
    assert again.outcomes == {"unchanged": first.outcomes["created"]}
    assert (again.run.unchanged, again.run.new, again.run.changed) == (first.run.new, 0, 0)
    assert again.changes == ()
    assert again.run.run_id != first.run.run_id


def test_a_replayed_page_changes_nothing(filled):
    rows = big_file()
    filled.run(rows)
    image = filled.image()
    report = filled.run(rows, only_page=2)
    assert filled.image() == image
    assert (report.run.kind, report.run.read, report.run.unchanged) == ("page", 1_000, 1_000)
    assert set(report.outcomes) == {"unchanged"}


def test_pages_one_by_one_in_any_order_end_as_the_whole_file(filled):
    rows = big_file()
    for page in (3, 1, 2):
        filled.run(rows, only_page=page)
    piecemeal = filled.decisions()
    told = filled.reminders()
    filled.sql(
        "TRUNCATE reminders.settlement_lines, reminders.reconciliation_decisions, reminders.due, reminders.reminders"
    )
    filled.run(rows)
    assert filled.decisions() == piecemeal
    assert filled.reminders() == told


def test_parts_of_a_file_and_files_in_another_order_end_in_the_same(filled):
    rows = big_file()
    cut = [rows[:700], rows[700:1_500], rows[1_500:]]
    for part in (cut[2], cut[0], cut[1]):
        filled.run(part)
    piecemeal, told = filled.decisions(), filled.reminders()
    filled.run(rows)
    assert (filled.decisions(), filled.reminders()) == (piecemeal, told)
    assert {each[0] for each in piecemeal} == {"settled", "refunded", "unknown_order"}


def test_the_order_of_lines_in_a_file_does_not_matter(filled):
    rows = big_file()
    filled.run(rows)
    decisions = filled.decisions()
    random.Random(7).shuffle(rows)
    again = filled.run(rows)
    assert filled.decisions() == decisions
    assert set(again.outcomes) == {"unchanged"}


def test_an_order_whose_parts_lie_on_two_pages_is_told_once_of_all_of_it(filled):
    report = filled.run(big_file())
    assert "short_paid" not in {each[0] for each in filled.decisions()}
    assert not filled.reminders("cancelled")
    assert report.changes == ()


def test_lines_that_stand_twice_in_a_file_count_once(shop):
    shop.order("A")
    rows = [Row("l1", "A"), Row("l2", "A", "1.00"), Row("l1", "A"), Row("l2", "A", "2.00")]
    report = shop.run(rows)
    assert (report.run.read, report.run.new, report.run.unchanged, report.run.rejected) == (4, 2, 1, 1)
    assert [(each.line, each.field) for each in report.rejects] == [(5, "line_id")]
    assert report.rejects[0].reason == "l2 stands in line 3 with other content; the first one counts"
    assert {(each[0], str(each[5])) for each in shop.decisions()} == {("over_paid", "51")}


def test_an_id_with_two_contents_on_two_pages_counts_once_and_the_first_whichever_page_is_read(shop):
    shop.order("A")
    padding = [Row(f"z{n:04}", "", "1.00", "other") for n in range(1_100)]
    rows = [
        Row("l1", "A"),
        Row("l2", "", "3.00", "other"),
        *padding,
        Row("l1", "A", "40.00"),
        Row("l2", "", "3.00", "other"),
    ]
    settled = {("settled", "A", None, "po_1", "EUR", 50, None, 50, None)}
    report = shop.run(rows)
    assert (report.run.new, report.run.changed, report.run.unchanged, report.run.rejected) == (1_102, 0, 1, 1)
    assert [(each.line, each.reason) for each in report.rejects] == [
        (1_104, "l1 stands on page 1 with other content; the first one counts")
    ]
    sums = {each.category: (each.count, each.gross) for each in report.categories}
    assert sums == {"charge": (1, 50), "other": (1_101, 1_103)}
    image = shop.image()
    for wishes in ({}, {"only_page": 2}, {"only_page": 1}, {"only_page": 2}):
        again = shop.run(rows, **wishes)
        assert (again.run.new, again.run.changed) == (0, 0)
        assert shop.decisions() == settled
        assert shop.image() == image
    # Another file may correct it, and this one put it back.
    shop.run([Row("l1", "A", "45.00")])
    assert {each[0] for each in shop.decisions()} == {"short_paid"}
    assert shop.run(rows).run.changed == 1
    assert shop.decisions() == settled
    # What another file says likewise is this one's all the same.
    shop.run([Row("l1", "A")])
    assert shop.run(rows).run.changed == 0
    assert shop.decisions() == settled


def test_a_second_page_that_was_read_first_gives_way_to_the_first(shop):
    shop.order("A")
    padding = [Row(f"z{n:04}", "", "1.00", "other") for n in range(1_100)]
    rows = [Row("l1", "A"), *padding, Row("l1", "A", "40.00")]
    shop.run(rows, only_page=2)
    assert {each[0] for each in shop.decisions()} == {"short_paid"}
    assert shop.run(rows, only_page=1).run.changed == 1
    assert shop.run(rows, only_page=2).run.rejected == 1
    assert {each[0] for each in shop.decisions()} == {"settled"}


def test_rejected_lines_are_on_record_and_the_others_go_on(shop):
    shop.order("A")
    shop.order("B")
    report = shop.run([Row("l1", "A"), Row("l2", "B", currency="zzz"), "only,three,values", Row("l3", "B")])
    assert {each[1] for each in shop.decisions()} == {"A", "B"}
    assert [(each.line, each.field) for each in report.rejects] == [(3, "currency"), (4, None)]
    assert (report.run.read, report.run.rejected) == (4, 2)
    assert report.has_rejects


def test_a_file_of_a_header_alone_is_a_run_of_nothing(shop):
    report = shop.run([])
    assert (report.run.state, report.run.read, report.outcomes) == ("finished", 0, {})


def test_the_same_file_at_once_is_done_by_one(shop):
    shop.order("A")
    content, workshop = file_of([Row("l1", "A")]), shop.workshop()
    run, header = shop.begin(content, workshop)
    other, _ = shop.begin(content, workshop)
    assert isinstance(other, AlreadyRunning)
    assert (other.run_id, other.step, other.page, other.pages) == (run.id, "lines", 0, 1)
    assert shop.decisions() == set()
    carry_out(run, header, pages(io.BytesIO(content), config().format))
    later, _ = shop.begin(content, workshop)
    assert not isinstance(later, AlreadyRunning)
    assert later.id != run.id


def test_files_with_the_same_orders_do_not_see_half_of_each_other(shop):
    """What another run still reads is left to that one: nobody is told what the half of its file says."""
    shop.order("A")
    shop.order("B")
    filler = [Row(f"f{n:04}", "nobody's") for n in range(1_000)]
    content = file_of([Row("a1", "A", "30.00"), *filler, Row("a2", "A", "20.00")])
    workshop = shop.workshop()
    run, header = shop.begin(content, workshop)
    one, two = pages(io.BytesIO(content), workshop.config.format)
    run.page_of_lines(header, one)
    shop.run([Row("b1", "B"), Row("a3", "A", "0.00")])
    assert {each[:2] for each in shop.decisions()} == {("settled", "B")}
    carry_out(run, header, [one, two])
    assert {each[:2] for each in shop.decisions() if each[0] != "unknown_order"} == {("settled", "A"), ("settled", "B")}
    assert not shop.reminders("cancelled")


def test_a_malformed_file_changes_nothing(shop):
    from reminders.intake.settlement.cutting import MalformedFile

    good = file_of([Row("l1", "A")])
    for bad in (
        b"",
        good.replace(b"gross", b"brutto"),
        good + b'po_1,"never closed',
        good + b"\x00\n",
        good + b"\xff\n",
    ):
        with pytest.raises(MalformedFile):
            check(io.BytesIO(bad), "f.csv", config().format)
    assert shop.sql("SELECT count(*) FROM reminders.reconciliation_runs") == [(0,)]


def test_a_page_that_a_file_does_not_have_is_refused(shop):
    from reminders.domain.errors import InvalidInput

    checked = check(io.BytesIO(file_of([Row("l1", "A")])), "f.csv", config().format)
    for page in (0, 2, -1):
        with pytest.raises(InvalidInput, match=r"page: -?\d is none of the 1 pages"):
            begin(shop.workshop(), checked.file, actor="test", only_page=page)

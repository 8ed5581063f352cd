"""Two runs at once: of one file, and of two files with common orders; and an application that works on the same orders."""

import threading
from decimal import Decimal

from integration.settlement.shop import ORDERS, Row, Shop, file_of
from reminders.domain.errors import Refused
from reminders.intake.settlement.reporting import runs
from reminders.intake.settlement.running import AlreadyRunning


def at_once(*calls):
    """Run them in threads that begin together; their results, or what they raised."""
    start = threading.Barrier(len(calls))
    results = [None] * len(calls)

    def work(number, call):
        start.wait(10)
        try:
            results[number] = call()
        except Exception as error:  # noqa: BLE001 - it is looked at below
            results[number] = error

    threads = [threading.Thread(target=work, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        assert not thread.is_alive()
    return results


def test_one_file_twice_at_once_is_done_once(shop):
    for n in range(1_500):
        shop.order(f"o{n}")
    content = file_of(Row(f"l{n:04}", f"o{n}") for n in range(1_500))
    all_begun = threading.Barrier(3)

    def run():
        from integration.settlement.shop import carry_out, io, pages

        workshop = shop.workshop()
        begun, header = shop.begin(content, workshop)
        # None is done before all have asked: whoever asks after that begins another run, and rightly.
        all_begun.wait(60)
        if isinstance(begun, AlreadyRunning):
            return begun
        return carry_out(begun, header, pages(io.BytesIO(content), workshop.config.format))

    results = at_once(run, run, run)
    refused = [each for each in results if isinstance(each, AlreadyRunning)]
    done = [each for each in results if not isinstance(each, AlreadyRunning)]
    assert (len(refused), len(done)) == (2, 1), results
    assert {each.run_id for each in refused} == {done[0].run.run_id}
    assert done[0].outcomes == {"created": 1_500}
    assert len(shop.reminders()) == 1_500
    assert len(runs(shop.database)) == 1


def test_two_files_with_common_orders_at_once_end_as_one_after_the_other(shop):
    """Each order is paid in two parts, one in each file; both begin before either is done, and neither waits for ever."""
    for n in range(1_500):
        shop.order(f"o{n}")
    halves = [
        [Row(f"{part}{n:04}", f"o{n}", gross) for n in order]
        for part, gross, order in (("a", "30.00", range(1_500)), ("b", "20.00", range(1_499, -1, -1)))
    ]
    tellings = [Shop(shop.database, shop.settings) for _ in halves]
    results = at_once(*(lambda one=one, rows=rows: one.run(rows) for one, rows in zip(tellings, halves, strict=True)))
    assert [each.run.state for each in results] == ["finished", "finished"], results
    assert all(not one.told for one in tellings)
    assert {each[0] for each in shop.decisions()} == {"settled"}
    assert {(each[0], each[4]) for each in shop.reminders()} == {("settled", "50.00")}
    assert len(shop.reminders()) == 1_500
    assert [each.outcomes for each in (shop.run(halves[0]), shop.run(halves[1]))] == [{"unchanged": 1_500}] * 2


def test_three_files_of_the_same_lines_at_once_make_one_reminder_for_each_decision(shop):
    for n in range(600):
        shop.order(f"o{n}")
    rows = [Row(f"l{n:04}", f"o{n}") for n in range(600)]
    files = [rows, rows[::-1], rows[300:] + rows[:300]]
    results = at_once(*(lambda each=each: Shop(shop.database, shop.settings).run(each) for each in files))
    assert [each.run.state for each in results] == ["finished"] * 3, results
    assert sum(each.run.new for each in results) == 600
    assert len(shop.decisions()) == len(shop.reminders()) == 600
    assert shop.sql("SELECT count(*) FROM reminders.reminders") == [(600,)]


def test_an_application_that_cancels_and_holds_its_orders_meanwhile_ends_nothing(shop):
    """A deadlock is sat out like any short absence of Postgres."""
    for n in range(500):
        shop.order(f"o{n:03}")
    rows = [Row(f"l{n:03}", f"o{n:03}", "40.00") for n in range(500)]
    shop.run(rows)
    corrected = [Row(f"l{n:03}", f"o{n:03}", "45.00") for n in range(500)]

    def cancel_backwards():
        for (reminder,) in shop.sql("SELECT id FROM reminders.reminders ORDER BY id DESC LIMIT 40"):
            shop.sql("SELECT reminders.cancel(%s)", reminder)

    report, nothing = at_once(lambda: shop.run(corrected), cancel_backwards)
    assert nothing is None
    assert report.outcomes == {"corrected": 500}
    assert len(shop.reminders("cancelled")) == 40
    assert {each[4] for each in shop.reminders()} == {"45.00"}
    assert {each[5] for each in shop.decisions()} == {Decimal(45)}
    assert shop.sql(f"SELECT count(*) FROM {ORDERS}") == [(500,)]
    assert not isinstance(report, Refused)

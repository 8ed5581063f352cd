"""kill -9 in the middle of every step, before and after a page's commit; then the file is run again."""

import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from integration.settlement.shop import TODAY, Row, file_of
from reminders.intake.settlement.reporting import runs

TESTS = Path(__file__).resolve().parents[2]
ORDERS = 1_200


@pytest.fixture
def filled(shop):
    shop.sql(
        "INSERT INTO shop_orders SELECT 'o' || n, 'u' || n, 50, 'EUR', NULL, 'http://127.0.0.1:8780/hook', "
        "CASE WHEN n >= 1200 THEN %s END FROM generate_series(0, 2400) n",
        TODAY - timedelta(days=6),
    )
    return shop


def rows():
    """Three pages. Every fifth order is paid by two lines, on different pages; every ninth is refunded by its charge alone."""
    yield from (Row(f"a{n:04}", f"o{n}", "30.00" if n % 5 == 0 else "50.00") for n in range(ORDERS))
    yield from (Row(f"b{n:04}", f"o{n}", "20.00") for n in range(0, ORDERS, 5))
    yield from (Row(f"r{n:04}", "", "-5.00", "refund", charge=f"ch_a{n:04}") for n in range(0, ORDERS, 9))
    yield from (Row(f"u{n:04}", "nobody's") for n in range(600))


def kill_in(shop, services, path, *where):
    environ = {**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}"}
    command = [sys.executable, "-m", "integration.settlement.interrupted", services.database_url, str(path), *where]
    with subprocess.Popen(command, env=environ, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"here\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    # A minute later: nobody has heard of it since.
    shop.sql("UPDATE reminders.reconciliation_runs SET lease_until = clock_timestamp() WHERE status = 'running'")


def test_clean_run_is_what_the_others_are_compared_with(filled):
    """Stated by hand, so that what is compared with is right itself."""
    report = filled.run(file_of(rows()))
    found = {(each.decision, each.count, str(each.amount)) for each in report.decisions}
    assert found == {
        ("settled", 1_200, "60000.00"),
        ("refunded", 134, "670.00"),
        ("unknown_order", 600, "30000.00"),
        ("missing", 1_201, "0"),
    }
    assert len(filled.reminders()) == 1_200 + 134 + 600 + 1_201


@pytest.mark.parametrize("where", [
    ("before", "lines", "1"), ("after", "lines", "2"), ("before", "lines", "3"), ("after", "lines", "3"),
    ("before", "decide", "1"), ("after", "decide", "2"), ("before", "decide", "4"),
    ("before", "missing", "1"), ("after", "missing", "2"), ("before", "missing", "4"), ("after", "missing", "4"),
])  # fmt: skip
def test_killed_and_run_again_there_is_one_reminder_for_each_decision(filled, services, tmp_path, where):
    path = tmp_path / "f.csv"
    path.write_bytes(file_of(rows()))
    kill_in(filled, services, path, *where)
    step = runs(filled.database)[0].step
    report = filled.run(path.read_bytes())
    assert len(runs(filled.database)) == 1
    assert (report.run.read, report.run.new) == (2_174, 2_174)
    assert {(each.decision, each.count, str(each.amount)) for each in report.decisions} == {
        ("settled", 1_200, "60000.00"), ("refunded", 134, "670.00"), ("unknown_order", 600, "30000.00"), ("missing", 1_201, "0"),
    }  # fmt: skip
    assert report.outcomes == {"created": 3_135}
    assert [(each.category, each.count, str(each.gross)) for each in report.categories] == [
        ("charge", 2_040, "90000.00"), ("refund", 134, "-670.00"),
    ]  # fmt: skip
    assert filled.sql(
        "SELECT count(*), count(DISTINCT r.id), count(DISTINCT r.identity_key) FROM reminders.reminders r "
        "JOIN reminders.reconciliation_decisions d ON d.reminder_id = r.id JOIN reminders.due u ON u.id = r.id"
    ) == [(3_135, 3_135, 3_135)]
    assert filled.sql("SELECT count(*) FROM reminders.reminders") == [(3_135,)]
    assert step in {"lines", "decide", "missing", "done"}
    again = filled.run(path.read_bytes())
    assert (again.outcomes, filled.sums(again)) == ({"unchanged": 3_135}, filled.sums(report))

"""A hundred thousand lines, replayed, with kill -9 in the middle of the first run: one reminder for each decision."""

import json
import os
import signal
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from acceptance.harness import wait_until
from integration.settlement.shop import EXPECTED, HOOK, ORDERS, QUERY, Row, Shop, file_of

LINES = 100_000
TWO_PARTS, REFUNDED, UNKNOWN, DISPUTED = 20_000, 8_000, 3_000, 2_000
ONE_PART = LINES - 2 * TWO_PARTS - REFUNDED - UNKNOWN - DISPUTED
LONGEST = 90.0
"""Seconds for one run: three times what an idle machine of two cores needs."""
SCRIPT = """
import json, sys, time
from reminders.reconciliation import reconcile
began = time.monotonic()
report = reconcile(sys.argv[1], sys.argv[2])
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({
    "seconds": time.monotonic() - began, "peak_kb": int(peak), "outcomes": report.outcomes, "reminders": report.reminders,
    "read": report.run.read, "new": report.run.new, "unchanged": report.run.unchanged, "run": str(report.run.run_id),
    "decisions": [[each.decision, each.currency, each.count, str(each.amount)] for each in report.decisions],
    "categories": [[each.category, each.count, str(each.gross), str(each.net)] for each in report.categories],
}))
"""
DECISIONS = ("settled", "refunded", "disputed", "unknown_order")


def config_text():
    told = "".join(
        f'[decisions.{name}]\nkind = "{name}"\nchannel = "webhook"\ndue = "1d"\n'
        + ('tenant_id = "ops"\nuser_id = "desk"\ndestination = "' + HOOK + '"\n' if name == "unknown_order" else "")
        for name in DECISIONS
    )
    return f'source = "stripe"\nformat = "stripe"\ngrace = "2d"\n[matcher]\nquery = """{QUERY}"""\nexpected = """{EXPECTED}"""\n{told}'


def rows(number_of):
    """Payments in two parts lie as far apart as they can, and refunds name nothing but their charge."""
    one, two, refunded, unknown, disputed = number_of
    for n in range(two):
        yield Row(f"a{n:06}", f"t{n}", "30.00")
    for n in range(one):
        yield Row(f"b{n:06}", f"o{n}", "50.00", fee="1.50")
    for n in range(unknown):
        yield Row(f"c{n:06}", f"nobody's {n}", "9.99")
    for n in range(refunded):
        yield Row(f"d{n:06}", "", "-5.00", "refund", charge=f"ch_b{n:06}")
    for n in range(disputed):
        yield Row(f"e{n:06}", f"o{n}", "-50.00", "dispute")
    for n in range(two):
        yield Row(f"f{n:06}", f"t{n}", "20.00")


@pytest.fixture
def shop(database, settings):
    found = Shop(database, settings)
    found.sql(
        f"CREATE TABLE {ORDERS} (reference text PRIMARY KEY, customer text, amount numeric(12, 2), currency text, zone text, "
        "hook text, payout_expected_at timestamptz)"
    )
    for kind, number in (("o", ONE_PART), ("t", TWO_PARTS)):
        found.sql(
            f"INSERT INTO {ORDERS} SELECT %s || n, 'u' || n, 50, 'EUR', 'Europe/Berlin', %s FROM generate_series(0, %s) n",
            kind, HOOK, number - 1,
        )  # fmt: skip
    yield found
    found.sql(f"DROP TABLE {ORDERS}")


@pytest.fixture
def start(services, tmp_path):
    config = tmp_path / "reconcile.toml"
    config.write_text(config_text())
    environ = {**os.environ, "DATABASE_URL": services.database_url, "REDIS_URL": services.redis_url}

    def call(path):
        command = [sys.executable, "-c", SCRIPT, str(path), str(config)]
        return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)

    return call


def finished(process):
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    return json.loads(out)


@pytest.mark.long
@pytest.mark.timeout(1_200)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_a_hundred_thousand_lines_replayed_with_a_kill_in_the_middle(shop, start, tmp_path):
    path = tmp_path / "payout.csv"
    path.write_bytes(file_of(rows((ONE_PART, TWO_PARTS, REFUNDED, UNKNOWN, DISPUTED))))
    decisions = ONE_PART + TWO_PARTS + REFUNDED + UNKNOWN + DISPUTED

    def count(table):
        return shop.sql(f"SELECT count(*) FROM reminders.{table}")[0][0]

    first = start(path)
    wait_until(lambda: count("reconciliation_decisions") > decisions // 2, 300, "half of the decisions")
    first.send_signal(signal.SIGKILL)
    first.communicate()
    made = count("reconciliation_decisions")
    assert decisions // 2 < made < decisions
    assert count("reminders") == count("due") == made
    # As a minute later.
    shop.sql("UPDATE reminders.reconciliation_runs SET lease_until = clock_timestamp() WHERE status = 'running'")

    second = finished(start(path))
    assert (second["read"], second["new"], second["outcomes"]) == (LINES, LINES, {"created": decisions})
    assert second["decisions"] == [
        ["disputed", "EUR", DISPUTED, f"{DISPUTED * 50}.00"],
        ["refunded", "EUR", REFUNDED, f"{REFUNDED * 5}.00"],
        ["settled", "EUR", ONE_PART + TWO_PARTS, f"{(ONE_PART + TWO_PARTS) * 50}.00"],
        ["unknown_order", "EUR", UNKNOWN, str(Decimal("9.99") * UNKNOWN)],
    ]
    assert second["categories"][0] == [
        "charge", ONE_PART + 2 * TWO_PARTS + UNKNOWN,
        str(Decimal(50) * (ONE_PART + TWO_PARTS) + Decimal("9.99") * UNKNOWN),
        str(Decimal(50) * (ONE_PART + TWO_PARTS) + Decimal("9.99") * UNKNOWN - Decimal("1.50") * ONE_PART),
    ]  # fmt: skip
    one_each = (
        "SELECT count(*), count(DISTINCT r.id), count(DISTINCT r.identity_key), count(u.id) FROM reminders.reconciliation_decisions d "
        "JOIN reminders.reminders r ON r.id = d.reminder_id LEFT JOIN reminders.due u ON u.id = r.id"
    )
    assert shop.sql(one_each) == [(decisions,) * 4]
    assert count("reminders") == decisions
    keys = "SELECT md5(string_agg(delivery_key || due_at || data, ',' ORDER BY delivery_key)) FROM reminders.reminders"
    told = shop.sql(keys)

    third = finished(start(path))
    assert (third["read"], third["unchanged"], third["outcomes"]) == (LINES, LINES, {"unchanged": decisions})
    assert third["run"] != second["run"]
    assert [third[name] for name in ("decisions", "categories", "reminders")] == [
        second[name] for name in ("decisions", "categories", "reminders")
    ]
    assert shop.sql(one_each) == [(decisions,) * 4]
    assert shop.sql(keys) == told
    print(f"replayed {LINES} lines in {third['seconds']:.1f} s, {third['peak_kb']} kB at most")
    assert third["seconds"] < LONGEST


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from Linux's /proc")
def test_memory_does_not_grow_with_the_file(shop, start, tmp_path):
    peaks = []
    for name, parts in (("few", (1_000, 500, 200, 200, 100)), ("many", (8_000, 4_000, 1_600, 1_600, 800))):
        path = tmp_path / f"{name}.csv"
        path.write_bytes(file_of(rows(parts)))
        done = finished(start(path))
        assert done["read"] == sum(parts) + parts[1]
        peaks.append(done["peak_kb"])
    # Kept, 17,500 lines with their decisions would be some 40 MB.
    assert peaks[1] - peaks[0] < 8_000, peaks

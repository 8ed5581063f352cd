"""`reminders reconcile`: the example of a shop as a bookkeeper would decide it, and every way to use the command wrongly."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path

from integration.cli.stage import lines, only
from reminders.cli import reconcile_file
from reminders.domain.errors import ServiceUnavailable
from reminders.intake import progress
from reminders.ledger import settlement_files as files

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "shop"
FILE = EXAMPLE / "payouts.csv"
CONFIG = EXAMPLE / "reconcile.toml"
HEADER, *ROWS = FILE.read_text().splitlines(keepends=True)


def decided(report):
    return {(each["decision"], each["currency"]): (each["count"], each["amount"]) for each in report["decisions"]}


BY_HAND = {
    # 49.90 of 1001, 120.00 of 1002, 15.00 of 1003: paid in full, whatever was refunded or disputed since.
    ("settled", "EUR"): (3, "184.90"),
    ("settled", "JPY"): (1, "4980"),
    # 49.00 came for 1006, of 59.00.
    ("short_paid", "EUR"): (1, "49.00"),
    ("refunded", "EUR"): (1, "20.00"),
    ("disputed", "EUR"): (1, "15.00"),
    # 79.00 that name no order: it is 1005's, which is missing meanwhile.
    ("unknown_order", "EUR"): (1, "79.00"),
    ("missing", "EUR"): (1, "0"),
}


def test_the_example_is_decided_as_by_hand_and_once(run, shop):
    first = only(run("reconcile", FILE, "--json"))
    assert decided(first) == BY_HAND
    assert first["outcomes"] == {"created": 9}
    assert [(each["line_id"], each["amount"], each["reason"]) for each in first["unmatched"]] == [
        ("txn_0007", "79.00", "the line names no order")
    ]
    assert (first["payouts"], first["rejects"], first["run"]["read"], first["run"]["new"]) == ([], [], 11, 11)
    told = shop.rows("SELECT user_id, kind, reference FROM reminders_v1 ORDER BY reference")
    assert told == [
        ("bea", "refund_paid", "order-1002"),
        ("cem", "payment_disputed", "order-1003"),
        ("eva", "payout_missing", "order-1005"),
        ("fay", "payment_short", "order-1006"),
        ("bookkeeping", "line_without_order", "txn_0007"),
    ]
    again = only(run("reconcile", FILE, "--json"))
    assert decided(again) == BY_HAND
    assert again["outcomes"] == {"unchanged": 9}
    assert (again["run"]["new"], again["run"]["unchanged"]) == (0, 11)
    assert shop.count("reminders") == 5


def test_for_people(run, shop):
    shown = run("reconcile", FILE).stdout
    for part in (
        "of stripe: payouts.csv, finished\n11 records: 11 new, 0 changed, 0 unchanged, 0 rejected\n",
        "\nDecisions\ndecision       currency  count  amount\n",
        "settled        EUR           3  184.90\n",
        "\n9 created\n",
        "\nLines without an order\nline      currency  amount  reason\ntxn_0007  EUR        79.00  the line names no order\n",
        "\nReminders: 5 live\n",
        "\nNot told: 4 no rule\n",
    ):
        assert part in shown


def test_a_corrected_file_says_what_it_corrects_and_a_bad_line_where_it_is(run, shop, tmp_path):
    run("reconcile", FILE)
    changed = tmp_path / "corrected.csv"
    text = (
        FILE.read_text()
        .replace("-20.00,0.00,-20.00", "-25.00,0.00,-25.00")
        .replace("15.00,0.48,14.52", "15.o0,0.48,14.52")
    )
    changed.write_text(text)
    result = run("reconcile", changed)
    assert result.exit_code == 3
    for part in (
        "11 records: 0 new, 1 changed, 9 unchanged, 1 rejected",
        "Payouts that do not add up\npayout   currency   lines     paid  difference\npo_0001  EUR       249.00  -254.00       -5.00\n",
        "Rejected lines\nline  field  reason\n4     gross",
        "Corrected, withdrawn, repaired\n",
    ):
        assert part in result.stdout
    assert re.search(
        r"corrected +refunded +order-1002 +po_0001 +EUR +25.00 +amount was 20.00 EUR, is 25.00 EUR", result.stdout
    )
    found = only(run("reconcile", changed, "--json"))
    assert (found["totals"]["rejects"], found["rejects"][0]["line"], found["rejects"][0]["field"]) == (1, 4, "gross")


def test_lists_are_cut_and_say_so(run, shop, tmp_path):
    bad = tmp_path / "bad.csv"
    bad.write_text(HEADER + "".join(ROWS[0].replace("49.90", f"{number}x") for number in range(30)))
    result = run("reconcile", bad, "--limit", 3)
    assert (result.exit_code, "Rejected lines (the first 3 of 30)" in result.stdout) == (3, True)
    assert len(only(run("reconcile", "--show", "last", "--limit", 4, "--json"))["rejects"]) == 4
    dry = run("reconcile", bad, "--dry-run", "--limit", 2)
    assert (dry.exit_code, "Rejected lines (the first 2 of 30)" in dry.stdout) == (3, True)


def test_a_dry_run_needs_no_ledger_and_writes_nothing(run, shop, monkeypatch):
    for name in ("DATABASE_URL", "REDIS_URL"):
        monkeypatch.setenv(name, f"{name[:5].lower()}://nobody.invalid/x")
    found = only(run("reconcile", FILE, "--dry-run", "--json"))
    assert (found["records"], found["pages"], found["rejected"]) == (11, 1, 0)
    assert found["categories"][0] == {
        "category": "charge", "currency": "EUR", "count": 5, "gross": "312.90", "fee": "6.00", "net": "306.90",
    }  # fmt: skip
    assert "payout    EUR           1  -254.00   0.00  -254.00\n" in run("reconcile", FILE, "--dry-run").stdout
    assert shop.count("settlement_lines") == 0


def test_nobody_is_told_without_reminders(run, shop):
    found = only(run("reconcile", FILE, "--no-reminders", "--json"))
    assert decided(found) == BY_HAND
    assert (found["run"]["reminders"], shop.count("reminders")) == (False, 0)
    assert "payouts.csv, without reminders, finished" in run("reconcile", "--show", "last").stdout


def test_one_page(run, shop, tmp_path):
    large = tmp_path / "large.csv"
    row = ROWS[-2].replace("txn_0010", "txn_x{0}")
    large.write_text(HEADER + "".join(row.format(number) for number in range(1_500)))
    found = only(run("reconcile", large, "--page", 2, "--json"))
    assert (found["run"]["only_page"], found["run"]["pages"], found["run"]["read"]) == (2, 2, 500)
    assert "large.csv, page 2 alone, finished" in run("reconcile", "--show", "last").stdout
    refused = run("reconcile", large, "--page", 3)
    assert (refused.exit_code, refused.stderr) == (1, "--page: the file has 2 pages\n")
    assert run("reconcile", FILE, "--page", 2).stderr == "--page: the file has 1 page\n"
    (tmp_path / "header.csv").write_text(HEADER)
    assert "no page: no record is below" in run("reconcile", tmp_path / "header.csv", "--page", 1).stderr
    assert run("reconcile", FILE, "--page", 0).exit_code == 2


def test_a_file_of_a_header_alone_is_a_quiet_day(run, shop, tmp_path):
    (tmp_path / "quiet.csv").write_text(HEADER)
    found = only(run("reconcile", tmp_path / "quiet.csv", "--json"))
    assert (found["run"]["state"], found["run"]["read"]) == ("finished", 0)


def test_overdue_payouts_without_a_file(run, shop):
    found = only(run("reconcile", "--missing", "--json"))
    assert decided(found) == {("missing", "EUR"): (5, "0"), ("missing", "JPY"): (1, "0")}
    assert "of stripe: overdue payouts, finished\n" in run("reconcile", "--missing").stdout


def test_runs_and_files(run, shop):
    assert run("reconcile", "--runs").stdout == "no run yet\n"
    assert run("reconcile", "--show", "last").stderr == "There is no run yet.\n"
    assert run("reconcile", "--files").stdout == "no file is kept\n"
    run("reconcile", FILE)
    run("reconcile", "--missing")
    newest, oldest = lines(run("reconcile", "--runs", "--json"))
    assert [each["kind"] for each in (newest, oldest)] == ["missing", "file"]
    assert only(run("reconcile", "--show", oldest["run_id"], "--json"))["run"]["file"] == "payouts.csv"
    assert "stripe  payouts.csv" in run("reconcile", "--runs").stdout
    assert len(lines(run("reconcile", "--runs", "--json", "--limit", 1))) == 1


def test_status_says_how_it_stands(run, shop):
    assert only(run("status", "--json"))["reconciliation"] is None
    assert "reconciliation" not in run("status").stdout
    run("reconcile", FILE)
    found = only(run("status", "--json"))["reconciliation"]
    assert found.pop("last_finished_at") == only(run("reconcile", "--show", "last", "--json"))["run"]["finished_at"]
    assert found == {"running": 0, "broken_off": 0, "fetching": 0, "refused": 0}
    shop.rows("UPDATE reconciliation_runs SET status = 'running', finished_at = NULL, lease_until = now() RETURNING 1")
    file_id = files.add(
        shop.database, source="stripe", name="f.csv", actor="beat", url="https://files.example.com/f.csv"
    )
    assert re.search(
        r"^reconciliation +none finished, 1 broken off \(`reminders reconcile --runs`\), 1 being fetched$",
        run("status").stdout,
        re.MULTILINE,
    )
    files.refuse(shop.database, file_id, "the far side answers 403")
    assert "1 refused lately (`reminders reconcile --files`)" in run("status").stdout


def test_an_upload_is_kept_once_asked_for_by_id(run, shop):
    kept = only(run("reconcile", FILE, "--upload", "--json"))
    (listed,) = lines(run("reconcile", "--files", "--json"))
    assert (listed["file"], listed["status"], listed["records"], listed["name"]) == (
        kept["file"],
        "ready",
        11,
        "payouts.csv",
    )
    assert shop.count("settlement_lines") == 0
    shown = run("reconcile", FILE, "--upload", "--actor", "ada").stdout
    assert re.search(r"celery -A reminders call reminders.reconcile --kwargs '(.*)'\n", shown)
    assert json.loads(re.search(r"--kwargs '(.*)'", shown)[1]).keys() == {"file", "actor"}
    assert "ready   1,450" in run("reconcile", "--files").stdout


def test_the_audit_finds_a_reminder_that_is_gone_and_repairs_it(run, shop):
    run("reconcile", FILE)
    assert "Everything that follows from the files is there." in run("reconcile", "--audit").stdout
    shop.rows("DELETE FROM due WHERE id IN (SELECT id FROM reminders WHERE reference = 'order-1002') RETURNING 1")
    shop.rows("DELETE FROM reminders WHERE reference = 'order-1002' RETURNING 1")
    found = run("reconcile", "--audit")
    assert (found.exit_code, shop.count("reminders")) == (1, 4)
    assert re.search(r"open +its reminder is missing +refunded +order-1002", found.stdout)
    assert only(run("reconcile", "--audit", "--json"))["counts"] == {"reminder_missing": 1}
    repaired = run("reconcile", "--audit", "--repair")
    assert (repaired.exit_code, shop.count("reminders")) == (0, 5)
    assert re.search(r"repaired +its reminder is missing +refunded +order-1002", repaired.stdout)
    run_id = re.search(r"reminders reconcile --show (\S+)", repaired.stdout)[1]
    assert only(run("reconcile", "--show", run_id, "--json"))["outcomes"]["repaired"] == 1
    shop.rows("UPDATE reminders SET status = 'dead', finished_at = now() WHERE reference = 'order-1002' RETURNING 1")
    nothing = run("reconcile", "--audit", "--repair")
    assert (nothing.exit_code, nothing.stdout[-38:]) == (1, "Nothing of it could be repaired here.\n")


def test_somebody_who_has_the_file_in_work_is_not_disturbed(run, shop):
    run("reconcile", FILE)
    shop.rows(
        "UPDATE reconciliation_runs SET status = 'running', step = 'decide', finished_at = NULL,"
        " lease_until = now() + interval '1 minute' RETURNING 1"
    )
    result = run("reconcile", FILE)
    assert result.exit_code == 1
    assert re.match(
        r"Already running: run \S+, since .* UTC, at step decide. Nothing was done.\nIf it has died", result.stderr
    )


def test_progress_is_told_on_standard_error(run, shop, monkeypatch, tmp_path):
    large = tmp_path / "large.csv"
    row = ROWS[0].replace("txn_0001", "txn_x{0}")
    large.write_text(HEADER + "".join(row.format(number) for number in range(1_500)))
    monkeypatch.setattr(progress, "EVERY", -1.0)
    told = run("reconcile", large).stderr.splitlines()
    assert told[0] == "reconcile: 1,500 records on 2 pages checked"
    assert re.fullmatch(r"reconcile: 1,000 records, [\d,]+/s, 100%, about 0 s left", told[1])
    assert told[2] == "reconcile: 1,500 records read; deciding, 1 page of orders"


def test_an_outage_says_how_to_go_on(run, shop, monkeypatch):
    def away(*_):
        raise ServiceUnavailable("Postgres does not answer")

    monkeypatch.setattr(reconcile_file, "carry_out", away)
    result = run("reconcile", FILE)
    assert (result.exit_code, result.stderr) == (
        1,
        "Postgres does not answer\nThe run stands behind page 0 of 1; run the same command again to go on: nothing is done twice\n",
    )


def test_ctrl_c_in_the_middle_says_how_to_go_on(start, process, shop, tmp_path):
    """A matcher that signals by a file, and waits."""
    large = tmp_path / "large.csv"
    row = ROWS[0].replace("txn_0001", "txn_x{0}").replace("order-1001", "order-x{0}").replace("ch_0001", "ch_x{0}")
    large.write_text(HEADER + "".join(row.format(number) for number in range(2_500)))
    os.mkfifo(tmp_path / "reached")
    text = CONFIG.read_text()
    matcher = text[text.index("[matcher]") : text.index("# `settled`")]
    config = tmp_path / "waits.toml"
    config.write_text(text.replace(matcher, '[matcher]\nentry = "waiting_matcher:matcher"\n\n'))
    (tmp_path / "waiting_matcher.py").write_text(
        "import os, time\n"
        "class Waiting:\n"
        "    def match(self, connection, references):\n"
        "        if path := os.environ.get('REACHED'):\n"
        "            open(path, 'w').close()\n"
        "            time.sleep(60)\n"
        "        return {}\n"
        "    def expected(self, connection, **_):\n"
        "        return []\n"
        "matcher = Waiting()\n"
    )
    environ = {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "REMINDERS_RECONCILE": str(config)}
    running = start("reconcile", str(large), environ={**environ, "REACHED": str(tmp_path / "reached")})
    (tmp_path / "reached").read_bytes()
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=30)
    assert (running.returncode, out) == (130, "")
    # Progress is told as well where reading takes longer than some seconds.
    assert [line for line in err.splitlines() if line and not line.startswith("reconcile: ")] == [
        "Broken off where all is read, while deciding; run the same command again to go on: nothing is done twice"
    ]
    ended = process("reconcile", str(large), "--json", environ=environ)
    assert ended.returncode == 0
    found = json.loads(ended.stdout)
    assert (found["run"]["read"], found["run"]["new"], found["totals"]["unmatched"]) == (2_500, 2_500, 2_500)
    assert shop.rows("SELECT status, count(*) FROM reconciliation_runs GROUP BY 1") == [("finished", 1)]

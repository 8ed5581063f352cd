"""`reminders reconcile` on what it cannot take: one or two clear lines, the right exit code, and nothing changed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "shop"
FILE = EXAMPLE / "payouts.csv"
CONFIG = EXAMPLE / "reconcile.toml"
HEADER = FILE.read_text().splitlines(keepends=True)[0]
UNKNOWN = "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"


MALFORMED = {
    "empty": (b"", "the file is empty; its first line must name the columns"),
    "blank": (b"\n\n \n", "the file is empty"),
    "binary": (bytes(range(256)) * 40, "contains a NUL byte"),
    "gzip": (b"\x1f\x8b\x08\x00rest", "the file is gzip, not text"),
    "workbook": (b"PK\x03\x04rest", "a zip archive or a workbook"),
    "utf-16": ("\ufeffa,b\n".encode("utf-16-le"), "UTF-16"),
    "a 10 MB line": (HEADER.encode() + b"x" * 10_000_000, "is longer than 131,072 bytes"),
    "a 10 MB first line": (b"x" * 10_000_000, "is longer than 131,072 bytes"),
    "an open quote": (FILE.read_bytes() + b'"open,', "opens a quote that is never closed"),
    "other columns": (b"id,amount\n1,2\n", "balance_transaction_id"),
    "a column twice": (HEADER.strip().encode() + b",currency\n", "currency"),
    "no utf-8": (FILE.read_bytes() + b"caf\xe9\n", "is no UTF-8 text (byte 0xE9)"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_file_changes_nothing(run, shop, tmp_path, name):
    content, said = MALFORMED[name]
    file = tmp_path / "bad.csv"
    file.write_bytes(content)
    for more in ((), ("--dry-run",), ("--upload",)):
        result = run("reconcile", file, *more)
        assert (result.exit_code, result.stdout) == (1, "")
        assert said in result.stderr
        assert result.stderr.startswith(f"{file}: ")
        assert result.stderr.endswith("\nNothing was changed.\n")
        assert len(result.stderr.splitlines()) == 2
    assert [
        shop.count(table) for table in ("settlement_lines", "reconciliation_runs", "reconciliation_file_pages")
    ] == [0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Say what to do: FILE, --missing, --runs, --files, --show, --audit"),
        ([FILE, "--runs"], "FILE and --runs do not go together"),
        (["--audit", "--missing"], "--missing and --audit do not go together"),
        (["--repair", "--missing"], "--repair goes with --audit only"),
        (["--audit", "--page", "1"], "--page goes with FILE only"),
        (["--runs", "--upload"], "--upload goes with FILE only"),
        (["--audit", "--no-reminders"], "--no-reminders goes with FILE or --missing only"),
        ([FILE, "--upload", "--dry-run"], "--upload only keeps the file"),
        ([FILE, "--dry-run", "--page", "1"], "--dry-run reads the whole file"),
        ([FILE, FILE], "unexpected extra argument"),
        ([FILE, "--page", "one"], "--page"),
    ],
)
def test_wrong_usage(run, shop, arguments, said):
    result = run("reconcile", *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["/nonexistent/f.csv"], "/nonexistent/f.csv cannot be read: No such file or directory"),
        (["/"], "/ cannot be read: Is a directory"),
        (["--show", UNKNOWN], f"there is no run {UNKNOWN}; `reminders reconcile --runs` lists them"),
        (["--show", "seven"], "--show: 'seven' is no id"),
        ([FILE, "--config", "/nonexistent.toml"], "/nonexistent.toml cannot be read: No such file or directory"),
        ([FILE, "--config", "/"], "/ cannot be read: Is a directory"),
        ([FILE, "--config", FILE], "is no TOML"),
        (["-"], "- can be read only once"),
    ],
)
def test_what_is_refused_in_a_line_or_two(run, shop, arguments, said):
    result = run("reconcile", *arguments, input=b"")
    assert (result.exit_code, result.stdout) == (1, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) <= 2


def test_without_a_configuration_it_is_told_how_to_give_one(run, shop, monkeypatch):
    monkeypatch.delenv("REMINDERS_RECONCILE")
    for arguments in ([FILE], ["--audit"], ["--missing"], [FILE, "--dry-run"], [FILE, "--upload"]):
        result = run("reconcile", *arguments)
        assert (result.exit_code, "give --config FILE, or set REMINDERS_RECONCILE" in result.stderr) == (1, True)
    assert run("reconcile", "--runs").exit_code == 0
    assert run("reconcile", FILE, "--config", CONFIG).exit_code == 0


def test_all_faults_of_a_configuration_at_once(run, shop, tmp_path):
    (tmp_path / "r.toml").write_text(
        CONFIG.read_text().replace("grace", "grance").replace('kind = "refund_paid"', "kind = 7")
    )
    result = run("reconcile", FILE, "--config", tmp_path / "r.toml")
    assert result.exit_code == 1
    assert [fault in result.stderr for fault in ("grance", "grace", "decisions.refunded.kind")] == [True] * 3


def test_a_matcher_that_cannot_be_had_or_fails_is_named(run, shop, tmp_path):
    text = CONFIG.read_text()
    matcher = text[text.index("[matcher]") : text.index("# `settled`")]
    (tmp_path / "gone.toml").write_text(text.replace(matcher, '[matcher]\nentry = "nowhere.at_all:matcher"\n\n'))
    assert "nowhere.at_all" in run("reconcile", FILE, "--config", tmp_path / "gone.toml").stderr
    (tmp_path / "broken.toml").write_text(text.replace("FROM shop.orders", "FROM shop.nothing"))
    result = run("reconcile", FILE, "--config", tmp_path / "broken.toml")
    assert (result.exit_code, "shop.nothing" in result.stderr) == (1, True)
    assert "Traceback" not in result.stderr
    assert shop.count("reconciliation_decisions") == 0


def test_names_of_bytes_that_are_no_text(process, shop, tmp_path):
    name = os.fsencode(tmp_path) + b"/caf\xe9\x1b.csv"
    Path(os.fsdecode(name)).write_bytes(FILE.read_bytes())
    ended = process("reconcile", name)
    # Progress is told where it takes longer than some seconds.
    assert [line for line in ended.stderr.splitlines() if not line.startswith("reconcile: ")] == []
    assert ended.returncode == 0
    assert "of stripe: caf\\udce9\\x1b.csv, finished" in ended.stdout
    Path(os.fsdecode(name)).write_bytes(b"")
    ended = process("reconcile", name)
    assert ended.returncode == 1
    assert "caf\\udce9\\x1b.csv: the file is empty" in ended.stderr


def test_a_dry_run_names_an_id_that_comes_again_and_sums_it_once(run, shop, tmp_path):
    header, row, *_ = FILE.read_text().splitlines(keepends=True)
    padding = [row.replace("txn_0001", f"txn_p{n}") for n in range(1_200)]
    (tmp_path / "twice.csv").write_text(
        "".join([header, row, *padding, row, row.replace("49.90", "49.80").replace("48.88", "48.78")])
    )
    result = run("reconcile", tmp_path / "twice.csv", "--dry-run", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["rejected"], found["categories"][0]["count"]) == (3, 1, 1_201)
    (reject,) = found["rejects"]
    assert (reject["line"], reject["field"]) == (1_204, "line_id")
    assert reject["reason"] == "txn_0001 stands in line 2 with other content; the first one counts"


def test_amounts_are_shown_with_the_places_of_their_currency(run, shop, tmp_path):
    header, row, *_ = FILE.read_text().splitlines(keepends=True)
    yen = row.replace("eur,49.90,1.02,48.88", "jpy,12.0000,2.0,10.0000")
    (tmp_path / "yen.csv").write_text(header + yen)
    for wishes in (["--dry-run"], []):
        found = run("reconcile", tmp_path / "yen.csv", *wishes)
        assert "charge    JPY           1     12    2   10\n" in found.stdout

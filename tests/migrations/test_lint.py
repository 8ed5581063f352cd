"""The migrations pass squawk, and what we exclude from it has a reason and is needed. Runs without any service."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from reminders.ledger.migrations import upgrade_script

ROOT = Path(__file__).resolve().parents[2]
CONFIG = ROOT / ".squawk.toml"
SQUAWK = Path(sys.executable).parent / "squawk"


def lint(sql: str, config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "migrations.sql"
    script.write_text(sql)
    command = [SQUAWK, "--config", config, "--reporter", "gcc", script]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def exclusions() -> list[str]:
    return tomllib.loads(CONFIG.read_text())["excluded_rules"]


def test_the_migrations_have_no_finding(tmp_path):
    found = lint(upgrade_script("reminders"), CONFIG, tmp_path)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    ("rule", "sql"),
    [
        ("require-concurrent-index-creation", "CREATE INDEX slow ON reminders.reminders (kind);"),
        ("adding-not-nullable-field", "ALTER TABLE reminders.reminders ALTER COLUMN zone SET NOT NULL;"),
        ("changing-column-type", "ALTER TABLE reminders.due ALTER COLUMN lane TYPE varchar(9);"),
    ],
)
def test_a_migration_that_would_lock_a_live_table_is_found(tmp_path, rule, sql):
    found = lint(sql, CONFIG, tmp_path)
    assert found.returncode != 0
    assert rule in found.stdout


def test_every_transaction_of_the_script_says_how_long_it_may_wait_and_run():
    statements = [line for line in upgrade_script("reminders").splitlines() if line]
    begins = [place for place, line in enumerate(statements) if line == "BEGIN;"]
    assert len(begins) == statements.count("COMMIT;") > 3
    for place in begins:
        assert statements[place + 1 : place + 3] == [
            "SET LOCAL lock_timeout = '5s';",
            "SET LOCAL statement_timeout = '15min';",
        ]


def test_an_index_of_a_table_that_an_earlier_migration_made_is_built_concurrently(tmp_path):
    script = upgrade_script("reminders")
    assert "CREATE INDEX CONCURRENTLY IF NOT EXISTS due_give_up" in script
    found = lint(script.replace("CONCURRENTLY IF NOT EXISTS due_give_up", "due_give_up"), CONFIG, tmp_path)
    assert "require-concurrent-index-creation" in found.stdout


def test_every_exclusion_says_why():
    lines = [line.strip() for line in CONFIG.read_text().splitlines()]
    for rule in exclusions():
        place = lines.index(f'"{rule}",')
        assert lines[place - 1].startswith("#")


@pytest.mark.parametrize("rule", exclusions())
def test_every_exclusion_is_still_needed(tmp_path, rule):
    without = tmp_path / "squawk.toml"
    without.write_text(CONFIG.read_text().replace(f'"{rule}",', ""))
    found = lint(upgrade_script("reminders"), without, tmp_path)
    assert rule in found.stdout

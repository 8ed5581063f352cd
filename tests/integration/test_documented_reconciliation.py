"""The examples of docs/reconciliation.md, run as they stand there; what its tables name is there."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import fields
from pathlib import Path

import psycopg2
import pytest

from reminders import reconciliation
from reminders.intake.settlement.reporting import Report
from reminders.providers.file_fetch import _NOT_NOW

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "shop"
PAGE = (ROOT / "docs" / "reconciliation.md").read_text()


def code(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


@pytest.fixture
def shop(database, monkeypatch):
    """The example's orders, and a folder in which the page's own matcher is the configuration's."""
    url = database.url.set(drivername="postgresql").render_as_string(hide_password=False)
    monkeypatch.setenv("DATABASE_URL", url)
    connection = psycopg2.connect(url)
    connection.autocommit = True
    cursor = connection.cursor()
    cursor.execute("DROP SCHEMA IF EXISTS shop CASCADE")
    cursor.execute((EXAMPLE / "orders.sql").read_text())
    cursor.execute("CREATE TABLE shop.paid (reference text PRIMARY KEY)")
    yield cursor
    cursor.execute("DROP SCHEMA shop CASCADE")
    connection.close()


def test_the_documented_matcher_and_api(shop, tmp_path, monkeypatch, capsys):
    matcher, api = code("python")
    (tmp_path / "shop_orders.py").write_text(matcher)
    text = (EXAMPLE / "reconcile.toml").read_text()
    built_in = text[text.index("[matcher]") : text.index("# `settled`")]
    (tmp_path / "reconcile.toml").write_text(text.replace(built_in, '[matcher]\nentry = "shop_orders:matcher"\n\n'))
    (tmp_path / "payouts.csv").write_bytes((EXAMPLE / "payouts.csv").read_bytes())
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(api, {})
    monkeypatch.delitem(sys.modules, "shop_orders")
    assert "short_paid EUR 1 49.00\n" in capsys.readouterr().out
    shop.execute("SELECT reference FROM shop.paid ORDER BY 1")
    assert shop.fetchall() == [("order-1001",), ("order-1002",), ("order-1003",), ("order-1004",)]
    shop.execute("SELECT data::text FROM reminders.reminders WHERE reference = 'order-1002'")
    named = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("A reminder carries") : PAGE.index("Templates can show")]))
    data = shop.fetchone()[0]
    assert {name for name in named - {"data"} if f'"{name}"' in data} == named - {"data"}


def test_the_page_shows_what_the_example_prints(shop, monkeypatch):
    from click.testing import CliRunner

    from reminders.cli.app import reminders

    arguments = ["reconcile", str(EXAMPLE / "payouts.csv"), "--config", str(EXAMPLE / "reconcile.toml")]
    shown = CliRunner().invoke(reminders, arguments)
    assert shown.exit_code == 0
    (documented,) = code("text")
    assert re.sub(r"Run \S+ of", "Run ID of", shown.stdout) == re.sub(r"Run \S+ of", "Run ID of", documented)


def test_the_documented_query(shop):
    reconciliation.reconcile(EXAMPLE / "payouts.csv", EXAMPLE / "reconcile.toml")
    (query,) = code("sql")
    shop.execute(query)
    found = {(name, currency): (count, delivered) for name, currency, count, _, delivered in shop.fetchall()}
    assert found["settled", "EUR"] == (3, 0)
    assert len(found) == 7


def test_the_tables_and_their_named_columns_exist(database):
    connection = psycopg2.connect(database.url.set(drivername="postgresql").render_as_string(hide_password=False))
    with connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns"
            " WHERE table_schema = 'reminders' GROUP BY 1"
        )
        columns = dict(cursor.fetchall())
    connection.close()
    section = PAGE[PAGE.index("## Tables") : PAGE.index("```sql")]
    for table, what in re.findall(r"^\| `(\w+)` \| (.*) \|$", section, re.MULTILINE):
        assert set(re.findall(r"`(\w+)`", what)) <= set(columns[table])


def test_the_json_keys_are_those_of_the_report():
    said = PAGE[PAGE.index("`--json` prints one object") : PAGE.index("Amounts are text")]
    assert re.findall(r"`(\w+)`", said) == [field.name for field in fields(Report)]


def test_the_answers_that_are_tried_again_are_those_of_the_code():
    (line,) = [line for line in PAGE.splitlines() if line.startswith("not, or if the file has changed")]
    assert {int(number) for number in re.findall(r"\b4\d\d\b", line)} == _NOT_NOW


def test_the_tests_that_it_names_exist():
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    there = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert named
    assert named <= there


def test_a_newcomers_script_is_what_makes_the_orders(database, monkeypatch, capsys):
    monkeypatch.setenv("DATABASE_URL", database.url.set(drivername="postgresql").render_as_string(hide_password=False))
    spec = importlib.util.spec_from_file_location("make_orders", EXAMPLE / "make_orders.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    for _ in range(2):
        script.main()
    assert capsys.readouterr().out == "7 orders in shop.orders\n" * 2
    connection = psycopg2.connect(script.database_url())
    with connection, connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA shop CASCADE")
    connection.close()

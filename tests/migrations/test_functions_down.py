"""0013: functions and types come and go with it, in every schema, and the release before goes on writing."""

from __future__ import annotations

import re

import psycopg2
import psycopg2.errors
from alembic.script import ScriptDirectory

from reminders.ledger.migrations import migrate, upgrade_script
from reminders.ledger.schema_version import scripts_folder

MADE = """
SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = '{s}'::regnamespace
UNION ALL SELECT typname || ':' || pg_get_userbyid(typowner) FROM pg_type t
WHERE typnamespace = '{s}'::regnamespace AND typtype = 'c' AND (SELECT relkind FROM pg_class WHERE oid = typrelid) = 'c'
ORDER BY 1"""
TELL = """INSERT INTO {s}.known_channels VALUES ('log', true)"""
SCHEDULE = "SELECT (m.s).created FROM (SELECT {s}.schedule('t', 'u', 'k', 'log', 'd', now(), data => '{{\"a\": [1.50]}}') AS s) m"


def test_down_takes_all_of_them_away_and_up_makes_the_same(empty_database, query):
    before = ScriptDirectory(str(scripts_folder())).get_revision("0013").down_revision
    migrate(empty_database, "reminders", before)
    others = query(empty_database, MADE.format(s="reminders"))
    migrate(empty_database, "reminders", "0013")
    made = query(empty_database, MADE.format(s="reminders"))
    assert len(made) - len(others) == 31
    migrate(empty_database, "reminders", before)
    assert query(empty_database, MADE.format(s="reminders")) == others
    migrate(empty_database, "reminders", "0013")
    assert query(empty_database, MADE.format(s="reminders")) == made


def test_down_gives_back_what_later_migrations_have_changed(empty_database, query):
    scripts = ScriptDirectory(str(scripts_folder()))
    changing = sorted(
        folder.name
        for folder in (scripts_folder() / "functions").iterdir()
        if folder.name.isdigit() and folder.name > "0013"
    )
    assert len(changing) > 4
    before = {}
    for changed in changing:
        migrate(empty_database, "reminders", scripts.get_revision(changed).down_revision)
        before[changed] = query(empty_database, MADE.format(s="reminders"))
        migrate(empty_database, "reminders", changed)
        assert query(empty_database, MADE.format(s="reminders")) != before[changed]
    for changed in reversed(changing):
        migrate(empty_database, "reminders", scripts.get_revision(changed).down_revision)
        assert query(empty_database, MADE.format(s="reminders")) == before[changed]


def test_each_schema_has_its_own_and_they_are_those_of_the_script(empty_database, query, psql):
    migrate(empty_database, "one")
    psql(empty_database, upgrade_script("two"))
    one, two = ([row[0] for row in query(empty_database, MADE.format(s=schema))] for schema in ("one", "two"))
    assert [re.sub(r"\bone\.", "two.", each) for each in one] == two
    for schema in ("one", "two"):
        query(empty_database, TELL.format(s=schema))
        assert query(empty_database, SCHEDULE.format(s=schema)) == [(True,)]
        assert query(empty_database, f"SELECT count(*) FROM {schema}.due") == [(1,)]


def test_a_release_that_knows_no_functions_goes_on_writing(live):
    migrate(live.url, "reminders")
    live.query("ALTER TABLE reminders.due ALTER COLUMN destination_id DROP NOT NULL")
    made = live.old_reminder(due="now() + interval '1 day'")
    assert live.query(f"SELECT reminders.cancel('{made}')") == [("cancelled",)]


def test_the_rights_that_the_docs_name_are_enough_and_all_are_needed(empty_database, query):
    """Each of them taken away, `schedule` is refused, at the latest when it is asked for the same again."""
    migrate(empty_database, "reminders")
    query(empty_database, TELL.format(s="reminders"))
    query(empty_database, "INSERT INTO reminders.known_zones VALUES ('Asia/Tokyo')")
    page = (scripts_folder().parent / "docs" / "embedding.md").read_text()
    said = " ".join(re.search(r"is `USAGE` on the\s+schema, (.*?)\. They name", page, re.DOTALL)[1].split())
    read, written = (re.findall(r"`([a-z_]+)`", part) for part in said.split("and `SELECT` and `INSERT` on"))
    rights = [("SELECT", table) for table in read + written] + [("INSERT", table) for table in written]
    assert len(rights) > 7
    call = "SELECT reminders.schedule('shop', 'ada', 'k', 'log', 'd', now(), zone => 'Asia/Tokyo')"
    refused = []
    for missing in (None, *rights):
        grants = [
            f"GRANT {right} ON reminders.{table} TO guest" for right, table in rights if (right, table) != missing
        ]
        tried = [
            "BEGIN",
            "CREATE ROLE guest",
            "GRANT USAGE ON SCHEMA reminders TO guest",
            *grants,
            "SET LOCAL ROLE guest",
            call,
        ]
        try:
            query(empty_database, "; ".join([*tried, call, "ROLLBACK"]))
        except psycopg2.errors.InsufficientPrivilege:
            refused.append(missing)
    assert refused == rights

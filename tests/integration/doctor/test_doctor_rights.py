"""Whoever has the rights that `rights_pipeline` asks for, and no others, can scan and deliver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib import import_module

import psycopg2
import pytest
from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from integration.doctor.plants_postgres import role
from reminders.ledger.statement import Statement
from reminders.operate.doctor.tables import PIPELINE, _words

SCANNING = (
    "scanning", "leasing", "repairing", "ending", "noticing", "shutdowns", "dispatchers", "tenant_registry", "releasing", "planning",
    "occurrences",
)  # fmt: skip
DELIVERING = (
    "claiming", "finalizing", "giving_back", "putting_off", "late_truth", "limiting", "taking_back", "notices", "quiet_parking",
    "holding", "failing", "shadowing",
)  # fmt: skip
COMMANDS = {"notices.SEE", "notices.LIST", "notices.COUNT"}
"""In these modules for what operators do."""
GRANTS = [
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA reminders TO limited",
    *(f"GRANT {', '.join(_words(rights))} ON reminders.{table} TO limited" for table, rights in PIPELINE.items()),
]


@pytest.fixture
def limited(scene) -> Iterator[DriverConnection]:
    planted = role(*GRANTS)(scene)
    next(planted)
    assert scene.installation.settings.database_url is not None
    with closing(psycopg2.connect(scene.installation.settings.database_url.reveal())) as connection:
        yield connection
    next(planted, None)


def statements() -> Iterator[tuple[str, Statement]]:
    for name in (*SCANNING, *DELIVERING):
        for each, found in vars(import_module(f"reminders.ledger.{name}")).items():
            if isinstance(found, Statement) and f"{name}.{each}" not in COMMANDS:
                yield f"{name}.{each}", found


def test_the_rights_of_the_pipeline_suffice_for_every_statement_of_it(limited):
    lacking = {}
    for name, statement in statements():
        bound = statement.in_schema("reminders")
        with limited.cursor() as cursor:
            try:
                # Planning it asks for all its rights.
                cursor.execute(f"EXPLAIN {bound.plain}", bound.arguments(dict.fromkeys(statement.types)))
            except psycopg2.errors.InsufficientPrivilege as error:
                lacking[name] = str(error).partition("\n")[0]
        limited.rollback()
    assert lacking == {}


def test_a_table_that_claims_read_and_a_release_has_added_is_missed(scene):
    planted = role(
        "GRANT ALL ON ALL TABLES IN SCHEMA reminders TO limited", "REVOKE ALL ON reminders.suppressions FROM limited"
    )(scene)
    next(planted)
    assert "rights_pipeline" in scene.names()
    next(planted, None)

"""Which version the ledger's schema has, and which this release needs.

Every command and every worker asks this at its start. The machinery that migrates would take longer to import than a
short command takes to run, so nothing of it is needed here.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, create_engine
from sqlalchemy.pool import NullPool

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.database import CONNECT_TIMEOUT, driver_url

VERSION_TABLE = "schema_version"


def scripts_folder() -> Path:
    """Where the migrations are: inside the installed package, or at the top of a source checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def head() -> str:
    """The version of this release: the number of the last migration, with which its file's name begins."""
    return max(path.name.partition("_")[0] for path in (scripts_folder() / "versions").glob("[0-9]*_*.py"))


def version(connection: Connection, schema: str) -> str | None:
    """The number of the last migration that has run; None where there is no ledger. Reads in the caller's transaction."""
    table = f"{schema}.{VERSION_TABLE}"
    if connection.exec_driver_sql("SELECT to_regclass(%s)", (table,)).scalar_one() is None:
        return None
    found: str | None = connection.exec_driver_sql(f"SELECT max(version_num) FROM {table}").scalar_one()
    return found


def standing(url: str, schema: str) -> str | None:
    """The number of the last migration that has run in the database at `url`; None where there is no ledger."""
    engine = create_engine(driver_url(url), poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT})
    with engine.connect() as connection:
        return version(connection, schema)


def require_head(url: str, schema: str) -> None:
    """Raise `ServiceUnavailable` unless the schema is at least at this release's version."""
    needed = head()
    current = standing(url, schema)
    if current is None or current < needed:
        state = "has no tables yet" if current is None else f"is at version {current}"
        raise ServiceUnavailable(
            f"The ledger's schema {schema!r} {state}; this release needs {needed}.\nRun `reminders migrate` first."
        )

"""Bringing the ledger's schema to the version this release needs."""

from __future__ import annotations

import io
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.database import CONNECT_TIMEOUT, NOTICE_SILENCE, driver_url
from reminders.ledger.migration_lock import LONGEST_WAIT, one_at_a_time


def scripts_folder() -> Path:
    """Where the migrations are: inside the installed package, or at the top of a source checkout."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_migrations"
    return inside if inside.is_dir() else package.parent / "migrations"


def _config(schema: str) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts_folder()).replace("%", "%%"))
    config.attributes["schema"] = schema
    return config


def migrate(
    url: str, schema: str, revision: str = "head", *, wait: float = LONGEST_WAIT
) -> tuple[str | None, str | None]:
    """Upgrade (or, with a lower revision, downgrade) and return the versions before and after.

    Every migration is committed by itself; where one fails, those before it stay, and another run goes on from there. It
    gives up after 5 s rather than queue in front of the application's locks. Uses two connections. Raises
    `ServiceUnavailable` where another migrator is at work for more than `wait` seconds, or the application's
    transactions hold up an index or a row for too long.
    """
    engine = create_engine(
        driver_url(url),
        poolclass=NullPool,
        isolation_level="READ COMMITTED",
        connect_args={**NOTICE_SILENCE, "application_name": "reminders-migrate"},
    )
    config = _config(schema)
    with one_at_a_time(engine, wait) as lock, engine.connect() as connection:
        config.attributes["lock"] = lock
        before = _version(connection, schema)
        connection.rollback()
        config.attributes["connection"] = connection
        lower = before is not None and revision != "head" and (revision == "base" or revision < before)
        (command.downgrade if lower else command.upgrade)(config, revision)
        after = _version(connection, schema)
    return before, after


def upgrade_script(schema: str) -> str:
    """The SQL that `migrate` would run on an empty database."""
    config = _config(schema)
    config.output_buffer = buffer = io.StringIO()
    command.upgrade(config, "head", sql=True)
    return buffer.getvalue()


def require_head(url: str, schema: str) -> None:
    """Raise `ServiceUnavailable` unless the schema is at least at this release's version."""
    head = ScriptDirectory.from_config(_config(schema)).get_current_head()
    engine = create_engine(driver_url(url), poolclass=NullPool, connect_args={"connect_timeout": CONNECT_TIMEOUT})
    with engine.connect() as connection:
        current = _version(connection, schema)
    if current is None or (head is not None and current < head):
        state = "has no tables yet" if current is None else f"is at version {current}"
        raise ServiceUnavailable(
            f"The ledger's schema {schema!r} {state}; this release needs {head}.\nRun `reminders migrate` first."
        )


def _version(connection: object, schema: str) -> str | None:
    options = {"version_table_schema": schema, "version_table": "schema_version"}
    return MigrationContext.configure(connection, opts=options).get_current_revision()  # type: ignore[arg-type]

"""Bringing the ledger's schema to the version this release needs."""

from __future__ import annotations

import io

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from reminders.ledger.database import NOTICE_SILENCE, driver_url
from reminders.ledger.migration_lock import LONGEST_WAIT, one_at_a_time
from reminders.ledger.schema_version import scripts_folder, version


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
        before = version(connection, schema)
        connection.rollback()
        config.attributes["connection"] = connection
        lower = before is not None and revision != "head" and (revision == "base" or revision < before)
        (command.downgrade if lower else command.upgrade)(config, revision)
        after = version(connection, schema)
    return before, after


def upgrade_script(schema: str) -> str:
    """The SQL that `migrate` would run on an empty database."""
    config = _config(schema)
    config.output_buffer = buffer = io.StringIO()
    command.upgrade(config, "head", sql=True)
    return buffer.getvalue()

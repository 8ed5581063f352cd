"""How migrations run: in our schema, each in its own transaction, giving way to the application's own traffic."""

import io
import re

from alembic import context
from sqlalchemy import Connection, event

from reminders.ledger.migration_lock import require_still_held

SCHEMA = context.config.attributes["schema"]
GUARDS = ("SET LOCAL lock_timeout = '5s'", "SET LOCAL statement_timeout = '15min'")
MAKE_SCHEMA = f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"
OPTIONS = {"version_table_schema": SCHEMA, "version_table": "schema_version", "transaction_per_migration": True}
HOW_TO_RUN = "-- For an empty database: psql -v ON_ERROR_STOP=1 -f THIS_FILE. It brings its own transactions."


def run_online() -> None:
    connection, lock = context.config.attributes["connection"], context.config.attributes["lock"]

    @event.listens_for(connection, "begin")
    def guard(begun: Connection) -> None:
        """Are we still alone, and how long may this transaction wait and run?"""
        require_still_held(lock)
        if begun.get_execution_options().get("isolation_level") != "AUTOCOMMIT":
            begun.exec_driver_sql("; ".join(GUARDS))

    with connection.begin():
        connection.exec_driver_sql(MAKE_SCHEMA)
    context.configure(connection=connection, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()


def run_offline() -> None:
    script = io.StringIO()
    context.configure(dialect_name="postgresql", as_sql=True, transactional_ddl=True, output_buffer=script, **OPTIONS)
    context.execute("BEGIN")
    context.execute(MAKE_SCHEMA)
    context.execute("COMMIT")
    with context.begin_transaction():
        context.run_migrations()
    guarded = "\n\n".join(f"{statement};" for statement in ("BEGIN", *GUARDS))
    guarded_script = re.sub(r"^BEGIN;$", guarded, script.getvalue(), flags=re.MULTILINE)
    context.config.output_buffer.write(f"{HOW_TO_RUN}\n\n{guarded_script}")


if context.is_offline_mode():
    run_offline()
else:
    run_online()

"""How migrations run: in our schema, one at a time, giving way to the application's own traffic."""

from alembic import context
from sqlalchemy import text

SCHEMA = context.config.attributes["schema"]
GUARDS = ("SET LOCAL lock_timeout = '5s'", "SET LOCAL statement_timeout = '15min'")
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('reminders-migrate'))"


def run_online() -> None:
    connection = context.config.attributes["connection"]
    with connection.begin():
        for guard in (*GUARDS, ONE_AT_A_TIME):
            connection.execute(text(guard))
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}"))
        context.configure(connection=connection, version_table_schema=SCHEMA, version_table="schema_version")
        context.run_migrations()


def run_offline() -> None:
    context.configure(
        dialect_name="postgresql",
        as_sql=True,
        version_table_schema=SCHEMA,
        version_table="schema_version",
        transactional_ddl=True,
        output_buffer=context.config.output_buffer,
    )
    with context.begin_transaction():
        for guard in GUARDS:
            context.execute(guard)
        context.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online()

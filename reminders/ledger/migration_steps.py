"""What a migration is made of: scripts in one transaction; and, outside of it, indexes on live tables and filling rows in.

A migration of scripts alone is undone as a whole where it fails. One that also builds an index or fills rows commits what
it did before: each of its steps must therefore be fit to be run again, and none may need a later one to be correct.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Timer

from alembic import context, op
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.database import INDEXES_ONLY

LONGEST_BUILD = 15 * 60.0
"""Seconds that one index may take, the wait for the transactions that were open before it included."""
LONGEST_STALL = 15 * 60.0
"""Seconds to ask again for rows that the application's transactions hold, while not one of them is let go."""
BATCH = 500
"""Rows filled in at once, and so locked together: for some ten milliseconds."""
_FIRST_ID = "00000000-0000-0000-0000-000000000000"
_ASK_AGAIN_EVERY = 0.5


def run(script: str) -> None:
    """Run statements, each ending with `;` at the end of a line, with `{s}` as the schema, in the migration's transaction.

    The statements are SQLAlchemy `text`: a colon before a name makes a parameter of it, unless it is doubled.
    """
    for statement in script.split(";\n"):
        if statement.strip():
            op.execute(_in_schema(statement))


def run_folder(name: str) -> None:
    """Run the scripts in `migrations/functions/NAME`, in the order of their names, in the migration's transaction.

    They define functions, and are sent as they are, with `{s}` as the schema: a colon makes no parameter there. A later
    migration that changes a function has a folder of its own.
    """
    folder = Path(str(context.script.dir)) / "functions" / name
    for script in sorted(folder.glob("*.sql")):
        statements = _in_schema(script.read_text(encoding="utf-8")).rstrip()
        if context.is_offline_mode():
            # `op.execute` would double every percent sign, which nobody halves again there.
            op.get_context().impl.static_output(statements)
        else:
            op.execute(statements.replace(":", r"\:"))


def commit() -> None:
    """Commit the migration so far, with the locks that it holds. What comes before must bear to be run again."""
    with op.get_context().autocommit_block():
        pass


def build_index(name: str, table: str, over: str) -> None:
    """Build an index while the table is read and written, unless it is there. Commits the migration so far.

    `over` is what follows the table's name in CREATE INDEX. The invalid index that a build leaves when it is cut off is
    dropped and built again; a build of it that still runs on the server is waited for. Raises `ServiceUnavailable` where
    it takes longer than `LONGEST_BUILD`.
    """
    create = _in_schema(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {name} ON {{s}}.{table} {over}")
    with op.get_context().autocommit_block():
        if context.is_offline_mode():
            for statement in (
                f"SET statement_timeout = '{LONGEST_BUILD:.0f}s'",
                "SET lock_timeout = 0",
                create,
                "RESET statement_timeout",
                "RESET lock_timeout",
            ):
                op.execute(statement)
            return
        connection = op.get_bind()
        _wait_for_builders(connection, table)
        with _ended_after(connection, LONGEST_BUILD, name):
            if _validity(connection, name, table) is False:
                connection.exec_driver_sql(_in_schema(f"DROP INDEX CONCURRENTLY {{s}}.{name}"))
            connection.exec_driver_sql(create)
        if not _validity(connection, name, table):
            raise ServiceUnavailable(
                f"{name} exists in the ledger's schema, and is no index of {table}.\nRename it, then run `reminders migrate` again."
            )


def fill_in(table: str, missing: str, batch: str) -> None:
    """Give the rows that exist what a new column lacks, in transactions of milliseconds. Commits the migration so far.

    `missing` says which rows of the table lack it. `batch` is one statement that fills at most `:batch` such rows, of the
    lowest `id` above `:after`, skips those that somebody has locked, and selects the last `id` it took, or no row. What
    was skipped is asked for again until it is filled in; raises `ServiceUnavailable` where nobody lets go of it for
    `LONGEST_STALL`. Rows that an older release writes from here on are not waited for.
    """
    if context.is_offline_mode():
        op.get_context().impl.static_output(
            f"-- Here `reminders migrate` fills in the rows of {table} that exist; an empty database has none."
        )
        return
    with op.get_context().autocommit_block():
        connection = op.get_bind()
        last = connection.exec_driver_sql(_in_schema(f"SELECT id FROM {{s}}.{table} ORDER BY id DESC LIMIT 1")).scalar()
        left = text(_in_schema(f"SELECT count(*) FROM {{s}}.{table} WHERE ({missing}) AND id <= :last"))
        end = time.monotonic() + LONGEST_STALL
        while locked := connection.execute(left, {"last": last}).scalar_one():
            if _pass_over(connection, batch):
                end = time.monotonic() + LONGEST_STALL
                continue
            if time.monotonic() >= end:
                raise ServiceUnavailable(
                    f"{locked} rows of {table} have been locked by open transactions for {LONGEST_STALL:g} s.\n"
                    "End those transactions, then run `reminders migrate` again: it goes on where this one stopped."
                )
            time.sleep(_ASK_AGAIN_EVERY)


def _in_schema(sql: str) -> str:
    return sql.replace("{s}", context.config.attributes["schema"])


def _pass_over(connection: Connection, batch: str) -> bool:
    """Fill in what nobody has locked, from the first row to the last; whether there was any."""
    # What is sent along belongs to the same transaction: under REPEATABLE READ, which a role may have as its default, a row
    # that the application changed meanwhile would be an error.
    statement = text(f"SET TRANSACTION ISOLATION LEVEL READ COMMITTED; {INDEXES_ONLY}{_in_schema(batch)}")
    after, any_filled = _FIRST_ID, False
    while found := connection.execute(statement, {"after": after, "batch": BATCH}).scalar():
        after, any_filled = found, True
    return any_filled


def _wait_for_builders(connection: Connection, table: str) -> None:
    """Wait until no index of the table is being built: a build goes on in the server when its client was killed.

    To drop such an index instead ends in a deadlock: the drop waits for the build's lock, the build for the drop's
    snapshot. Nor is that lock good to wait for: it is let go just before the index is committed as valid.
    """
    begun = text("SELECT pid FROM pg_stat_progress_create_index WHERE relid = to_regclass(:table)")
    still = text("SELECT DISTINCT pid FROM pg_locks WHERE pid = ANY(:building)")
    building = connection.execute(begun, {"table": _in_schema(f"{{s}}.{table}")}).scalars().all()
    end = time.monotonic() + LONGEST_BUILD
    while building:
        if time.monotonic() >= end:
            raise ServiceUnavailable(
                f"An index of {table} is still being built by Postgres's process {building[0]} after {LONGEST_BUILD:g} s.\n"
                "Let that end, or end it; then run `reminders migrate` again."
            )
        time.sleep(_ASK_AGAIN_EVERY)
        building = connection.execute(still, {"building": building}).scalars().all()


def _validity(connection: Connection, name: str, table: str) -> bool | None:
    """Whether the index may be used; None where the table has no such index."""
    found = text(
        "SELECT i.indisvalid FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid "
        "WHERE c.relname = :name AND i.indrelid = to_regclass(:table)"
    )
    valid: bool | None = connection.execute(found, {"name": name, "table": _in_schema(f"{{s}}.{table}")}).scalar()
    return valid


@contextmanager
def _ended_after(connection: Connection, seconds: float, name: str) -> Iterator[None]:
    """Cancel from our side what runs on the connection for longer.

    No server setting can do it: SET LOCAL does not reach a statement outside of a transaction, and behind a transaction
    pooler SET stays with a server connection that others use next. `lock_timeout` must not be short here either: it
    would count the wait for other transactions' ends, which stands in nobody's way.
    """
    driver = connection.connection.driver_connection
    assert driver is not None
    too_late = Event()

    def cancel() -> None:
        too_late.set()
        driver.cancel()

    timer = Timer(seconds, cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    except OperationalError as error:
        if not too_late.is_set():
            raise
        raise ServiceUnavailable(
            f"The index {name} was not built within {seconds:g} s; transactions that stay open hold it up.\n"
            "End them, then run `reminders migrate` again: it builds the index anew."
        ) from error
    finally:
        timer.cancel()

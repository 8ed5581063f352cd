"""The lock of all migrators: bounded waiting, kept for as long as it takes, and noticed when it is lost."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from reminders.domain.errors import ServiceUnavailable
from reminders.ledger.migration_lock import one_at_a_time, require_still_held
from reminders.ledger.migrations import migrate

HOLDER = "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"


@pytest.fixture
def engine(empty_database):
    engine = create_engine(empty_database, poolclass=NullPool)
    yield engine
    engine.dispose()


def test_who_waits_too_long_is_told_what_to_look_for(live, engine):
    with one_at_a_time(engine, 0.0), pytest.raises(ServiceUnavailable, match=r"at work on this database for 0\.1 s"):
        migrate(live.url, "reminders", wait=0.1)
    assert live.query("SELECT to_regnamespace('reminders')") == [(None,)]
    migrate(live.url, "reminders", wait=0.0)


def test_it_keeps_no_snapshot_that_an_index_would_wait_for(live, engine):
    live.query(f"ALTER DATABASE {live.name} SET default_transaction_isolation = 'repeatable read'")
    with one_at_a_time(engine, 0.0) as lock:
        require_still_held(lock)
        ((pid,),) = live.query(HOLDER)
        state = f"SELECT state, backend_xmin, backend_xid FROM pg_stat_activity WHERE pid = {pid}"
        assert live.query(state) == [("idle in transaction", None, None)]


@pytest.mark.parametrize("setting", ["idle_in_transaction_session_timeout", "transaction_timeout"])
def test_no_timeout_of_the_server_ends_it(live, engine, setting):
    if not live.query(f"SELECT 1 FROM pg_settings WHERE name = '{setting}'"):
        pytest.skip(f"this Postgres has no {setting}")
    # Enough for what must be done before it is turned off, on a busy machine too.
    live.query(f"ALTER DATABASE {live.name} SET {setting} = '2s'")
    with one_at_a_time(engine, 0.0) as lock:
        live.query("SET transaction_timeout = 0; SELECT pg_sleep(2.5)")
        require_still_held(lock)
        with pytest.raises(ServiceUnavailable, match="at work"):
            migrate(live.url, "reminders", wait=0.0)


def test_a_migrator_that_lost_the_lock_goes_no_further(live):
    migrate(live.url, "reminders", "0001")
    live.old_reminder()
    holder = live.application()
    with holder.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.reminders FOR NO KEY UPDATE")
    migrating = live.migrator()
    live.until("SELECT count(*) FROM information_schema.columns WHERE column_name = 'give_up_at'", 1)
    live.query(f"SELECT pg_terminate_backend(pid) FROM ({HOLDER}) AS holding")
    holder.rollback()
    _, errors = migrating.communicate(timeout=60)
    assert "The connection that kept other migrators out was cut off" in errors
    assert live.query("SELECT version_num FROM reminders.schema_version") == [("0001",)]
    assert live.query("SELECT to_regclass('reminders.due_give_up')") == [(None,)]

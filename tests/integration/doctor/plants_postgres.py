"""Misconfigurations of Postgres and of the ledger, planted for real and mended afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from unittest.mock import patch

import psycopg2
from psycopg2.extras import PhysicalReplicationConnection

from integration.doctor.plants_settings import Plant, settings
from integration.doctor.scene import Scene
from reminders.ledger.database import Database, driver_url
from reminders.ledger.status import make_partitions
from reminders.operate.doctor import server, tables
from reminders.settings import Secret

UUID = "01900000-0000-7000-8000-000000000001"


def system(name: str, value: str, right: str = "on") -> Plant:
    """A setting of the whole server; `right` is what it is reset to."""

    def plant(scene: Scene) -> Iterator[None]:
        scene.sql(f"ALTER SYSTEM SET {name} = {value}")
        reload(scene, name, value.strip("'"))
        yield
        scene.sql(f"ALTER SYSTEM RESET {name}")
        reload(scene, name, right)

    return plant


def reload(scene: Scene, name: str, value: str) -> None:
    """Wait until a new session sees it, as the doctor's will be."""
    scene.sql("SELECT pg_reload_conf()")
    end = time.monotonic() + 20
    url = scene.installation.settings.database_url.reveal()
    while time.monotonic() < end:
        with closing(psycopg2.connect(url)) as fresh, fresh.cursor() as cursor:
            cursor.execute(f"SHOW {name}")
            if cursor.fetchone() == (value,):
                return
    raise AssertionError(f"{name} did not become {value}")


def of_database(name: str, value: str) -> Plant:
    """A setting of the database, for all sessions that begin."""

    def plant(scene: Scene) -> Iterator[None]:
        scene.sql(f"ALTER DATABASE reminders SET {name} = {value}")
        yield
        scene.sql(f"ALTER DATABASE reminders RESET {name}")

    return plant


def sql(wrong: str, right: str) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        scene.sql(wrong)
        yield
        scene.sql(right)

    return plant


def constant(module: object, name: str, value: object) -> Plant:
    """What cannot be had here (another version, half a million rows) is stood for by another limit."""

    def plant(scene: Scene) -> Iterator[None]:
        with patch.object(module, name, value):
            yield

    return plant


def role(*grants: str) -> Plant:
    """The doctor's role owns nothing and has been granted these."""

    def plant(scene: Scene) -> Iterator[None]:
        scene.sql("CREATE ROLE limited LOGIN PASSWORD 'limited'; GRANT USAGE, CREATE ON SCHEMA reminders TO limited")
        for grant in grants:
            scene.sql(grant)
        url = driver_url(scene.installation.settings.database_url.reveal()).set(username="limited", password="limited")
        scene.change(database_url=Secret(url.set(drivername="postgresql").render_as_string(hide_password=False)))
        yield
        scene.sql("DROP OWNED BY limited; DROP ROLE limited")

    return plant


ALL = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA reminders TO limited"


def clock(seconds: float) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        scene.surround(clock=lambda: time.time() + seconds)
        yield

    return plant


def open_transaction(scene: Scene) -> Iterator[None]:
    with closing(psycopg2.connect(scene.installation.settings.database_url.reveal())) as other:
        with other.cursor() as cursor:
            cursor.execute("SELECT 1")
        with patch.object(server, "OLD_TRANSACTION", -1.0):
            yield


def standby_that_lags(scene: Scene) -> Iterator[None]:
    url = scene.installation.settings.database_url.reveal()
    with closing(psycopg2.connect(url, connection_factory=PhysicalReplicationConnection)) as standby:
        with standby.cursor() as cursor:
            cursor.start_replication(start_lsn=scene.sql("SELECT pg_current_wal_lsn()")[0][0])
        yield
    # It is closed; the server's end of it may follow later, and would be a standby to whoever looks next.
    end = time.monotonic() + 30
    while scene.sql("SELECT count(*) FROM pg_stat_replication") != [(0,)]:
        assert time.monotonic() < end
        time.sleep(0.01)


def other_encoding(scene: Scene) -> Iterator[None]:
    scene.sql("CREATE DATABASE latin ENCODING 'SQL_ASCII' LOCALE_PROVIDER libc LOCALE 'C' TEMPLATE template0")
    url = driver_url(scene.installation.settings.database_url.reveal()).set(database="latin", drivername="postgresql")
    scene.change(database_url=Secret(url.render_as_string(hide_password=False)))
    yield
    scene.sql("DROP DATABASE latin WITH (FORCE)")


def few_connections(scene: Scene) -> Iterator[None]:
    scene.surround(pool=0)
    scene.sql("ALTER DATABASE reminders CONNECTION LIMIT 3")
    yield
    scene.sql("ALTER DATABASE reminders CONNECTION LIMIT -1")


def many_processes(scene: Scene) -> Iterator[None]:
    scene.surround(pool=100)
    yield


def nobody_vacuums(scene: Scene) -> Iterator[None]:
    scene.sql("VACUUM reminders.notification_deliveries")
    scene.sql(
        f"""INSERT INTO reminders.notification_deliveries (delivery_key, reminder_id, status, claim_number, claim_token, claimed_at,
            claimed_until, worker, on_unknown, body_format)
        SELECT 'k' || n, '{UUID}', 'sending', 1, '{UUID}', '2026-01-01Z', '2026-01-02Z', 'w', 'repeat', 1 FROM generate_series(1, 200) n"""
    )
    with (
        closing(psycopg2.connect(scene.installation.settings.database_url.reveal())) as looking,
        looking.cursor() as cursor,
        patch.object(tables, "DEAD_ROWS", 50),
        patch.object(tables, "NOT_VACUUMED", -1.0),
    ):
        # While it looks, no vacuum may take the dead rows away: 150 beside 50.
        looking.set_session(isolation_level="REPEATABLE READ", readonly=True)
        cursor.execute("SELECT count(*) FROM reminders.notification_deliveries")
        scene.sql("DELETE FROM reminders.notification_deliveries WHERE substr(delivery_key, 2)::int > 50")
        yield
    scene.sql("TRUNCATE reminders.notification_deliveries")


def no_partition(scene: Scene) -> Iterator[None]:
    today = datetime.now(UTC)
    year, month = today.year + today.month // 12, today.month % 12 + 1
    scene.sql(f"DROP TABLE reminders.delivery_attempts_{year}_{month:02}")
    yield
    database = Database(scene.installation.settings.database_url.reveal(), schema="reminders")
    make_partitions(database)
    database.close()


def old_attempt(scene: Scene) -> Iterator[None]:
    scene.sql(
        f"""INSERT INTO reminders.delivery_attempts (delivery_key, claim_number, claimed_at, reminder_id, worker, outcome, error_class, reason, decision)
        VALUES ('k', 1, '2001-01-01Z', '{UUID}', 'w', 'delivered', '', '', 'deliver')"""
    )
    yield
    scene.sql("TRUNCATE reminders.delivery_attempts")


def channel_in_use(scene: Scene) -> Iterator[None]:
    scene.sql(
        """SELECT reminders.schedule(tenant_id => 't', user_id => 'u', kind => 'k', channel => 'sms', destination => '+12025550123',
        due_at => now(), reference => 'r')"""
    )
    yield
    scene.sql("DELETE FROM reminders.due; DELETE FROM reminders.reminders")


SQL_SECRET = f"""INSERT INTO reminders.secrets (id, tenant_id, channel, ciphertext, key_fingerprint, fingerprint)
VALUES ('{UUID}', 't', 'webhook', 'gAAAA' || repeat('x', 100), '0123456789abcdef', 'f')"""

NOWHERE = Secret("postgresql://reminders:very-secret-word@127.0.0.1:1/reminders")

POSTGRES: dict[str, tuple[Plant, set[str]]] = {
    "keys_missing": (sql(SQL_SECRET, "DELETE FROM reminders.secrets"), set()),
    "channel_not_ready": (channel_in_use, set()),
    "zones_missing": (
        sql(
            "INSERT INTO reminders.known_zones VALUES ('Mars/Base')",
            "DELETE FROM reminders.known_zones WHERE name = 'Mars/Base'",
        ),
        set(),
    ),
    "zones_untold": (
        sql(
            "DELETE FROM reminders.known_zones WHERE name = 'Asia/Tokyo'",
            "INSERT INTO reminders.known_zones VALUES ('Asia/Tokyo')",
        ),
        set(),
    ),
    "postgres_unreachable": (settings(database_url=NOWHERE), set()),
    "schema_behind": (
        sql(
            "CREATE TABLE reminders.was AS SELECT * FROM reminders.schema_version; UPDATE reminders.schema_version SET version_num = '0001'",
            "UPDATE reminders.schema_version SET version_num = (SELECT version_num FROM reminders.was); DROP TABLE reminders.was",
        ),
        set(),
    ),
    "schema_ahead": (
        sql(
            "CREATE TABLE reminders.was AS SELECT * FROM reminders.schema_version; UPDATE reminders.schema_version SET version_num = '9999'",
            "UPDATE reminders.schema_version SET version_num = (SELECT version_num FROM reminders.was); DROP TABLE reminders.was",
        ),
        set(),
    ),
    "postgres_too_old": (constant(server, "OLDEST_POSTGRES", 99), set()),
    "postgres_untested": (constant(server, "NEWEST_POSTGRES", 1), set()),
    "postgres_read_only": (of_database("default_transaction_read_only", "on"), set()),
    "postgres_fsync": (system("fsync", "off"), set()),
    "postgres_full_page_writes": (system("full_page_writes", "off"), set()),
    "postgres_synchronous_commit": (of_database("synchronous_commit", "off"), set()),
    "postgres_asynchronous_standby": (standby_that_lags, set()),
    "postgres_standby_away": (system("synchronous_standby_names", "'gone'", ""), set()),
    "postgres_transaction_timeout": (of_database("idle_in_transaction_session_timeout", "'10s'"), set()),
    "postgres_idle_timeout": (of_database("idle_session_timeout", "'30s'"), set()),
    "postgres_lock_timeout": (of_database("lock_timeout", "'900ms'"), set()),
    "tables_unlogged": (sql("ALTER TABLE reminders.due SET UNLOGGED", "ALTER TABLE reminders.due SET LOGGED"), set()),
    "postgres_encoding": (other_encoding, {"schema_behind"}),
    "postgres_isolation": (of_database("default_transaction_isolation", "'repeatable read'"), set()),
    "postgres_statement_timeout": (of_database("statement_timeout", "'29s'"), set()),
    "clock_skew": (clock(10.0), set()),
    "clock_wrong": (clock(-100.0), set()),
    "autovacuum_off": (system("autovacuum", "off"), set()),
    "connections_used": (few_connections, set()),
    "connections_short": (many_processes, set()),
    "old_transaction": (open_transaction, set()),
    "rights_pipeline": (role(ALL, "REVOKE UPDATE ON reminders.due FROM limited"), {"rights_partitions"}),
    "rights_other": (role(ALL, "REVOKE DELETE ON reminders.reminders FROM limited"), {"rights_partitions"}),
    "rights_partitions": (role(ALL), set()),
    "autovacuum_off_for_table": (
        sql(
            "ALTER TABLE reminders.series SET (autovacuum_enabled = false)",
            "ALTER TABLE reminders.series RESET (autovacuum_enabled)",
        ),
        set(),
    ),
    "autovacuum_changed": (
        sql(
            "ALTER TABLE reminders.due RESET (autovacuum_vacuum_scale_factor)",
            "ALTER TABLE reminders.due SET (autovacuum_vacuum_scale_factor = 0.02)",
        ),
        set(),
    ),
    "autovacuum_behind": (nobody_vacuums, set()),
    "partitions_missing": (no_partition, set()),
    "attempts_in_default": (old_attempt, set()),
}
"""By the name of the check that must find it; and what follows from it besides."""

OTHER_FORMS: dict[str, list[Plant]] = {
    "postgres_standby_away": [system("synchronous_standby_names", "'ANY 2 (a, b)'", "")],
    "postgres_transaction_timeout": [of_database("transaction_timeout", "'20s'")],
}

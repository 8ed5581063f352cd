"""All checks, and one look at an installation with all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Event
from typing import Any

from psycopg2.errors import InsufficientPrivilege, UndefinedColumn, UndefinedTable
from sqlalchemy.exc import DBAPIError

from reminders.broker.facts import BrokerFacts, read_broker
from reminders.broker.link import BrokerAway
from reminders.ledger.database import DATABASE_AWAY, Database, LockNotAvailable
from reminders.ledger.keyring import Keyring
from reminders.ledger.schema_version import head, standing
from reminders.ledger.server_facts import ServerFacts, is_pooled_by_transaction, read_server
from reminders.ledger.table_facts import RowFacts, TableFacts, read_rows, read_tables
from reminders.operate.doctor.broker import BROKER, Broker
from reminders.operate.doctor.check import Check, Facts, Finding, first_line, listed, look
from reminders.operate.doctor.installed import INSTALLED, read_installed
from reminders.operate.doctor.lines import LINES, Lines, all_served
from reminders.operate.doctor.procfile import PROCFILE, Procfile
from reminders.operate.doctor.reach import POSTGRES_REACHED, REDIS_REACHED, SCHEMA, SETTINGS_REFUSED, Schema
from reminders.operate.doctor.server import SERVER, Postgres
from reminders.operate.doctor.settings import SETTINGS, Configured
from reminders.operate.doctor.structure import STRUCTURE
from reminders.operate.doctor.tables import PARTITIONS, TABLES
from reminders.operate.doctor.timeouts import TIMEOUTS
from reminders.settings import Secret, Settings


def _unknown(accepted: Sequence[str]) -> str | None:
    known = {check.name for check in CHECKS}
    unknown = [name for name in accepted if name not in known]
    return listed(unknown) if unknown else None


ACCEPTED_UNKNOWN: Check[Sequence[str]] = Check(
    "accepted_unknown",
    "note",
    "Every name in `REMINDERS_ACCEPT` is one of these.",
    "Correct it or take it out.",
    _unknown,
)
CHECKS: tuple[Check[Any], ...] = (
    SETTINGS_REFUSED,
    ACCEPTED_UNKNOWN,
    *INSTALLED,
    *SETTINGS,
    POSTGRES_REACHED,
    *SCHEMA,
    *SERVER,
    *TIMEOUTS,
    *TABLES,
    *STRUCTURE,
    *PARTITIONS,
    REDIS_REACHED,
    *BROKER,
    *LINES,
    *PROCFILE,
)
"""Every check, in the order in which findings are told."""
LINES_BY_DEFAULT = 4
"""Worker processes of the Procfile besides those of `deliver`, of which there are `REMINDERS_PROCESSES`."""
PATIENCE_MS = 3000
"""How long the doctor waits for a table that somebody has locked."""
SECOND_LOOK = 3.0
"""Seconds before workers that seem to be missing, or silent, are looked for again."""


@dataclass(frozen=True, slots=True)
class Installation:
    """What is looked at. Both addresses of `settings` are known.

    `ready` and `faults` are the channels that can send, and why the others cannot. A worker process keeps up to `pool`
    connections. `at_home` and `home_secrets`: see `Configured`. `clock` gives this host's Unix time in seconds.
    """

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    ready: Sequence[str]
    faults: Mapping[str, str]
    pool: int
    at_home: bool = False
    home_secrets: Mapping[str, Secret] = field(default_factory=dict)
    procfile: Procfile | None = None
    clock: Callable[[], float] = time.time


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What a look came to. `skipped` are the names of checks that could not be made, or had nothing to look at."""

    findings: Sequence[Finding]
    skipped: Sequence[str]

    def count(self, severity: str) -> int:
        """Findings of a severity that nobody has accepted."""
        return sum(finding.check.severity == severity and not finding.accepted for finding in self.findings)

    @property
    def may_send(self) -> bool:
        """Whether both servers answered, the ledger is at this release's version, and processes would start."""
        away = {"postgres_unreachable", "redis_unreachable", "schema_behind"}
        return not any(each.check.name in away or (each.check.at_start and not each.accepted) for each in self.findings)


@dataclass(slots=True)
class _Asked:
    """What Postgres has answered so far."""

    away: str | None = None
    server: ServerFacts | None = None
    schema: Schema | None = None
    tables: TableFacts | None = None
    rows: RowFacts | None = None


def diagnose(installation: Installation) -> Diagnosis:
    """Make every check that can be made. Nothing is changed anywhere."""
    settings = installation.settings
    asked = _ask_postgres(installation)
    broker_away, broker = _ask_redis(settings)
    rows = asked.rows
    workers = broker.workers if broker is not None else ()
    findings: list[Finding] = []
    made: set[str] = set()

    def make(checks: Sequence[Check[Facts]], facts: Facts) -> None:
        made.update(check.name for check in checks)
        findings.extend(look(checks, facts, settings.accept))

    make([SETTINGS_REFUSED], None)
    make([ACCEPTED_UNKNOWN], settings.accept)
    make(INSTALLED, read_installed(None if rows is None else rows.zones))
    make(SETTINGS, _configured(installation, rows))
    make([POSTGRES_REACHED], asked.away)
    if asked.schema is not None:
        make(SCHEMA, asked.schema)
    if asked.server is not None:
        postgres = Postgres(asked.server, len(workers) or LINES_BY_DEFAULT + settings.processes, installation.pool)
        make(SERVER, postgres)
        make(TIMEOUTS, postgres)
    if asked.tables is not None:
        make(TABLES, asked.tables)
        if asked.schema is not None and asked.schema.standing == asked.schema.head:
            make(STRUCTURE, asked.tables)
    if rows is not None:
        make(PARTITIONS, rows)
    make([REDIS_REACHED], broker_away)
    if broker is not None:
        make(BROKER, Broker(broker, settings))
    # Where nobody can say that they are there, nobody is missing.
    if broker is not None and rows is not None and broker.refuses_writes is None:
        make(LINES, Lines(workers, rows.tick_age, settings.scan_every, broker.silent))
    if installation.procfile is not None:
        make(PROCFILE, installation.procfile)
    return Diagnosis(findings, [check.name for check in CHECKS if check.name not in made])


def refused(reason: str) -> Diagnosis:
    """What is left to say where the settings cannot be used."""
    return Diagnosis(
        look([SETTINGS_REFUSED], reason), [check.name for check in CHECKS if check is not SETTINGS_REFUSED]
    )


def _ask_postgres(installation: Installation) -> _Asked:
    settings = installation.settings
    assert settings.database_url is not None
    url = settings.database_url.reveal()
    one, other = (
        Database(url, schema=settings.schema, pool_size=1, application_name="reminders-doctor", patience_ms=PATIENCE_MS)
        for _ in range(2)
    )
    asked = _Asked()
    try:
        pooled = is_pooled_by_transaction(one, other)
        asked.server = replace(read_server(one, installation.clock), pooled_by_transaction=pooled)
        asked.schema = _schema(url, settings.schema)
        if asked.schema is None or asked.schema.standing is not None:
            asked.tables = read_tables(one)
        if asked.schema is not None and asked.schema.reached:
            asked.rows = read_rows(one)
    except (InsufficientPrivilege, LockNotAvailable, UndefinedTable, UndefinedColumn):
        pass  # other checks tell which rights or tables are lacking; what a migration has locked is not looked at
    except DATABASE_AWAY as error:
        asked.away = first_line(error)
    finally:
        one.close()
        other.close()
    return asked


def _schema(url: str, schema: str) -> Schema | None:
    """None where our role may not look. Raises `DATABASE_AWAY`."""
    try:
        return Schema(schema, standing(url, schema), head())
    except DBAPIError as error:
        if isinstance(error.orig, InsufficientPrivilege):
            return None
        raise (error.orig or error) from error


def _ask_redis(settings: Settings) -> tuple[str | None, BrokerFacts | None]:
    try:
        found = read_broker(settings)
        if found.silent or not all_served(found.workers):
            # They speak every second, on a machine with time for them.
            Event().wait(SECOND_LOOK)
            found = read_broker(settings)
    except BrokerAway as error:
        return first_line(error), None
    return None, found


def _configured(installation: Installation, rows: RowFacts | None) -> Configured:
    return Configured(
        installation.settings,
        installation.environ,
        installation.at_home,
        installation.home_secrets,
        installation.faults,
        installation.ready,
        channels=rows.channels if rows is not None else (),
        key_fingerprints=rows.key_fingerprints if rows is not None else (),
        own_fingerprints=Keyring(installation.settings.keys).fingerprints,
    )

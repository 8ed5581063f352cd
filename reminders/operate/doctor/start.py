"""What every process of an installation asks before it works: the checks without which a guarantee would not hold."""

from __future__ import annotations

from collections.abc import Sequence

from reminders.broker.facts import read_broker
from reminders.ledger.database import Database
from reminders.ledger.server_facts import read_server
from reminders.ledger.table_facts import read_tables
from reminders.operate.doctor.broker import BROKER, Broker
from reminders.operate.doctor.check import Check, Facts, Finding, look
from reminders.operate.doctor.server import SERVER, Postgres
from reminders.operate.doctor.tables import TABLES
from reminders.settings import Settings

TOLD = ("redis_of_two_dispatchers",)
"""Checks of Redis that stop no process: what they find is mostly a deploy that has just gone wrong."""


def fatal_of_ledger(settings: Settings) -> list[Finding]:
    """What is fatal about Postgres and the ledger's tables, accepted or not. Raises `DATABASE_AWAY`."""
    assert settings.database_url is not None
    database = Database(
        settings.database_url.reveal(), schema=settings.schema, pool_size=1, application_name="reminders-start"
    )
    try:
        server = Postgres(read_server(database), processes=0, pool=0)
        return [*_fatal(SERVER, server, settings), *_fatal(TABLES, read_tables(database), settings)]
    finally:
        database.close()


def of_broker(settings: Settings) -> tuple[list[Finding], list[Finding]]:
    """What is fatal about Redis, accepted or not; and what a process says and starts with. Raises `BrokerAway`."""
    facts = Broker(read_broker(settings), settings)
    told = [check for check in BROKER if check.name in TOLD]
    return _fatal(BROKER, facts, settings), look(told, facts, settings.accept)


def _fatal(checks: Sequence[Check[Facts]], facts: Facts, settings: Settings) -> list[Finding]:
    return look([check for check in checks if check.at_start], facts, settings.accept)

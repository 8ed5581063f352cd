"""Reconciliation for application code: `reconcile` a file, and the words that a matcher needs.

Importing it imports no Celery.
"""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from reminders import settings as settings_module
from reminders.domain.errors import Refused, SettingsError
from reminders.domain.settlement import Decision, Order, SettlementLine
from reminders.intake.settlement.files import carry_out, check, open_workshop, pages
from reminders.intake.settlement.matching import Decided, Matcher, MatcherFault
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import AlreadyRunning, begin
from reminders.ledger.database import Database
from reminders.settings import Secret

logger = logging.getLogger(__name__)


def reconcile(
    file: str | Path | BinaryIO,
    config: str | Path,
    *,
    database_url: str | None = None,
    actor: str = "application",
    only_page: int | None = None,
    reminders: bool = True,
) -> Report:
    """Run a settlement file through all steps: its lines, the decisions with their reminders, what is missing.

    `file` is a path, or a binary file that can be read from its beginning twice; `config` the path of the TOML file.
    Postgres is that of `DATABASE_URL` unless `database_url` is given. With `only_page`, from 1, that page of the file is
    taken in and nothing else. Without `reminders` what is decided is on record and nobody is told. It has transactions of
    its own, one for each page. Run again, in whole or in part, it repeats nothing and makes what is missing.

    Raises `MalformedFile` for a file that is none of its format, of which nothing was taken; `SettingsError`,
    `MatcherFault`, `ServiceUnavailable`; `Refused` while somebody else has this file in work.
    """
    if isinstance(file, str | Path):
        with Path(file).open("rb") as stream:
            return reconcile(
                stream, config, database_url=database_url, actor=actor, only_page=only_page, reminders=reminders
            )
    settings = settings_module.load()
    if database_url is not None:
        settings = replace(settings, database_url=Secret(database_url))
    if settings.database_url is None:
        raise SettingsError("DATABASE_URL is not set; set it, or give database_url")
    path = Path(config)
    with closing(Database(settings.database_url.reveal(), schema=settings.schema, pool_size=2)) as database:
        workshop = open_workshop(database, settings, path, logger.warning)
        form = workshop.config.format
        file.seek(0)
        checked = check(file, Path(str(getattr(file, "name", "file"))).name, form)
        run = begin(workshop, checked.file, actor=actor, only_page=only_page, reminders=reminders)
        if isinstance(run, AlreadyRunning):
            raise Refused(
                f"this file is already running: run {run.run_id}, since {run.since.isoformat()}, {run.page} of {run.pages} pages in"
            )
        file.seek(0)
        return carry_out(run, checked.header, pages(file, form, checked))


__all__ = ["Decided", "Decision", "Matcher", "MatcherFault", "Order", "Report", "SettlementLine", "reconcile"]

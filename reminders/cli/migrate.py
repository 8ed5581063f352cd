"""`reminders migrate`."""

from __future__ import annotations

import click

from reminders.cli.printing import print_json
from reminders.cli.session import (
    bring_to_head,
    command_settings,
    located,
    postgres_faults_explained,
    tell_of_new_ledger,
)
from reminders.cli.values import json_option
from reminders.ledger.database import Database, check_connection
from reminders.ledger.migrations import upgrade_script
from reminders.settings import load


@click.command(short_help="Bring the ledger's schema to this release's version.")
@click.option("--sql", is_flag=True, help="Print the SQL for an empty database instead of running it.")
@json_option
def migrate(*, sql: bool, as_json: bool) -> None:
    """Bring the ledger's schema to this release's version, and make the coming months' partitions.

    Safe to run again, by several at once and beside running workers: where it would stand in their way it waits at most
    5 s for locks and gives up. Building an index stands in nobody's way; it may take 15 minutes. What was finished stays,
    and the next run goes on from there.
    """
    if sql:
        print(upgrade_script(load().schema))
        return
    with located(command_settings()) as (settings, embedded):
        assert settings.database_url is not None
        database = Database(
            settings.database_url.reveal(), schema=settings.schema, application_name="reminders-migrate"
        )
        try:
            with postgres_faults_explained():
                check_connection(database)
                done = bring_to_head(settings, database)
        finally:
            database.close()
    if embedded and done.before is None:
        tell_of_new_ledger(settings)
    if as_json:
        print_json(
            {"schema": settings.schema, "before": done.before, "after": done.after, "partitions": done.partitions}
        )
        return
    move = f"{done.before or 'nothing'} -> {done.after}" if done.before != done.after else f"{done.after}, as before"
    made = f"; made {', '.join(done.partitions)}" if done.partitions else ""
    print(f"Schema {settings.schema}: {move}{made}")

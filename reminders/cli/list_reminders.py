"""`reminders list`."""

from __future__ import annotations

from itertools import islice

import click

from reminders.cli.printing import instant_for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.show import reminder_as_json
from reminders.cli.values import json_option, limit_option, read_filters
from reminders.ledger.reading import each_reminder
from reminders.ledger.status import COUNTED


@click.command("list", short_help="List reminders.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--user", help="Only this user's.")
@click.option("--kind", help="Only of this kind.")
@click.option("--channel", help="Only over this channel.")
@click.option("--reference", help="Only about this.")
@click.option("--status", type=click.Choice(COUNTED), help="Only in this state.")
@limit_option(100, "reminders")
@json_option
def list_reminders(
    *,
    tenant: str | None,
    user: str | None,
    kind: str | None,
    channel: str | None,
    reference: str | None,
    status: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List reminders that match every filter given, in the order they were scheduled."""
    checked = read_filters(
        {"tenant_id": tenant, "user_id": user, "kind": kind, "channel": channel, "reference": reference}
    )
    filters = {name.removesuffix("_id"): text for name, text in checked.items()}
    with session() as ledger, ledger.statement_by_statement() as connection:
        found = each_reminder(connection, ledger.settings.schema, limit=limit + 1, status=status, **filters)
        if as_json:
            for reminder in islice(found, limit):
                print_json(reminder_as_json(reminder))
        else:
            shown = list(islice(found, limit))
            print_table(
                ("id", "status", "due", "tenant", "user", "kind", "reference", "channel", "attempts"),
                [
                    (
                        r.id,
                        r.status,
                        instant_for_people(r.due_at, r.zone),
                        r.tenant_id,
                        r.user_id,
                        r.kind,
                        r.reference,
                        r.channel,
                        r.attempt_count,
                    )
                    for r in shown
                ],
                spare=("attempts", "channel", "kind"),
            )
        if next(found, None) is not None:
            click.echo(f"Only the first {limit:,} are shown; --limit shows more", err=True)

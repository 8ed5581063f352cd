"""`reminders replan`: after a new release of the zones' data."""

from __future__ import annotations

import click

from reminders.cli.printing import for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, read_filters, read_id
from reminders.ledger.replan_all import Moved, replan_all

SHOWN = 20


@click.command(short_help="Move what series have planned, after a change of the zones' data.")
@click.option("--tenant", help="Only this tenant's series.")
@click.option("--series", metavar="ID", help="Only this one.")
@click.option("--dry-run", is_flag=True, help="Say what would move, and change nothing.")
@json_option
@click.pass_context
def replan(context: click.Context, *, tenant: str | None, series: str | None, dry_run: bool, as_json: bool) -> None:
    """Compute anew when the next occurrence of each active series is due, and move those that are due otherwise.

    To be run after an update of tzdata, once every process has it. Says what moved; run again, it finds nothing to do. It
    works in small transactions, and may be broken off. Exits 1 if there are series that this release cannot plan.
    """
    read_filters({"tenant_id": tenant})
    wanted = None if series is None else read_id(series)
    looked_at, moved, faulty = 0, list[Moved](), 0
    with session() as ledger:
        for batch in replan_all(ledger.database, tenant=tenant, series=wanted, dry_run=dry_run):
            looked_at, faulty = looked_at + batch.looked_at, faulty + len(batch.faulty)
            for series_id, fault in batch.faulty:
                click.echo(for_people(f"series {series_id} cannot be planned: {fault}"), err=True)
            if as_json:
                for each in batch.moved:
                    print_json(_as_json(each))
            moved += batch.moved
    if as_json:
        print_json({"series": looked_at, "moved": len(moved), "faulty": faulty, "dry_run": dry_run})
    else:
        if moved:
            rows = [(each.series_id, each.recurrence_id, each.from_, each.to or "withdrawn") for each in moved[:SHOWN]]
            print_table(("series", "turn", "from", "to"), rows)
        if len(moved) > SHOWN:
            print(f"... and {len(moved) - SHOWN:,} more; --json shows them all")
        print(f"{looked_at:,} series looked at, {len(moved):,} {'would move' if dry_run else 'moved'}")
    context.exit(1 if faulty else 0)


def _as_json(moved: Moved) -> dict[str, object]:
    return {
        "series_id": moved.series_id,
        "reminder_id": moved.occurrence_id,
        "recurrence_id": moved.recurrence_id,
        "from": moved.from_,
        "to": moved.to,
    }

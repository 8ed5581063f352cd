"""`reminders tenant lateness`: how late a tenant's reminders may be."""

from __future__ import annotations

import click

from reminders.cli.printing import print_json, print_table
from reminders.cli.series_options import read_lateness
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.request import checked_text
from reminders.ledger.lateness import ALL_KINDS, known_lateness, set_lateness


@click.command("lateness", short_help="Set or show how late a tenant's reminders may be.")
@click.argument("tenant_id", metavar="TENANT")
@click.option("--kind", help="Of this kind only; without it, of all that have no word of their own.")
@click.option(
    "--max-lateness", metavar="DURATION|none", help="Such as 2h; `none` takes it back. Without it, shows what is set."
)
@json_option
def lateness(tenant_id: str, *, kind: str | None, max_lateness: str | None, as_json: bool) -> None:
    """Say after how long sending a reminder has become worse than not sending it.

    Reminders that are scheduled from now on without --expires-at expire so long after they are due; so do occurrences of
    series that have no word of their own. What stands already keeps its expiry.
    """
    whose = checked_text("tenant_id", tenant_id)
    which = ALL_KINDS if kind is None else checked_text("kind", kind)
    seconds = None if max_lateness is None else read_lateness(max_lateness)
    with session() as ledger:
        if max_lateness is not None:
            set_lateness(ledger.database, whose, which, seconds)
        found = known_lateness(ledger.database, whose)
    if as_json:
        print_json({"tenant_id": whose, "lateness": [{"kind": e.kind, "max_lateness": e.max_lateness} for e in found]})
    elif found:
        print_table(("kind", "late at most"), [(e.kind or "(all)", f"{e.max_lateness:g} s") for e in found])
    else:
        print(
            "Nothing is set for this tenant: its reminders are sent however late they are, unless they say otherwise."
        )

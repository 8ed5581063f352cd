"""`reminders tenant kind`: which kinds of a tenant's reminders are critical."""

from __future__ import annotations

from dataclasses import asdict

import click

from reminders.cli.printing import print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.request import checked_text
from reminders.ledger.kind_policies import kinds, set_critical


@click.command("kind", short_help="Set or show which of a tenant's kinds are critical.")
@click.argument("tenant_id", metavar="TENANT")
@click.argument("kind", metavar="[KIND]", required=False)
@click.option("--critical", type=click.BOOL, metavar="yes|no", help="Whether KIND is sent in quiet hours too.")
@json_option
def kind_of_tenant(tenant_id: str, kind: str | None, *, critical: bool | None, as_json: bool) -> None:
    """Set whether a kind is critical; without KIND, show what is set.

    A critical kind does not wait for the end of quiet hours. It passes neither a suppression nor a preference.
    """
    if (kind is None) != (critical is None):
        raise click.UsageError("Give KIND and --critical together, or neither.")
    whose = checked_text("tenant_id", tenant_id)
    with session() as ledger:
        if kind is not None and critical is not None:
            set_critical(ledger.database, whose, kind, critical=critical)
        found = kinds(ledger.database, whose)
    if as_json:
        print_json({"tenant_id": whose, "kinds": [asdict(each) for each in found]})
    elif found:
        print_table(("kind", "critical", "since"), [(each.kind, each.critical, each.said_at) for each in found])
    else:
        print("No kind of this tenant is critical.")

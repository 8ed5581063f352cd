"""`reminders retention`: how long a tenant's things are kept once they are over."""

from __future__ import annotations

from dataclasses import asdict

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_text
from reminders.ledger.retention_policies import ABOUT, policies, remove_policy, set_policy
from reminders.operate.retention import not_within_window

_tenant = click.option("--tenant", required=True, help="Whose.")
_of = click.option("--of", "about", type=click.Choice(ABOUT), default="reminders", show_default=True, help="Of what.")


@click.group(short_help="How long a tenant's things are kept: set, list, remove.")
def retention() -> None:
    """How long a tenant's things are kept once they are over, where REMINDERS_RETENTION and REMINDERS_EVIDENCE_KEEP do not suit it."""


@retention.command("set", short_help="Say how long a tenant's things are kept.")
@_tenant
@_of
@click.option("--keep", required=True, help="For how long after they are over; `30d`, `3650d`.")
@click.option("--reason", required=True, help="Why; kept on record.")
@click.option("--actor", help="Who; kept on record with this host.  [default: you]")
def set_(*, tenant: str, about: str, keep: str, reason: str, actor: str | None) -> None:
    """Say how long a tenant's reminders, or the evidence about them, are kept. The next purge goes by it."""
    try:
        seconds = parse_duration(keep)
    except ValueError as error:
        raise InvalidInput("--keep", str(error)) from None
    with session() as ledger:
        if about == "reminders":
            not_within_window("--keep", seconds, ledger.settings)
        who = whoever_this_is() if actor is None else actor
        set_policy(ledger.database, tenant, about, seconds, actor=who, reason=reason)
    print(f"{about} of {for_people(tenant)} are kept for {seconds / 86400:g} days once they are over")


@retention.command("remove", short_help="Go by the installation's setting again.")
@_tenant
@_of
def remove(*, tenant: str, about: str) -> None:
    """Have the installation's setting count for a tenant again."""
    with session() as ledger:
        remove_policy(ledger.database, tenant, about)
    print(f"{about} of {for_people(tenant)} are kept as everybody's")


@retention.command("list", short_help="List what tenants have otherwise.")
@click.option("--tenant", help="Only this one's.")
@json_option
def list_(*, tenant: str | None, as_json: bool) -> None:
    """List which tenants have things kept for another time than the settings say."""
    whose = None if tenant is None else checked_text("tenant_id", tenant)
    with session() as ledger:
        found = policies(ledger.database, whose)
    if as_json:
        for each in found:
            print_json(asdict(each))
    else:
        rows = [(each.tenant_id, each.about, f"{each.keep / 86400:g} d", each.actor, each.reason) for each in found]
        print_table(("tenant", "of", "keep", "who", "why"), rows)

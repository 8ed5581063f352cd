"""`reminders tenant cohort`: named groups of tenants, which change their mode or their dispatcher together."""

from __future__ import annotations

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.domain.request import checked_text
from reminders.ledger.cohorts import Member, add, checked_cohort, members, remove


@click.group(short_help="Cohorts, groups of tenants that are moved together: add, remove, list.")
def cohort() -> None:
    """Named groups of tenants, for `tenant set --cohort` and `handover --cohort`. A tenant may be in several."""


@cohort.command("add", short_help="Put tenants into a cohort.")
@click.argument("name", metavar="COHORT")
@click.argument("tenants", metavar="TENANT...", nargs=-1, required=True)
@click.option("--actor", help="Who; kept on record with this host.  [default: you]")
@json_option
def add_tenants(name: str, tenants: tuple[str, ...], *, actor: str | None, as_json: bool) -> None:
    """Put tenants into a cohort, which begins with its first. Their modes stay as they are."""
    cohort_name, whose = checked_cohort(name), [checked_text("tenant_id", each) for each in tenants]
    with session() as ledger:
        done = add(ledger.database, cohort_name, whose, actor=whoever_this_is() if actor is None else actor)
    if as_json:
        print_json({"cohort": cohort_name, "added": done})
    else:
        print(for_people(f"{counted(len(done), 'tenant')} added to cohort {cohort_name}"))


@cohort.command("remove", short_help="Take tenants out of a cohort.")
@click.argument("name", metavar="COHORT")
@click.argument("tenants", metavar="TENANT...", nargs=-1, required=True)
@json_option
def remove_tenants(name: str, tenants: tuple[str, ...], *, as_json: bool) -> None:
    """Take tenants out of a cohort; it ends with its last. Their modes stay as they are."""
    cohort_name, whose = checked_cohort(name), [checked_text("tenant_id", each) for each in tenants]
    with session() as ledger:
        done = remove(ledger.database, cohort_name, whose)
    if as_json:
        print_json({"cohort": cohort_name, "removed": done})
    else:
        print(for_people(f"{counted(len(done), 'tenant')} removed from cohort {cohort_name}"))


@cohort.command("list", short_help="List cohorts with their tenants and modes.")
@click.argument("name", metavar="[COHORT]", required=False)
@limit_option(1000, "tenants")
@json_option
def list_cohorts(name: str | None, *, limit: int, as_json: bool) -> None:
    """List the tenants of one cohort, or of each."""
    with session() as ledger:
        found = members(ledger.database, name, limit=limit)
    if as_json:
        for each in found:
            print_json({field: getattr(each, field) for field in Member.__slots__})
        return
    rows = [(each.cohort, each.tenant_id, each.mode, each.dispatcher) for each in found]
    print_table(("cohort", "tenant", "mode", "dispatcher"), rows)

"""`reminders handover`: give tenants to another dispatcher."""

from __future__ import annotations

import click

from reminders.bootstrap import dispatcher_of
from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import counted, for_people, print_json
from reminders.cli.session import session
from reminders.cli.tenant_mode import read_wanted, tell_open_claims
from reminders.cli.values import json_option
from reminders.ledger.dispatchers import away
from reminders.ledger.tenant_moves import Wanted, hand_over


@click.command(short_help="Give tenants to another dispatcher.")
@click.argument("tenant_id", metavar="[TENANT]", required=False)
@click.option("--cohort", help="All tenants of this cohort, in one step.")
@click.option("--all", "everything", is_flag=True, help="All tenants, and the new ones from now on.")
@click.option("--to", "name", required=True, metavar="DISPATCHER", help="Its REMINDERS_DISPATCHER.")
@click.option("--reason", required=True, help="Why; kept on record.")
@click.option("--actor", help="Who; kept on record with this host.  [default: you]")
@json_option
@click.pass_context
def handover(
    context: click.Context,
    /,
    tenant_id: str | None,
    *,
    cohort: str | None,
    everything: bool,
    name: str,
    reason: str,
    actor: str | None,
    as_json: bool,
) -> None:
    """Give a tenant, a cohort or all tenants to the installation whose REMINDERS_DISPATCHER is the one named.

    Returns once no other side can claim anything of them any more; it says how many claims are open, whose calls end as
    they would, with their outcomes on record. What others had leased or published is due at once for the new side. Cut
    off, it is completed by saying it again.
    """
    if everything:
        if tenant_id is not None or cohort is not None:
            raise click.UsageError("Name a TENANT, a --cohort or --all, one of them.")
        wanted = Wanted()
    else:
        wanted = read_wanted(context, tenant_id, cohort)
    with session() as ledger:
        moved = hand_over(
            ledger.database,
            wanted,
            name,
            actor=whoever_this_is() if actor is None else actor,
            reason=reason,
            dispatcher=dispatcher_of(ledger.settings),
        )
        running = not away(ledger.database, [name], scan_every=ledger.settings.scan_every)
    if not running:
        told = f"warning: no scanner of dispatcher {name} has been seen of late; until one runs, nothing of these tenants is sent"
        click.echo(for_people(told), err=True)
    if as_json:
        print_json({"dispatcher": name, **moved.fields(), "woken": moved.woken, "running": running})
        return
    print(
        for_people(
            f"handed to {name}: {counted(len(moved.tenants), 'tenant')}, {len(moved.changed):,} of them from now on"
        )
    )
    if moved.woken:
        print(f"{moved.woken:,} that were on their way elsewhere are due at once")
    tell_open_claims(moved)

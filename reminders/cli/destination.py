"""`reminders destination`: where channels deliver, and what each destination promises."""

from __future__ import annotations

from typing import Any

import click

from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import Session, session
from reminders.cli.values import json_option, limit_option, read_filters, read_id
from reminders.domain.request import checked_text
from reminders.ledger.destinations import Destination, describe, get, matching, set_deduplicates
from reminders.providers import registry

reveal_option = click.option("--reveal", is_flag=True, help="Print the addresses, which may be personal data.")


@click.group(short_help="Destinations: list, show, set what they promise.")
def destination() -> None:
    """Destinations: where channels deliver. They are named by their ids; addresses are shown with --reveal only."""


@destination.command("list", short_help="List destinations.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--channel", help="Only of this channel.")
@reveal_option
@limit_option(100, "destinations")
@json_option
def list_destinations(*, tenant: str | None, channel: str | None, reveal: bool, limit: int, as_json: bool) -> None:
    """List destinations by tenant, channel and age."""
    checked = read_filters({"tenant_id": tenant, "channel": channel})
    with session() as ledger:
        found = matching(ledger.database, tenant=checked["tenant_id"], channel=checked["channel"], limit=limit)
    shown = [_as_json(each, reveal=reveal) for each in found]
    if as_json:
        for each in shown:
            print_json(each)
    else:
        headings = ("id", "tenant", "channel", "deduplicates", "known since", *(("address",) if reveal else ()))
        print_table(headings, [list(each.values()) for each in shown])


@destination.command("show", short_help="Show one destination.")
@click.argument("destination_id", metavar="ID")
@reveal_option
@json_option
def show_destination(destination_id: str, *, reveal: bool, as_json: bool) -> None:
    """Show one destination."""
    wanted = read_id(destination_id)
    with session() as ledger:
        found = get(ledger.database, wanted)
    _print(_as_json(found, reveal=reveal), as_json=as_json)


@destination.command("set", short_help="Set what a destination promises.")
@click.argument("destination_id", metavar="[ID]", required=False)
@click.option("--tenant", help="Instead of ID, with --channel and --to: whose destination.")
@click.option("--channel", help="Instead of ID: over which channel.")
@click.option("--to", "address", help="Instead of ID: which address. It need not be known yet.")
@click.option(
    "--deduplicates",
    type=click.BOOL,
    metavar="yes|no",
    required=True,
    help="Whether it applies a delivery key once, however often it arrives.",
)
@json_option
def set_destination(
    destination_id: str | None,
    *,
    tenant: str | None,
    channel: str | None,
    address: str | None,
    deduplicates: bool,
    as_json: bool,
) -> None:
    """Set whether a destination deduplicates.

    At one that does, a call whose outcome is unknown is repeated with the same key. At one that does not it never is:
    the reminder goes to review (`reminders dlq list --kind unknown`). Calls that are under way keep the old rule.
    """
    by_what_it_is = tenant is not None and channel is not None and address is not None
    if (destination_id is None) != by_what_it_is or (destination_id is not None and (tenant or channel or address)):
        raise click.UsageError("Give either ID or all of --tenant, --channel and --to.")
    with session() as ledger:
        if destination_id is not None:
            found = set_deduplicates(ledger.database, read_id(destination_id), deduplicates)
        else:
            assert tenant is not None
            assert channel is not None
            assert address is not None
            found = _describe(ledger, tenant, channel, address, deduplicates=deduplicates)
    _print(_as_json(found, reveal=False), as_json=as_json)


def _describe(ledger: Session, tenant: str, channel: str, address: str, *, deduplicates: bool) -> Destination:
    provider = registry.load(channel, ledger.settings)
    tenant = checked_text("tenant_id", tenant)
    address = checked_text("destination", address)
    provider.check_destination(address)
    return describe(ledger.database, tenant, channel, address, deduplicates=deduplicates)


def _as_json(found: Destination, *, reveal: bool) -> dict[str, Any]:
    shown = {name: getattr(found, name) for name in Destination.__slots__ if name != "address"}
    return {**shown, "address": found.address} if reveal else shown


def _print(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        print_fields([(name.replace("_", " "), value) for name, value in shown.items()])

"""`reminders destination`: where channels deliver, and what each destination promises."""

from __future__ import annotations

import click

from reminders.cli.destination_names import (
    fields_of,
    find_named,
    named,
    place_named,
    print_destination,
    read_name,
)
from reminders.cli.destination_state import disable_destination, enable_destination, release_held_destination
from reminders.cli.printing import print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option, read_filters
from reminders.ledger.destinations import Destination, matching, set_deduplicates

reveal_option = click.option("--reveal", is_flag=True, help="Print the addresses, which may be personal data.")


@click.group(short_help="Destinations: list, show, set, disable, enable, release.")
def destination() -> None:
    """Destinations: where channels deliver. They are named by their ids; addresses are shown with --reveal only."""


for command in (disable_destination, enable_destination, release_held_destination):
    destination.add_command(command)


@destination.command("list", short_help="List destinations.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--channel", help="Only of this channel.")
@reveal_option
@limit_option(100, "destinations")
@json_option
def list_destinations(*, tenant: str | None, channel: str | None, reveal: bool, limit: int, as_json: bool) -> None:
    """List destinations by tenant, channel and age, with the numbers of their reminders.

    "Set" is whether `destination set` has said if it deduplicates; otherwise its channel's default holds.
    """
    checked = read_filters({"tenant_id": tenant, "channel": channel})
    with session() as ledger:
        found = matching(ledger.database, tenant=checked["tenant_id"], channel=checked["channel"], limit=limit)
    if as_json:
        for each in found:
            print_json(fields_of(each, reveal=reveal))
    else:
        headings = ("id", "tenant", "channel", "deduplicates", "set", "known since", "reminders", "live", "state")
        print_table((*headings, *(("address",) if reveal else ())), [_row(each, reveal=reveal) for each in found])


@destination.command("show", short_help="Show one destination.")
@named
@reveal_option
@json_option
def show_destination(
    destination_id: str | None,
    *,
    tenant: str | None,
    channel: str | None,
    address: str | None,
    reveal: bool,
    as_json: bool,
) -> None:
    """Show one destination."""
    name = read_name(destination_id, tenant, channel, address)
    with session() as ledger:
        found = find_named(ledger, name)
    print_destination(fields_of(found, reveal=reveal), as_json=as_json)


@destination.command("set", short_help="Set what a destination promises.")
@named
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
    """Set whether a destination deduplicates. An address need not have been used yet.

    At one that does, a call whose outcome is unknown is repeated with the same key. At one that does not it never is:
    the reminder goes to review (`reminders dlq list --kind unknown`). Calls that are under way keep the old rule.
    """
    name = read_name(destination_id, tenant, channel, address)
    with session() as ledger:
        found = set_deduplicates(ledger.database, *place_named(ledger, name), deduplicates=deduplicates)
    print_destination(fields_of(found, reveal=False), as_json=as_json)


def _row(found: Destination, *, reveal: bool) -> list[object]:
    known = [found.id, found.tenant_id, found.channel, found.deduplicates, found.deduplicates_set, found.created_at]
    return [*known, found.reminders, found.live, _state(found), *((found.address,) if reveal else ())]


def _state(found: Destination) -> str:
    if found.disabled_at is not None:
        return "disabled"
    if found.breaker != "closed":
        return f"breaker {found.breaker.replace('_', ' ')}"
    if found.held_until is not None:
        return "held"
    return "-" if found.failing_since is None else "failing"

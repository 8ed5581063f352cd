"""`reminders destination`: where channels deliver, and what each destination promises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option, read_filters, read_id
from reminders.domain.request import checked_text
from reminders.ledger.destinations import Destination, find, get, matching, set_deduplicates
from reminders.providers import registry

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

reveal_option = click.option("--reveal", is_flag=True, help="Print the addresses, which may be personal data.")


def named(command: Decorated) -> Decorated:
    """The two ways to name one destination; `_read_name` reads them."""
    for option in (
        click.option("--to", "address", help="Instead of ID: which address."),
        click.option("--channel", help="Instead of ID: over which channel."),
        click.option("--tenant", help="Instead of ID, with --channel and --to: whose destination."),
        click.argument("destination_id", metavar="[ID]", required=False),
    ):
        command = option(command)
    return command


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
    """List destinations by tenant, channel and age, with the numbers of their reminders.

    "Set" is whether `destination set` has said if it deduplicates; otherwise its channel's default holds.
    """
    checked = read_filters({"tenant_id": tenant, "channel": channel})
    with session() as ledger:
        found = matching(ledger.database, tenant=checked["tenant_id"], channel=checked["channel"], limit=limit)
    shown = [_as_json(each, reveal=reveal) for each in found]
    if as_json:
        for each in shown:
            print_json(each)
    else:
        headings = ("id", "tenant", "channel", "deduplicates", "set", "known since", "reminders", "live")
        print_table((*headings, *(("address",) if reveal else ())), [list(each.values()) for each in shown])


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
    name = _read_name(destination_id, tenant, channel, address)
    with session() as ledger:
        if isinstance(name, str):
            found = get(ledger.database, read_id(name))
        else:
            found = find(ledger.database, *_checked(*name))
    _print(_as_json(found, reveal=reveal), as_json=as_json)


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
    name = _read_name(destination_id, tenant, channel, address)
    with session() as ledger:
        if isinstance(name, str):
            known = get(ledger.database, read_id(name))
            place = (known.tenant_id, known.channel, known.address)
        else:
            place = _checked(*name)
            registry.load(place[1], ledger.settings).check_destination(place[2])
        found = set_deduplicates(ledger.database, *place, deduplicates=deduplicates)
    _print(_as_json(found, reveal=False), as_json=as_json)


def _read_name(
    destination_id: str | None, tenant: str | None, channel: str | None, address: str | None
) -> str | tuple[str, str, str]:
    if destination_id is not None and tenant is None and channel is None and address is None:
        return destination_id
    if destination_id is None and tenant is not None and channel is not None and address is not None:
        return tenant, channel, address
    raise click.UsageError("Give either ID or all of --tenant, --channel and --to.")


def _checked(tenant: str, channel: str, address: str) -> tuple[str, str, str]:
    return checked_text("tenant_id", tenant), checked_text("channel", channel), checked_text("destination", address)


def _as_json(found: Destination, *, reveal: bool) -> dict[str, Any]:
    shown = {name: getattr(found, name) for name in Destination.__slots__ if name != "address"}
    return {**shown, "address": found.address} if reveal else shown


def _print(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        print_fields([(name.replace("_", " "), value) for name, value in shown.items()])

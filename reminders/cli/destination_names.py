"""How commands are told which destination is meant, and how they show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reminders.cli.printing import print_fields, print_json
from reminders.cli.session import Session
from reminders.cli.values import read_id
from reminders.domain.request import checked_text
from reminders.ledger.allowed_places import KeptAllowedPlaces
from reminders.ledger.destinations import Destination, find, get
from reminders.pipeline.schedule import check_place
from reminders.providers import registry

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Name = str | tuple[str, str, str]
"""A destination's id as text, or tenant, channel and address."""


def named(command: Decorated) -> Decorated:
    """The two ways to name one destination; `read_name` reads them."""
    for option in (
        click.option("--to", "address", help="Instead of ID: which address."),
        click.option("--channel", help="Instead of ID: over which channel."),
        click.option("--tenant", help="Instead of ID, with --channel and --to: whose destination."),
        click.argument("destination_id", metavar="[ID]", required=False),
    ):
        command = option(command)
    return command


def read_name(destination_id: str | None, tenant: str | None, channel: str | None, address: str | None) -> Name:
    """Which of the two ways was taken. Raises a usage error for anything between."""
    if destination_id is not None and tenant is None and channel is None and address is None:
        return destination_id
    if destination_id is None and tenant is not None and channel is not None and address is not None:
        return tenant, channel, address
    raise click.UsageError("Give either ID or all of --tenant, --channel and --to.")


def find_named(ledger: Session, name: Name) -> Destination:
    """The destination that is meant, as the ledger knows it. Raises `NotFound`, `InvalidInput`."""
    if isinstance(name, str):
        return get(ledger.database, read_id(name))
    return find(ledger.database, *_checked(*name))


def place_named(ledger: Session, name: Name) -> tuple[str, str, str]:
    """Tenant, channel and address of the destination that is meant, which need not be known if all three are given.

    Raises `InvalidInput` for an address that the channel cannot deliver to, and `NotFound` for an unknown id.
    """
    if isinstance(name, str):
        known = get(ledger.database, read_id(name))
        return known.tenant_id, known.channel, known.address
    place = _checked(*name)
    check_place(registry.load(place[1], ledger.settings), place[0], place[2], KeptAllowedPlaces(ledger.database).of)
    return place


def fields_of(found: Destination, *, reveal: bool) -> dict[str, Any]:
    """Its fields; the address on demand only."""
    shown = {name: getattr(found, name) for name in Destination.__slots__ if name != "address"}
    return {**shown, "address": found.address} if reveal else shown


def print_destination(shown: dict[str, Any], *, as_json: bool) -> None:
    """One destination, for programs or for people."""
    if as_json:
        print_json(shown)
    else:
        print_fields([(name.replace("_", " "), value) for name, value in shown.items()])


def _checked(tenant: str, channel: str, address: str) -> tuple[str, str, str]:
    return checked_text("tenant_id", tenant), checked_text("channel", channel), checked_text("destination", address)

"""`reminders destination disable|enable|release`: whether a destination may be called."""

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
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.ledger.destination_state import disable, enable, release_destination
from reminders.ledger.review import checked_words

reason_option = click.option("--reason", required=True, help="Why; kept on record.")


@click.command("disable", short_help="Send nothing to a destination.")
@named
@reason_option
@json_option
def disable_destination(
    destination_id: str | None,
    *,
    tenant: str | None,
    channel: str | None,
    address: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Send nothing to a destination until it is enabled again. An address need not have been used yet.

    Reminders that come due for it meanwhile end as dead letters (`reminders dlq list --error-class
    destination_disabled`). Calls that are under way are not broken off. A webhook receiver that answers 410 disables
    its destination by itself.
    """
    name = read_name(destination_id, tenant, channel, address)
    words = checked_words("reason", reason)
    with session() as ledger:
        found = disable(ledger.database, place_named(ledger, name), words)
    print_destination(fields_of(found, reveal=False), as_json=as_json)


@click.command("enable", short_help="Send to a disabled destination again.")
@named
@reason_option
@json_option
def enable_destination(
    destination_id: str | None,
    *,
    tenant: str | None,
    channel: str | None,
    address: str | None,
    reason: str,
    as_json: bool,
) -> None:
    """Send to a disabled destination again.

    What ended as a dead letter meanwhile stays one: `reminders dlq redrive --destination ID --error-class
    destination_disabled` sends it.
    """
    name = read_name(destination_id, tenant, channel, address)
    words = checked_words("reason", reason)
    with session() as ledger:
        found = enable(ledger.database, place_named(ledger, name), words)
    print_destination(fields_of(found, reveal=False), as_json=as_json)


@click.command("release", short_help="End a destination's hold early.")
@named
@json_option
def release_held_destination(
    destination_id: str | None,
    *,
    tenant: str | None,
    channel: str | None,
    address: str | None,
    as_json: bool,
) -> None:
    """End the hold of a destination that asked for a pause, and let its waiting reminders go at once.

    If it asks again, it is held again. Run twice if something was put off in the very moment of the first.
    """
    name = read_name(destination_id, tenant, channel, address)
    with session() as ledger:
        found = find_named(ledger, name)
        woken, was_held = release_destination(ledger.database, found.id)
    print_destination({"id": found.id, "was_held": was_held, "woken": woken}, as_json=as_json)

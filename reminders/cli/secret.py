"""`reminders secret`: secrets of one's own that deliveries are signed with, and the keys that encrypt them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

import click

from reminders.cli.destination_names import place_named
from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import for_people, print_fields, print_json, print_table
from reminders.cli.session import Session, session
from reminders.cli.values import json_option, limit_option, read_filters, read_id
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput, NotFound
from reminders.domain.request import checked_text
from reminders.ledger.destinations import get
from reminders.ledger.keyring import Keyring, generate_key
from reminders.ledger.reencrypting import KeyInUse
from reminders.ledger.reencrypting import reencrypt as encrypt_anew
from reminders.ledger.rotating import Rotated, Said, SecretPlace
from reminders.ledger.rotating import revoke as drop_former
from reminders.ledger.rotating import rotate as make_new
from reminders.ledger.secret_records import SecretRecord, changes, records
from reminders.pipeline.provider import can_sign
from reminders.providers import registry
from reminders.providers.signing import format_secret

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
LONGEST_GRACE = 90 * 86400.0
"""Seconds: a former secret that signs for longer was not exchanged."""


def _place(command: Decorated) -> Decorated:
    """Whose secret: `_read_place` reads it."""
    for option in (
        click.option("--destination-id", metavar="ID", help="Instead of --to: the destination's id."),
        click.option(
            "--to", "address", help="Of this destination alone; without it, of all that have none of their own."
        ),
        click.option("--channel", default="webhook", show_default=True, help="Over which channel."),
        click.option("--tenant", required=True, help="Whose."),
    ):
        command = option(command)
    return command


def _filters(command: Decorated) -> Decorated:
    for option in (
        json_option,
        click.option("--destination-id", metavar="ID", help="Only of this destination."),
        click.option("--channel", help="Only over this channel."),
        click.option("--tenant", help="Only this tenant's."),
    ):
        command = option(command)
    return command


actor_option = click.option("--actor", help="Who; kept on record with this host.  [default: you]")


@click.group(short_help="Signing secrets: rotate, revoke, list, history; reencrypt, generate-key.")
def secret() -> None:
    """Secrets that deliveries are signed with.

    Each destination has one that is derived from REMINDERS_WEBHOOK_SECRET, until it or its tenant gets one of its own.
    Those are kept encrypted under REMINDERS_KEYS, are shown once, and never again.
    """


@secret.command("rotate", short_help="Make a new secret and show it once.")
@_place
@click.option("--grace", default="24h", show_default=True, help="How long the former one signs too; 0s: not at all.")
@click.option("--reason", help="Why; kept on record.")
@actor_option
@json_option
def rotate(
    *,
    tenant: str,
    channel: str,
    address: str | None,
    destination_id: str | None,
    grace: str,
    reason: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Make a new secret for a destination, or for all destinations of a tenant that have none of their own.

    It is shown now and never again. Until the grace ends, deliveries carry a signature of each, so that the receiver can
    change over at any time. Lost before it was noted, it is simply rotated once more.
    """
    seconds = _read_grace(grace)
    said = Said(whoever_this_is() if actor is None else actor, reason)
    with session() as ledger:
        keyring = Keyring(ledger.settings.keys)
        place = _read_place(ledger, tenant, channel, address, destination_id)
        made = make_new(ledger.database, keyring, place, grace=seconds, said=said)
    _print_rotated(place, made, as_json=as_json)


@secret.command("revoke", short_help="Let the former secrets sign no more.")
@_place
@click.option("--reason", required=True, help="Why; kept on record.")
@actor_option
@json_option
def revoke(
    *,
    tenant: str,
    channel: str,
    address: str | None,
    destination_id: str | None,
    reason: str,
    actor: str | None,
    as_json: bool,
) -> None:
    """End the grace of former secrets at once, because one has leaked: only the newest signs from now on.

    Calls that are under way may still carry the former one's signature. If the newest has leaked itself:
    `reminders secret rotate --grace 0s`.
    """
    said = Said(whoever_this_is() if actor is None else actor, reason)
    with session() as ledger:
        place = _read_place(ledger, tenant, channel, address, destination_id)
        dropped = drop_former(ledger.database, place, said=said)
    if as_json:
        print_json({**_place_fields(place), "revoked": dropped})
    else:
        print(for_people(f"revoked: {', '.join(dropped)} of {place.words()}"))


@secret.command("list", short_help="List secrets by their fingerprints.")
@_filters
@click.option("--retired", is_flag=True, help="Also those that no longer sign.")
@limit_option(100, "secrets")
def list_secrets(
    *, tenant: str | None, channel: str | None, destination_id: str | None, retired: bool, limit: int, as_json: bool
) -> None:
    """List the secrets of destinations' and tenants' own that sign: fingerprints and times, never a secret.

    `inherited` is whatever signed before there was one of its own: the derived secret, or the tenant's.
    """
    wanted = _read_filters(tenant, channel, destination_id)
    with session() as ledger:
        found = records(ledger.database, **wanted, retired=retired, limit=limit)
    if as_json:
        for each in found:
            print_json(asdict(each))
    elif found:
        headings = ("fingerprint", "tenant", "channel", "destination", "state", "until", "key", "since", "by", "reason")
        print_table(headings, [_row(each) for each in found], spare=("by", "since", "key"))
    else:
        print("No destination has a secret of its own; the derived ones sign.")


@secret.command("history", short_help="List who changed secrets, when and why.")
@_filters
@limit_option(100, "changes")
def history(*, tenant: str | None, channel: str | None, destination_id: str | None, limit: int, as_json: bool) -> None:
    """List rotations and revocations, latest first."""
    wanted = _read_filters(tenant, channel, destination_id)
    with session() as ledger:
        found = changes(ledger.database, **wanted, limit=limit)
    if as_json:
        for each in found:
            print_json(asdict(each))
        return
    headings = ("when", "what", "tenant", "channel", "destination", "fingerprints", "by", "host", "reason")
    rows = [
        (
            each.changed_at, each.action, each.tenant_id, each.channel, each.destination_id or "(all)",
            ",".join(each.fingerprints), each.actor, each.host, each.reason,
        )
        for each in found
    ]  # fmt: skip
    print_table(headings, rows, spare=("host",))


@secret.command("reencrypt", short_help="Bring all secrets under the newest key.")
@json_option
@click.pass_context
def reencrypt(context: click.Context, *, as_json: bool) -> None:
    """Encrypt every secret with the newest key of REMINDERS_KEYS, and say which keys are still in use.

    It may be broken off and run again. Exits 3 if there are secrets that no key of REMINDERS_KEYS decrypts.
    """
    with session() as ledger:
        done = encrypt_anew(ledger.database, Keyring(ledger.settings.keys))
    if as_json:
        print_json(asdict(done))
    else:
        print(
            f"{done.reencrypted:,} encrypted anew, {done.erased:,} retired ones erased, {done.unreadable:,} unreadable"
        )
        print_table(("key", "secrets", "what"), [(each.fingerprint, each.secrets, _advice(each)) for each in done.keys])
    if done.unreadable:
        context.exit(3)


@secret.command("generate-key", short_help="Make a key for REMINDERS_KEYS.")
def new_key() -> None:
    """Print a new key for REMINDERS_KEYS, to be put before those that are there. It is kept nowhere."""
    print(generate_key())


def _read_place(
    ledger: Session, tenant: str, channel: str, address: str | None, destination_id: str | None
) -> SecretPlace:
    whose, which = checked_text("tenant_id", tenant), checked_text("channel", channel)
    if not can_sign(registry.load(which, ledger.settings)):
        raise InvalidInput("channel", f"{which!r} does not sign what it sends")
    if address is not None and destination_id is not None:
        raise click.UsageError("Give either --to or --destination-id.")
    if destination_id is not None:
        known = get(ledger.database, read_id(destination_id, "--destination-id"))
        if (known.tenant_id, known.channel) != (whose, which):
            raise NotFound(f"tenant {whose} has no destination {known.id} of channel {which}")
        address = known.address
    elif address is not None:
        _, _, address = place_named(ledger, (whose, which, address))
    return SecretPlace(whose, which, address)


def _read_grace(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InvalidInput("--grace", str(error)) from None
    if seconds > LONGEST_GRACE:
        raise InvalidInput(
            "--grace", f"{text.strip()!r} is longer than 90d, for which a former secret may go on at most"
        )
    return seconds


def _read_filters(tenant: str | None, channel: str | None, destination_id: str | None) -> dict[str, Any]:
    checked = read_filters({"tenant_id": tenant, "channel": channel})
    place = None if destination_id is None else read_id(destination_id, "--destination-id")
    return {"tenant": checked["tenant_id"], "channel": checked["channel"], "destination": place}


def _place_fields(place: SecretPlace) -> dict[str, Any]:
    return {"tenant_id": place.tenant_id, "channel": place.channel, "destination_id": place.destination_id}


def _print_rotated(place: SecretPlace, made: Rotated, *, as_json: bool) -> None:
    shown = {**_place_fields(place), **asdict(made), "secret": format_secret(made.secret)}
    if as_json:
        print_json(shown)
        return
    print_fields([(name.replace("_", " "), value) for name, value in shown.items()])
    click.echo(
        "The secret is not shown again: give it to the receiver now, by a way that others cannot read.", err=True
    )


def _row(each: SecretRecord) -> tuple[object, ...]:
    name = "inherited" if each.inherited else each.fingerprint
    place = each.destination_id or "(all)"
    times = (each.retires_at, each.key_fingerprint, each.created_at)
    return (name, each.tenant_id, each.channel, place, each.state, *times, each.actor, for_people(each.reason))


def _advice(key: KeyInUse) -> str:
    if not key.known:
        return "not in REMINDERS_KEYS: what it encrypts cannot be used"
    if key.newest:
        return "the newest: it encrypts"
    return "still in use" if key.secrets else "no longer in use: it can be taken out of REMINDERS_KEYS"

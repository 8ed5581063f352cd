"""`reminders recipient`: what is known of users. Zone, locale, quiet hours; and what they want."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any, Literal

import click

from reminders.calendar.quiet_hours import parse_quiet_hours
from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import Session, session
from reminders.cli.values import json_option, limit_option, read_filters
from reminders.domain.errors import NotFound
from reminders.domain.request import checked_text
from reminders.ledger.recipients import UNCHANGED, Preference, Recipient, change, prefer, preferences, recipients
from reminders.pipeline.consent import check_channel
from reminders.providers import registry

NONE = "none"
WORDS: dict[str, bool | None] = {"yes": True, "no": False, "default": None}


@click.group(short_help="Recipients: zone, locale, quiet hours and preferences of users.")
def recipient() -> None:
    """Recipients: what is known of users that sending goes by."""


@recipient.command("set", short_help="Set a user's zone, locale, quiet hours or a preference.")
@click.option("--tenant", required=True, help="Whose user.")
@click.option("--user", required=True, help="Which user.")
@click.option("--zone", metavar="ZONE|none", help="Where the user is, such as Europe/Berlin.")
@click.option("--locale", metavar="TAG|none", help="What the user reads, such as de or pt-BR.")
@click.option("--quiet", metavar="HH:MM-HH:MM|none", help="Between which wall times nothing may reach the user.")
@click.option("--allowed", type=click.Choice(list(WORDS)), help="Whether the user wants what --kind and --channel say.")
@click.option("--kind", help="With --allowed: of this kind only.")
@click.option("--channel", help="With --allowed: over this channel only.")
@click.option("--source", default="operator", show_default=True, help="With --allowed: where the user said so.")
@json_option
def set_recipient(
    *,
    tenant: str,
    user: str,
    zone: str | None,
    locale: str | None,
    quiet: str | None,
    allowed: Literal["yes", "no", "default"] | None,
    kind: str | None,
    channel: str | None,
    source: str,
    as_json: bool,
) -> None:
    """Set what is known of a user; what is left out stays as it is, `none` takes it back.

    Quiet hours are in the user's zone; what comes due in them waits for their end. With --allowed a preference is recorded:
    the narrowest one counts, and where none is said, reminders are sent.
    """
    known = (zone, locale, quiet)
    if all(each is None for each in known) and allowed is None:
        raise click.UsageError("Give --zone, --locale, --quiet or --allowed.")
    if allowed is None and (kind is not None or channel is not None):
        raise click.UsageError("--kind and --channel say what --allowed is about.")
    hours = None if quiet in {None, NONE} else parse_quiet_hours(str(quiet))
    with session() as ledger:
        schema = ledger.database.schema
        if allowed is not None and WORDS[allowed] is not None:
            check_channel(partial(registry.load, settings=ledger.settings), channel)
        with ledger.transaction() as connection:
            if any(each is not None for each in known):
                change(
                    connection, schema, tenant, user,
                    zone=UNCHANGED if zone is None else None if zone == NONE else zone,
                    locale=UNCHANGED if locale is None else None if locale == NONE else locale,
                    quiet_hours=UNCHANGED if quiet is None else hours,
                )  # fmt: skip
            if allowed is not None:
                prefer(
                    connection, schema, tenant, user,
                    kind=kind, channel=channel, allowed=WORDS[allowed], source=source, actor=whoever_this_is(),
                )  # fmt: skip
        found = _found(ledger, tenant, user)
    _print(*found, as_json=as_json)


@recipient.command("show", short_help="Show what is known of a user.")
@click.option("--tenant", required=True, help="Whose user.")
@click.option("--user", required=True, help="Which user.")
@click.option("--ended", is_flag=True, help="Also preferences that do not stand any more.")
@json_option
def show_recipient(*, tenant: str, user: str, ended: bool, as_json: bool) -> None:
    """Show what is known of a user, with what they have said, when and where."""
    with session() as ledger:
        found = _found(ledger, checked_text("tenant_id", tenant), checked_text("user_id", user), ended=ended)
    _print(*found, as_json=as_json)


@recipient.command("list", short_help="List users of whom anything is known.")
@click.option("--tenant", help="Only this tenant's.")
@limit_option(100, "users")
@json_option
def list_recipients(*, tenant: str | None, limit: int, as_json: bool) -> None:
    """List users of whom anything is known, by tenant and user; `show` has their preferences."""
    checked = read_filters({"tenant_id": tenant})
    with session() as ledger:
        found = recipients(ledger.database, tenant=checked["tenant_id"], limit=limit)
    if as_json:
        for each in found:
            print_json(_fields(each))
    else:
        headings = ("tenant", "user", "zone", "locale", "quiet hours")
        print_table(headings, [(e.tenant_id, e.user_id, e.zone, e.locale, _hours(e)) for e in found])


def _found(ledger: Session, tenant: str, user: str, *, ended: bool = False) -> tuple[Recipient, list[Preference]]:
    said = preferences(ledger.database, tenant, user, ended=ended)
    found = recipients(ledger.database, tenant=tenant, user=user, limit=1)
    if found:
        return found[0], said
    if said:
        return Recipient(tenant, user, None, None, None, None), said
    raise NotFound(f"nothing is known of user {user} of {tenant}")


def _print(found: Recipient, said: list[Preference], *, as_json: bool) -> None:
    if as_json:
        print_json({**_fields(found), "preferences": [asdict(each) for each in said]})
        return
    print_fields([(name.replace("_", " "), value) for name, value in _fields(found).items()])
    if said:
        print("\nPreferences")
        headings = ("kind", "channel", "allowed", "since", "until", "source", "by")
        rows = [
            (e.kind or "(all)", e.channel or "(all)", e.allowed, e.said_at, e.ended_at, e.source, e.actor) for e in said
        ]
        print_table(headings, rows)


def _fields(found: Recipient) -> dict[str, Any]:
    names = ("tenant_id", "user_id", "zone", "locale")
    return {
        **{name: getattr(found, name) for name in names},
        "quiet_hours": _hours(found),
        "changed_at": found.changed_at,
    }


def _hours(found: Recipient) -> str | None:
    return None if found.quiet_hours is None else str(found.quiet_hours)

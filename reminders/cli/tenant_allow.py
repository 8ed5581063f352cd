"""`reminders tenant allow`: places that a tenant's reminders may go to although they are not public."""

from __future__ import annotations

from typing import Any

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.domain.allowed_places import read_place
from reminders.domain.request import checked_text
from reminders.ledger.allowed_places import KEPT_SECONDS, AllowedPlace, disallow, rules
from reminders.ledger.allowed_places import allow as let
from reminders.ledger.review import checked_words

reason_option = click.option("--reason", required=True, help="Why; kept on record.")
actor_option = click.option("--actor", help="Who; kept on record with this host.  [default: you]")


@click.group(short_help="Places that are not public: add, remove, list.")
def allow() -> None:
    """Places that a tenant's webhooks may go to although they are not public: networks, addresses, host names.

    A name opens the private addresses that it leads to, a network its own. This machine (127.0.0.0/8, ::1), link-local
    addresses and the clouds' metadata services take a rule that names the one address. https:// is needed all the same.
    """


@allow.command("add", short_help="Allow a tenant a network, an address or a host name.")
@click.argument("tenant_id", metavar="TENANT")
@click.argument("place", metavar="CIDR-OR-HOST")
@reason_option
@actor_option
@json_option
def add_place(tenant_id: str, place: str, *, reason: str, actor: str | None, as_json: bool) -> None:
    """Let a tenant's reminders go to a network (10.20.0.0/16), an address or a host (hooks.corp), which is not public.

    It holds for what is scheduled from now on, and for sending within half a minute. Said twice, the first word stands.
    """
    whose, where, words, who = _read(tenant_id, place, reason, actor)
    with session() as ledger:
        created = let(ledger.database, whose, where, actor=who, reason=words)
    _print({"tenant_id": whose, "place": where, "created": created}, as_json=as_json)


@allow.command("remove", short_help="Take that back.")
@click.argument("tenant_id", metavar="TENANT")
@click.argument("place", metavar="CIDR-OR-HOST")
@reason_option
@actor_option
@json_option
def remove_place(tenant_id: str, place: str, *, reason: str, actor: str | None, as_json: bool) -> None:
    """Let nothing more of a tenant's go to the place; what is due for it later ends as a dead letter."""
    whose, where, words, who = _read(tenant_id, place, reason, actor)
    with session() as ledger:
        disallow(ledger.database, whose, where, actor=who, reason=words)
    ends = {"tenant_id": whose, "place": where, "workers_know_within_seconds": KEPT_SECONDS}
    _print(ends, as_json=as_json)


@allow.command("list", short_help="List what is allowed, by whom and why.")
@click.argument("tenant_id", metavar="[TENANT]", required=False)
@click.option("--ended", is_flag=True, help="Also what was allowed once.")
@limit_option(100, "rules")
@json_option
def list_places(tenant_id: str | None, *, ended: bool, limit: int, as_json: bool) -> None:
    """List what one tenant, or each, is allowed."""
    whose = None if tenant_id is None else checked_text("tenant_id", tenant_id)
    with session() as ledger:
        found = rules(ledger.database, tenant=whose, ended=ended, limit=limit)
    if as_json:
        for each in found:
            print_json({name: getattr(each, name) for name in AllowedPlace.__slots__})
    else:
        headings = ("place", "tenant", "allowed at", "by", "ended at", "why")
        print_table(headings, [_row(each) for each in found], spare=("by", "allowed at"))


def _read(tenant_id: str, place: str, reason: str, actor: str | None) -> tuple[str, str, str, str]:
    who = whoever_this_is() if actor is None else actor
    named = checked_text("tenant_id", tenant_id), read_place(place)
    return *named, checked_words("reason", reason), checked_words("actor", who)


def _print(shown: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(shown)
    else:
        print_fields([(name.replace("_", " "), value) for name, value in shown.items()])


def _row(rule: AllowedPlace) -> list[object]:
    return [rule.place, rule.tenant_id, rule.allowed_at, rule.actor, rule.ended_at, rule.reason]

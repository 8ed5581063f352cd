"""`reminders template`: the texts of messages, as versions that never change, and which of them is sent."""

from __future__ import annotations

import socket

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import for_people, print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.template_preview import preview
from reminders.cli.template_sources import (
    faults_of,
    fields,
    part_options,
    place_options,
    print_parts,
    read_parts,
    read_place,
    templated_channels,
)
from reminders.cli.values import json_option, limit_option, read_filters, read_id
from reminders.domain.template import lacking, read_locale
from reminders.ledger import templates as ledger_templates
from reminders.ledger.review import checked_words
from reminders.ledger.template_trials import waiting_without
from reminders.ledger.templates import Kept
from reminders.pipeline.provider import template_parts

MOST_ACTIVE = 1_000_000
_actor_option = click.option("--actor", help="Who; kept on record with this host.  [default: you]")


@click.group(short_help="Templates: add, list, show, preview, activate, check.")
def template() -> None:
    """Templates: what is said to people, for each tenant, kind, channel and language.

    A version never changes. A reminder's first attempt pins the active version; every later one says the same.
    """


template.add_command(preview)


@template.command("add", short_help="Add a version and make it the active one.")
@place_options
@part_options
@click.option("--inactive", is_flag=True, help="Only add it; `activate` makes it the active one.")
@_actor_option
@json_option
def add(
    *,
    tenant: str | None,
    all_tenants: bool,
    kind: str | None,
    channel: str | None,
    locale: str | None,
    subject: str | None,
    text: str | None,
    html: str | None,
    inactive: bool,
    actor: str | None,
    as_json: bool,
) -> None:
    """Add a version and make it the active one, which reminders without an attempt are then sent with.

    Files that say what the newest version says already add nothing and change nothing, so that every deployment may run
    this.
    """
    place = read_place(tenant=tenant, all_tenants=all_tenants, kind=kind, channel=channel, locale=locale)
    with session() as ledger:
        parts = read_parts({"subject": subject, "text": text, "html": html}, place["channel"], ledger.settings)
        added = ledger_templates.add_template(
            ledger.database, **place, parts=parts, **_by(actor), activate=not inactive
        )
    if as_json:
        print_json({**fields(added.kept), "created": added.created})
        return
    kept = added.kept.template
    print(for_people(f"{'added' if added.created else 'there already'}: {kept.name} ({kept.id})"))
    if added.kept.activated_at is None:
        print(
            f"another version is active, or none; `reminders template activate {added.kept.template.id}` changes that"
        )


@template.command("list", short_help="List active templates, or all versions.")
@click.option("--tenant", help="This tenant's own.")
@click.option("--kind", help="Of this kind of reminder.")
@click.option("--channel", help="Of this channel.")
@click.option("--locale", help="Of this language.")
@click.option("--all", "every", is_flag=True, help="All versions, not only those that are active.")
@limit_option(100, "versions")
@json_option
def list_templates(
    *,
    tenant: str | None,
    kind: str | None,
    channel: str | None,
    locale: str | None,
    every: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List the active templates by tenant, kind, channel and language; `*` stands for all tenants, and for the default."""
    read = read_filters({"tenant_id": tenant, "kind": kind, "channel": channel})
    with session() as ledger:
        found = ledger_templates.templates(
            ledger.database,
            tenant=read["tenant_id"],
            kind=read["kind"],
            channel=read["channel"],
            locale=None if locale is None else read_locale(locale),
            every=every,
            limit=limit,
        )
    if as_json:
        for each in found:
            print_json(fields(each))
    elif found:
        headings = ("id", "active", "added", "by", "name")
        rows = [
            (each.template.id, each.activated_at is not None, each.added_at, each.actor, each.template.name)
            for each in found
        ]
        print_table(headings, rows, spare=("by", "added"))
    else:
        print("No template fits.")


@template.command("show", short_help="Show one version: its source, and who added it.")
@click.argument("version_id", metavar="ID")
@json_option
def show(version_id: str, *, as_json: bool) -> None:
    """Show one version: whose it is, who added it and when, and the source of its parts."""
    wanted = read_id(version_id)
    with session() as ledger:
        found = ledger_templates.template(ledger.database, wanted)
    if as_json:
        print_json({**fields(found), "parts": dict(found.template.parts)})
        return
    print_fields(
        [
            ("id", found.template.id),
            ("name", found.template.name),
            ("added", found.added_at),
            ("by", f"{found.actor} on {found.host}"),
            ("active since", found.activated_at),
            ("activated by", found.activated_by and f"{found.activated_by} on {found.activated_host}"),
        ]
    )
    print_parts(found.template.parts)


@template.command("activate", short_help="Make a version, newer or older, the active one.")
@click.argument("version_id", metavar="ID")
@_actor_option
@json_option
def activate(version_id: str, *, actor: str | None, as_json: bool) -> None:
    """Make a version the active one of its place. What has had an attempt keeps the version that it has pinned."""
    wanted = read_id(version_id)
    with session() as ledger:
        kept, changed = ledger_templates.activate_template(ledger.database, wanted, **_by(actor))
    _print_changed(kept, "active", changed=changed, as_json=as_json)


@template.command("withdraw", short_help="Leave a place without an active version.")
@click.argument("version_id", metavar="ID")
@json_option
def withdraw(version_id: str, *, as_json: bool) -> None:
    """Let the active version's place have none: a tenant is written to with the installation's template again.

    Where none is left for a kind, its reminders end as dead letters (`no_template`).
    """
    wanted = read_id(version_id)
    with session() as ledger:
        kept, changed = ledger_templates.withdraw_template(ledger.database, wanted)
    _print_changed(kept, "withdrawn", changed=changed, as_json=as_json)


@template.command("check", short_help="Check all active templates, and what waits without one.")
@json_option
@click.pass_context
def check(context: click.Context, *, as_json: bool) -> None:
    """Check every active template against the installed channels, and find live reminders that would have none.

    Exits with 1 if anything is found. Reads all live reminders of channels that have templates.
    """
    with session() as ledger:
        known = templated_channels(ledger.settings)
        active = ledger_templates.templates(ledger.database, limit=MOST_ACTIVE)
        faults = [fault for each in active for fault in faults_of(each.template, known)]
        missing = waiting_without(ledger.database, known)
    for fault in faults:
        if as_json:
            print_json(
                {"found": "fault", "template": fault.where, "part": fault.part, "line": fault.line, "what": str(fault)}
            )
        else:
            print(for_people(fault))
    for tenant, kind, channel, count in missing:
        what = lacking(
            tenant, kind, channel, [part for part, word in template_parts(known[channel]).items() if word == "required"]
        )
        if as_json:
            where = {"tenant_id": tenant, "kind": kind, "channel": channel, "waiting": count}
            print_json({"found": "no_template", **where, "what": what})
        else:
            print(for_people(f"{count:,} waiting: {what}"))
    if faults or missing:
        context.exit(1)
    if not as_json:
        print(f"{len(active):,} active templates, nothing found")


def _by(actor: str | None) -> dict[str, str]:
    who = whoever_this_is() if actor is None else checked_words("--actor", actor)
    return {"actor": who, "host": socket.gethostname()}


def _print_changed(kept: Kept, what: str, *, changed: bool, as_json: bool) -> None:
    if as_json:
        print_json({**fields(kept), "changed": changed})
    else:
        print(for_people(f"{what if changed else 'nothing changed'}: {kept.template.name} ({kept.template.id})"))

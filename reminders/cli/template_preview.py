"""`reminders template preview`: what would be sent, without sending it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

import click

from reminders.calendar.zones import load_zone, to_instant
from reminders.cli.printing import print_json
from reminders.cli.session import Session, session
from reminders.cli.template_sources import (
    part_options,
    parts_of_channel,
    place_options,
    print_parts,
    read_parts,
    read_place,
)
from reminders.cli.template_trial import NOBODY, body_of, of_file, trial
from reminders.cli.values import json_option, read_data, read_due_at, read_id
from reminders.domain.delivery import Delivery
from reminders.domain.errors import NotFound
from reminders.domain.request import canonical_data, checked_text
from reminders.domain.template import Template, TemplateFault, lacking
from reminders.ledger.template_trials import as_delivery, would_pin
from reminders.ledger.template_versions import read_version
from reminders.ledger.templates import template, templates
from reminders.pipeline.provider import Provider
from reminders.providers import registry
from reminders.providers.sms import CHANNEL as SMS
from reminders.providers.sms import PART
from reminders.providers.sms_parts import Parts, parts
from reminders.providers.templating import render_part


@click.command(short_help="Fill in a template, without sending anything.")
@click.argument("version_id", metavar="[ID]", required=False)
@place_options
@part_options
@click.option("--reminder", metavar="ID", help="Fill it in for this reminder.")
@click.option("--data", help="A JSON object, or @FILE (@- is standard input); without --reminder.")
@click.option("--user", default="user-1", show_default=True, help="As user_id, without --reminder.")
@click.option("--reference", help="As reference, without --reminder.")
@click.option("--slot", default="", help="As slot, without --reminder.")
@click.option("--due-at", default="+1h", show_default=True, help="As due_at, without --reminder.")
@click.option("--zone", help="As zone, without --reminder.")
@json_option
def preview(
    version_id: str | None,
    *,
    tenant: str | None,
    all_tenants: bool,
    kind: str | None,
    channel: str | None,
    locale: str | None,
    reminder: str | None,
    as_json: bool,
    **more: Any,
) -> None:
    """Fill in a version by its ID, the active one of --kind, --channel, --tenant or --all-tenants and --locale, or files.

    With --reminder alone it is the template that the reminder has pinned, or would pin now. A fault, also one of the
    channel (too long, empty, a header that may not be), is told as it would be in the dead letter: with the part, or the
    file, and the line. Of an SMS it is told how many it comes to. Nothing is sent, claimed or stored.
    """
    files = {part: more.pop(part) for part in ("subject", "text", "html")}
    with session() as ledger:
        delivery = as_delivery(ledger.database, read_id(reminder)) if reminder else None
        if version_id is not None:
            found = template(ledger.database, read_id(version_id)).template
        elif delivery is not None and kind is None and channel is None and not any(files.values()):
            found = _pinned(ledger, delivery)
        else:
            if delivery is not None:
                kind, channel, tenant = kind or delivery.kind, channel or delivery.channel, tenant or delivery.tenant_id
            place = read_place(tenant=tenant, all_tenants=all_tenants, kind=kind, channel=channel, locale=locale)
            found = _of_files(ledger, place, files) if any(files.values()) else _active(ledger, place)
        delivery = replace(delivery, template=found) if delivery else _thought_of(found, tenant, **more)
        parts, sms = _filled_in(delivery, files, registry.load(found.channel, ledger.settings))
    if as_json:
        counted = (
            {} if sms is None else {"sms": {"parts": len(sms.texts), "encoding": sms.encoding, "units": sms.units}}
        )
        print_json({"template": found.name, "id": None if found.id == NOBODY else found.id, "parts": parts, **counted})
        return
    print_parts(parts)
    if sms is not None:
        print(f"--- {len(sms.texts)} SMS, {sms.encoding}, {sms.units} units")


def _pinned(ledger: Session, delivery: Delivery) -> Template:
    required = [
        part for part, word in parts_of_channel(delivery.channel, ledger.settings).items() if word == "required"
    ]
    given = {"tenant": delivery.tenant_id, "user": delivery.user_id, "kind": delivery.kind, "channel": delivery.channel}
    version = would_pin(ledger.database, **given, key=delivery.delivery_key)
    found = None if version is None else read_version(ledger.database, version)
    if found is None:
        raise NotFound(lacking(delivery.tenant_id, delivery.kind, delivery.channel, required))
    return found


def _active(ledger: Session, place: Mapping[str, str]) -> Template:
    tenant, kind, channel, locale = (place[name] for name in ("tenant", "kind", "channel", "locale"))
    found = templates(ledger.database, tenant=tenant, kind=kind, channel=channel, locale=locale, limit=1)
    if not found:
        raise NotFound("no version is active there; see `reminders template list`")
    return found[0].template


def _of_files(ledger: Session, place: Mapping[str, str], files: Mapping[str, str | None]) -> Template:
    parts = read_parts(files, place["channel"], ledger.settings)
    return Template(NOBODY, place["tenant"], place["kind"], place["channel"], place["locale"], 0, parts)


def _thought_of(
    found: Template,
    tenant: str | None,
    *,
    data: str | None,
    user: str,
    reference: str | None,
    slot: str,
    due_at: str,
    zone: str | None,
) -> Delivery:
    """A delivery that no ledger has."""
    due = read_due_at(due_at)
    if zone is not None:
        load_zone(zone)
    if due.tzinfo is None:
        due = to_instant(due, zone or "UTC")
    given = read_data(data)
    canonical_data(given)
    whose = {} if found.tenant_id or not tenant else {"tenant_id": checked_text("tenant_id", tenant)}
    return trial(
        found,
        **whose,
        user_id=checked_text("user_id", user),
        due_at=due.astimezone(UTC).replace(microsecond=0),
        zone=zone,
        reference=None if reference is None else checked_text("reference", reference),
        slot=slot and checked_text("slot", slot),
        data=given or {},
    )


def _filled_in(
    delivery: Delivery, files: Mapping[str, str | None], provider: Provider
) -> tuple[dict[str, str], Parts | None]:
    """Every part, filled in, and what an SMS comes to. Raises `TemplateFault`, with a file's name where its part came
    from one.
    """
    assert delivery.template is not None
    try:
        filled = {part: render_part(delivery, part) for part in delivery.template.parts}
        body = body_of(provider, delivery)
    except TemplateFault as fault:
        raise of_file(fault, files) from None
    if delivery.template.channel != SMS:
        return filled, None
    text = body.decode()
    return {**filled, PART: text}, parts(text)

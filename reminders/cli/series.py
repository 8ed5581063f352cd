"""`reminders series`: what recurs. Here: add, list, show."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import click

from reminders.cli.printing import instant_for_people, print_fields, print_json, print_table
from reminders.cli.series_changes import CHANGES
from reminders.cli.series_options import definition_options, read_definition
from reminders.cli.session import command_settings, session
from reminders.cli.values import json_option, limit_option, read_filters, read_id
from reminders.ledger import series_changing
from reminders.ledger.caller import fetch
from reminders.ledger.series_reading import Made, Skipped, each_series, occurrences_of, skips_of
from reminders.ledger.series_rows import Series, get_series
from reminders.ledger.series_turns import next_turns
from reminders.pipeline.series_request import to_series_request
from reminders.providers import registry

SHOWN_AHEAD = 5


@click.group(short_help="Series: add, list, show, edit, pause, resume, skip, move, end.")
def series() -> None:
    """Series: reminders that recur by a rule, in the civil time of a zone.

    Always exactly the next occurrence is made, as a reminder of its own that `reminders show` tells all about.
    """


@series.command("add", short_help="Schedule a series.")
@click.option("--tenant", required=True, help="Whose user it is.")
@click.option("--user", required=True, help="Who is reminded.")
@click.option("--kind", required=True, help="What sort of reminder it is, such as invoice-due.")
@click.option("--channel", required=True, help="How it is delivered: webhook, log, or another installed channel.")
@click.option("--to", "destination", required=True, help="Where it is delivered: for channel webhook a URL.")
@click.option("--reference", help="What it is about. It identifies the series; without it --start and --rule do.")
@click.option("--slot", help="Tells apart several series about one thing, such as evening.")
@definition_options
@json_option
def add(
    *, tenant: str, user: str, kind: str, channel: str, destination: str, reference: str | None, slot: str | None, as_json: bool,
    **definition: Any,
) -> None:  # fmt: skip
    """Schedule a series, and its next occurrence.

    Turns before now are not made. Adding the same again changes nothing and shows the series as it stands.
    """
    settings = command_settings()
    given = read_definition(definition)
    for name in ("start", "zone"):
        if name not in given:
            raise click.UsageError(f"Missing option '--{name}'.")
    request = to_series_request(
        lambda name: registry.load(name, settings),
        tenant_id=tenant,
        user_id=user,
        kind=kind,
        channel=channel,
        destination=destination,
        reference=reference,
        slot=slot,
        **given,
    )
    with session(settings) as ledger, ledger.transaction() as connection:
        found, created = series_changing.schedule(connection, settings.schema, request)
    if as_json:
        print_json({**series_as_json(found), "created": created})
    else:
        print(f"{found.id} {'scheduled' if created else 'stands already'}: {found.status}, next {_next(found)}")


@series.command("list", short_help="List series.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--user", help="Only this user's.")
@click.option("--reference", help="Only about this.")
@click.option("--status", type=click.Choice(["active", "paused", "ended", "cancelled"]), help="Only in this state.")
@limit_option(100, "series")
@json_option
def list_series(
    *, tenant: str | None, user: str | None, reference: str | None, status: str | None, limit: int, as_json: bool
) -> None:
    """List series that match every filter given, in the order they were scheduled."""
    checked = read_filters({"tenant_id": tenant, "user_id": user, "reference": reference})
    filters = {name.removesuffix("_id"): text for name, text in checked.items()}
    with session() as ledger, ledger.statement_by_statement() as connection:
        found = list(each_series(connection, ledger.settings.schema, limit=limit, status=status, **filters))
    if as_json:
        for each in found:
            print_json(series_as_json(each))
        return
    print_table(
        ("id", "status", "next", "tenant", "user", "kind", "reference", "rule"),
        [(s.id, s.status, _next(s), s.tenant_id, s.user_id, s.kind, s.reference, s.rule) for s in found],
        spare=("kind", "user"),
    )


@series.command("show", short_help="Show a series: its rule, what comes next, and what its turns have become.")
@click.argument("series_id", metavar="ID")
@limit_option(10, "occurrences, and skips")
@json_option
def show_series(series_id: str, *, limit: int, as_json: bool) -> None:
    """Show a series: its rule, its next turns, the latest occurrences, and turns that were left out with their lateness.

    Neither the address it goes to nor its data are shown; the destination is named by its id.
    """
    wanted = read_id(series_id)
    with session() as ledger, ledger.transaction() as connection:
        schema = ledger.settings.schema
        found = get_series(partial(fetch, connection, schema), wanted)
        made = occurrences_of(connection, schema, wanted, limit)
        skipped = skips_of(connection, schema, wanted, limit)
    if as_json:
        print_json(
            {
                **series_as_json(found),
                "next": [each.at for each in _ahead(found)],
                "occurrences": [{name: getattr(each, name) for name in Made.__slots__} for each in made],
                "skips": [_skip_as_json(each) for each in skipped],
            }
        )
    else:
        _print(found, made, skipped)


def series_as_json(found: Series) -> dict[str, Any]:
    """The keys that all commands share. Times without an instant are ISO texts without an offset."""
    names = (
        "id", "tenant_id", "user_id", "kind", "channel", "destination_id", "reference", "slot", "status", "version", "zone",
        "follows_user", "rule", "catch_up", "max_lateness", "fault", "created_at",
    )  # fmt: skip
    return {
        **{name: getattr(found, name) for name in names},
        "start": found.start.isoformat(),
        "extra": [each.isoformat() for each in found.extra],
        "left_out": [each.isoformat() for each in found.left_out],
        "skipped": list(found.skipped),
        "next_at": found.plan_at,
    }


def _skip_as_json(skip: Skipped) -> dict[str, Any]:
    shown: dict[str, Any] = {name: getattr(skip, name) for name in Skipped.__slots__}
    return {**shown, "lateness": skip.lateness.total_seconds()}


def _ahead(found: Series) -> list[Any]:
    return list(next_turns(found, SHOWN_AHEAD)) if found.status == "active" and found.fault is None else []


def _next(found: Series) -> str | None:
    return None if found.plan_at is None else instant_for_people(found.plan_at, found.effective_zone)


def _print(found: Series, made: list[Made], skipped: list[Skipped]) -> None:
    print_fields(
        [
            ("id", found.id),
            ("status", found.status),
            ("cannot be planned", found.fault),
            ("rule", found.rule),
            ("start", f"{found.start} {found.zone}"),
            ("follows its user", found.follows_user or None),
            ("besides", _walls(found.extra)),
            ("left out", _walls(found.left_out)),
            ("skipped", ", ".join(found.skipped)),
            ("catches up", found.catch_up),
            ("late at most", found.max_lateness and f"{found.max_lateness:g} s"),
            ("tenant", found.tenant_id),
            ("user", found.user_id),
            ("kind", found.kind),
            ("reference", found.reference),
            ("slot", found.slot),
            ("channel", found.channel),
            ("destination", found.destination_id),
            ("version", found.version),
        ]
    )
    ahead = _ahead(found)
    if ahead:
        print("\nComes next")
        print_table(("turn", "at"), [(str(e.wall), instant_for_people(e.at, found.effective_zone)) for e in ahead])
    if made:
        print("\nLatest occurrences")
        rows = [(o.id, o.status, o.recurrence_id, instant_for_people(o.due_at, o.zone), o.moved) for o in made]
        print_table(("reminder", "status", "turn", "due", "moved"), rows)
    if skipped:
        print("\nNot made")
        print_table(
            ("turn", "turns", "why", "late by", "noted"),
            [(s.recurrence_id, s.count, s.reason.replace("_", " "), s.lateness, s.skipped_at) for s in skipped],
        )


def _walls(times: tuple[datetime, ...]) -> str:
    return ", ".join(map(str, times))


for _command in CHANGES:
    series.add_command(_command)

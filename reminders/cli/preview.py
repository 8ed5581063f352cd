"""`reminders preview`: the next instants of a series or of a rule, before anything is scheduled."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

import click

from reminders.calendar.recurrence import Occurrence
from reminders.calendar.zones import load_zone
from reminders.cli.printing import print_json, print_table
from reminders.cli.series_options import read_definition, when_options
from reminders.cli.session import session
from reminders.cli.values import json_option, read_due_at, read_id
from reminders.domain.request import checked_instant
from reminders.ledger.caller import fetch
from reminders.ledger.series_rows import get_series
from reminders.pipeline.series_request import checked_when


@click.command(short_help="Show when a series or a rule fires next, and at which local time.")
@click.argument("series_id", metavar="[ID]", required=False)
@when_options
@click.option(
    "--from", "since", metavar="INSTANT", help="Begin here instead of now; with Z or an offset, or as a wall time."
)
@click.option("--count", type=click.IntRange(1, 1000), default=10, show_default=True, help="At most so many.")
@json_option
def preview(series_id: str | None, *, since: str | None, count: int, as_json: bool, **definition: Any) -> None:
    """Show when a series, by its ID, or a rule, given by options, fires next.

    A rule needs no ledger. Turns that a series skips are left out; those that somebody has moved stand where the rule has
    them.
    """
    given = read_definition(definition)
    if (series_id is None) == (not given):
        raise click.UsageError("Give the ID of a series, or --start, --zone and --rule.")
    if series_id is not None:
        wanted = read_id(series_id)
        with session() as ledger, ledger.transaction() as connection:
            series = get_series(partial(fetch, connection, ledger.settings.schema), wanted)
        zone, turns = series.effective_zone, series.when().since
    else:
        for name in ("start", "zone"):
            if name not in given:
                raise click.UsageError(f"Missing option '--{name}'.")
        zone = given["zone"]
        recurrence = checked_when(
            given["start"], zone, given.get("rule"), given.get("extra", ()), given.get("left_out", ())
        )
        recurrence.check("rule" if given.get("rule") is not None else "start")
        turns = partial(recurrence.since, inclusive=True)
    found = list(islice(turns(_instant(since, zone)), count))
    if as_json:
        for each in found:
            print_json(_as_json(each, zone))
    elif found:
        rows = [(each.at, _local(each, zone), str(each.wall) if _shifted(each, zone) else None) for each in found]
        print_table(("instant", "local time", "the rule says"), rows)
    else:
        print("Nothing comes any more.")


def _instant(text: str | None, zone: str) -> datetime:
    if text is None:
        return datetime.now(UTC)
    found = read_due_at(text, "from")
    return checked_instant("from", found if found.tzinfo is not None else found.replace(tzinfo=load_zone(zone)))


def _local(turn: Occurrence, zone: str) -> str:
    local = turn.at.astimezone(load_zone(zone))
    offset = local.strftime("%z")
    return f"{local:%a %Y-%m-%d %H:%M:%S} {offset[:3]}:{offset[3:]} {zone}"


def _shifted(turn: Occurrence, zone: str) -> bool:
    """Whether the clocks skip the wall time that the rule gives."""
    return turn.at.astimezone(load_zone(zone)).replace(tzinfo=None) != turn.wall


def _as_json(turn: Occurrence, zone: str) -> dict[str, Any]:
    return {
        "at": turn.at,
        "local": turn.at.astimezone(load_zone(zone)).isoformat(),
        "wall": turn.wall.isoformat(),
        "recurrence_id": turn.recurrence_id,
        "zone": zone,
    }

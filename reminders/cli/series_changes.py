"""`reminders series`: edit, pause, resume, skip, move, cancel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import click

from reminders.calendar.instants import parse_instant
from reminders.cli.cancel import ANSWERS
from reminders.cli.printing import instant_for_people, print_json
from reminders.cli.schedule import print_scheduled
from reminders.cli.series_options import definition_options, read_definition
from reminders.cli.session import command_settings, session
from reminders.cli.values import json_option, read_due_at, read_id
from reminders.domain.request import checked_instant
from reminders.ledger import series_changing, series_turns
from reminders.ledger.series_rows import Series
from reminders.pipeline.schedule import resolve_instant
from reminders.providers import registry

_series_id = click.argument("series_id", metavar="ID")
_turn = click.argument("turn", metavar="TURN")


@click.command("edit", short_help="Change when a series fires, what it sends or where to.")
@_series_id
@click.option("--to", "destination", help="Where it is delivered from now on.")
@definition_options
@json_option
def edit(series_id: str, *, destination: str | None, as_json: bool, **definition: Any) -> None:
    """Change parts of a series; what is left out stays. Occurrences that are due later follow, what has come due does not.

    `none` takes a rule, all extra or all left-out times, or the lateness away. What somebody has moved keeps its time.
    """
    changes = read_definition(definition)
    if destination is not None:
        changes["destination"] = destination
    if not changes:
        raise click.UsageError("Say what to change.")
    settings, wanted = command_settings(), read_id(series_id)
    with session(settings) as ledger, ledger.transaction() as connection:
        found = series_changing.edit(
            connection, settings.schema, wanted, changes, lambda name: registry.load(name, settings)
        )
    _print(found, "changed", as_json=as_json)


def _simple(name: str, short_help: str, help_: str, call: Callable[..., Series], said: str) -> click.Command:
    """A command that changes a series as a whole."""

    @click.command(name, short_help=short_help, help=help_)
    @_series_id
    @json_option
    def command(series_id: str, *, as_json: bool) -> None:
        wanted = read_id(series_id)
        with session() as ledger, ledger.transaction() as connection:
            found = call(connection, ledger.settings.schema, wanted)
        _print(found, said, as_json=as_json)

    return command


pause = _simple(
    "pause",
    "Make nothing more of a series for now.",
    "Withdraw what is due later and make nothing more until `series resume`. What has come due is sent.",
    series_changing.pause,
    "paused",
)
resume = _simple(
    "resume",
    "Go on with a paused series.",
    "Go on with the first turn after now. Turns of the pause are recorded as skipped, and never sent.",
    series_changing.resume,
    "resumed",
)


@click.command("skip", short_help="Leave one turn out.")
@_series_id
@_turn
@click.option("--undo", is_flag=True, help="Take it back.")
@json_option
@click.pass_context
def skip(context: click.Context, series_id: str, turn: str, *, undo: bool, as_json: bool) -> None:
    """Leave out one turn: its wall time in the series' zone, such as 2026-05-04T09:00, or its instant.

    Exits like `reminders cancel`: 0 when nothing is sent for it, 3 when it may have been, 1 when it was.
    """
    wanted, which = read_id(series_id), parse_instant(turn, "turn")
    with session() as ledger, ledger.transaction() as connection:
        schema = ledger.settings.schema
        if undo:
            found = series_turns.restore(connection, schema, wanted, which)
        else:
            result = series_turns.skip(connection, schema, wanted, which)
    if undo:
        _print(found, "changed", as_json=as_json)
        return
    said, code = ANSWERS[result]
    if as_json:
        print_json({"id": wanted, "result": result})
    else:
        print(f"turn {turn} of {wanted} {said}")
    context.exit(code)


@click.command("move", short_help="Move one turn to another time.")
@_series_id
@_turn
@click.option(
    "--due-at", required=True, help="2026-05-01T09:30 with --zone, or with Z or +02:00; or +10s, +5m, +1h30m."
)
@click.option("--zone", help="IANA zone, such as Europe/Berlin; needed for a time without Z or offset.")
@json_option
def move(series_id: str, turn: str, *, due_at: str, zone: str | None, as_json: bool) -> None:
    """Move one turn, named as for `skip`, to another time; the series goes on as ever.

    Refused while it is being sent, when it may have been sent, and when it is delivered.
    """
    wanted, which = read_id(series_id), parse_instant(turn, "turn")
    due = checked_instant("due_at", resolve_instant("due_at", read_due_at(due_at), zone))
    with session() as ledger, ledger.transaction() as connection:
        moved = series_turns.move(connection, ledger.settings.schema, wanted, which, due_at=due)
    print_scheduled(moved, zone, "moved", as_json=as_json)


@click.command("cancel", short_help="End a series for good.")
@_series_id
@json_option
@click.pass_context
def cancel(context: click.Context, series_id: str, *, as_json: bool) -> None:
    """End a series for good, with every occurrence that is open. Exits 3 if one of them is under way or may have been sent."""
    wanted = read_id(series_id)
    with session() as ledger, ledger.transaction() as connection:
        answers = series_changing.cancel(connection, ledger.settings.schema, wanted)
    if as_json:
        occurrences = [{"id": each, "result": result} for each, result in answers.items()]
        print_json({"id": wanted, "status": "cancelled", "occurrences": occurrences})
    else:
        print(f"{wanted} cancelled; open occurrences: {len(answers)}")
        for result, number in Counter(answers.values()).items():
            print(f"{number} {ANSWERS[result][0]}")
    context.exit(max((ANSWERS[each][1] for each in answers.values() if each != "too_late"), default=0))


def _print(found: Series, said: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"id": found.id, "status": found.status, "version": found.version, "next_at": found.plan_at})
        return
    next_at = found.plan_at and instant_for_people(found.plan_at, found.effective_zone)
    print(f"{found.id} {said}: {found.status}{f', next {next_at}' if next_at else ''}")


CHANGES = (edit, pause, resume, skip, move, cancel)

"""`reminders drill`: rehearse the guarantees, on a throw-away installation or on a staging one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import click

from reminders.cli.doctor_synthetic import read_address
from reminders.cli.printing import print_json, print_table
from reminders.cli.session import session, signals_unwind
from reminders.cli.values import json_option
from reminders.domain.errors import Refused
from reminders.domain.request import checked_text
from reminders.operate.drills.catalogue import DRILLS, find
from reminders.operate.drills.drill import Drill, Record, Step
from reminders.operate.drills.here import check_safe, check_tenant, rehearse_here
from reminders.operate.drills.stack import rehearse, throwaway_servers

ALL = "all"
_WIDTH = 4


@dataclass(frozen=True, slots=True)
class _Staging:
    """What `--here` was given."""

    tenant: str
    listen: tuple[str, int]
    to: str | None
    among_others: bool
    confirmed: bool


@click.command(short_help="Rehearse the guarantees: kill, empty, freeze, and see them hold.")
@click.argument("names", metavar="[NAME...|all]", nargs=-1)
@click.option("--list", "listing", is_flag=True, help="Show the drills, and run none.")
@click.option("--here", is_flag=True, help="Run on this installation, with its workers: only drills that kill nothing.")
@click.option("--tenant", help="With --here: whose reminders the drill's are. Take one of its own.")
@click.option("--yes", is_flag=True, help="With --here: do not ask for the tenant's name again.")
@click.option("--among-others", is_flag=True, help="With --here: although the tenant has reminders that no drill made.")
@click.option(
    "--listen",
    default="127.0.0.1:0",
    show_default=True,
    metavar="HOST:PORT",
    help="With --here: where the drill's receiver listens.",
)
@click.option("--to", metavar="URL", help="With --here: the URL by which the workers reach it, if that is another.")
@json_option
@click.pass_context
def drill(
    context: click.Context,
    *,
    names: tuple[str, ...],
    listing: bool,
    here: bool,
    tenant: str | None,
    yes: bool,
    among_others: bool,
    listen: str,
    to: str | None,
    as_json: bool,
) -> None:
    """Break something on purpose, and check what the receiver and the ledger show; by default all drills in turn.

    Each drill says what it did and saw, which guarantee held (docs/guarantees.md), and `ok` or `BROKEN`. They bring a
    Postgres, a Redis and processes of their own, which end with the command; no setting of this shell reaches them.
    Exits 1 if a guarantee is broken.
    """
    if not here and (tenant or yes or among_others or to or listen != "127.0.0.1:0"):
        raise click.UsageError("--tenant, --yes, --among-others, --listen and --to go with --here.")
    chosen = _chosen(names, here=here)
    if listing:
        _print_list(chosen, as_json=as_json)
        return
    if here:
        if tenant is None:
            raise click.UsageError("--here needs --tenant.")
        staging = _Staging(checked_text("tenant_id", tenant), read_address(listen), to, among_others, yes)
        records = _run_here(chosen, staging, as_json=as_json)
    else:
        records = _run(chosen, as_json=as_json)
    if not as_json:
        _print_end(records)
    if any(record.broken for record in records):
        context.exit(1)


def _chosen(names: Sequence[str], *, here: bool) -> list[Drill]:
    if not names or ALL in names:
        return [each for each in DRILLS.values() if each.here is not None or not here]
    chosen = [find(name) for name in dict.fromkeys(names)]
    if here:
        for each in chosen:
            check_safe(each)
    return chosen


def _run(chosen: Sequence[Drill], *, as_json: bool) -> list[Record]:
    # After kill -9 of this command its processes end by themselves, and the next drill clears the rest away.
    with signals_unwind(), throwaway_servers() as servers:

        def run(record: Record) -> None:
            rehearse(record.drill, servers, record)

        return [_told(Record(each, each.settings), run, as_json=as_json) for each in chosen]


def _run_here(chosen: Sequence[Drill], staging: _Staging, *, as_json: bool) -> list[Record]:
    with signals_unwind(), session(broker=True) as ledger:
        if not staging.among_others:
            check_tenant(ledger.database, staging.tenant)
        _confirm(staging, len(chosen))

        def run(record: Record) -> None:
            rehearse_here(
                record.drill,
                ledger.settings,
                ledger.database,
                record,
                tenant=staging.tenant,
                listen=staging.listen,
                to=staging.to,
            )

        return [_told(Record(each, settings=None), run, as_json=as_json) for each in chosen]


def _confirm(staging: _Staging, number: int) -> None:
    if staging.confirmed:
        return
    drills = "a drill" if number == 1 else f"{number} drills"
    try:
        if sys.stdin is None:
            raise EOFError
        typed = click.prompt(f"Runs {drills} on this installation. Type the tenant's name to go on", err=True)
    except (click.Abort, EOFError) as end:
        if isinstance(end.__context__, KeyboardInterrupt):
            raise
        click.echo(err=True)  # ends the line of the question
        raise Refused(
            "Nobody is there to type the tenant's name; nothing was done\nAdd --yes to go on without being asked"
        ) from end
    if typed != staging.tenant:
        raise Refused(f"{typed!r} is not {staging.tenant!r}; nothing was done")


def _told(record: Record, run: Callable[[Record], None], *, as_json: bool) -> Record:
    """Run one drill, telling each step as it is taken; in JSON the whole once it has ended."""
    if as_json:
        run(record)
        print_json(_as_json(record))
        # Whoever reads it through a pipe need not wait for the other drills.
        sys.stdout.flush()
    else:
        record.on_step = _print_step
        click.echo(f"{record.drill.name}: {record.drill.about}")
        click.echo(f"{'':{_WIDTH}}{_settings(record.settings)}")
        run(record)
        verdict = "ok" if record.broken is None else f"BROKEN: {record.broken}"
        click.echo(f"{'':{_WIDTH}}{verdict}  ({record.seconds:.1f} s)")
    for name, words in record.logs.items():
        click.echo(f"--- last words of {name}\n{words.rstrip()}", err=True)
    return record


def _settings(shortened: Mapping[str, str] | None) -> str:
    if shortened is None:
        return "with this installation's settings"
    if not shortened:
        return "with the shipped settings"
    return "with the shipped settings, save " + ", ".join(f"{name}={value}" for name, value in shortened.items())


def _print_step(step: Step) -> None:
    click.echo(f"{'':{_WIDTH}}{step.guarantee or step.kind:<{_WIDTH}} {step.text}")


def _as_json(record: Record) -> dict[str, object]:
    return {
        "name": record.drill.name,
        "ok": record.broken is None,
        "broken": record.broken,
        "guarantees": list(record.drill.guarantees),
        "settings": None if record.settings is None else dict(record.settings),
        "seconds": round(record.seconds, 1),
        "steps": [{"kind": step.kind, "guarantee": step.guarantee, "text": step.text} for step in record.steps],
    }


def _print_end(records: Sequence[Record]) -> None:
    broken = [record.drill.name for record in records if record.broken is not None]
    seconds = sum(record.seconds for record in records)
    verdict = f"BROKEN: {', '.join(broken)}" if broken else "all guarantees held"
    click.echo(f"{len(records)} {'drill' if len(records) == 1 else 'drills'} in {seconds:.0f} s: {verdict}")


def _print_list(chosen: Sequence[Drill], *, as_json: bool) -> None:
    if not as_json:
        rows = [(each.name, " ".join(each.guarantees), each.here is not None, each.about) for each in chosen]
        print_table(("name", "guarantees", "here", "about"), rows)
        return
    for each in chosen:
        print_json(
            {
                "name": each.name,
                "about": each.about,
                "guarantees": list(each.guarantees),
                "here": each.here is not None,
                "settings": dict(each.settings),
            }
        )

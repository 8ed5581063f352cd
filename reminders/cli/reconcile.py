"""`reminders reconcile`: match a provider's settlement file to the orders, and tell what follows; show, audit, repair."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.input_file import DONE_WITH_REJECTS
from reminders.cli.reconcile_audit import print_audit
from reminders.cli.reconcile_file import check_file, keep_file, read_file
from reminders.cli.reconcile_report import print_files, print_report, print_runs
from reminders.cli.session import Session, session
from reminders.cli.values import json_option, limit_option, read_id
from reminders.domain.errors import Refused, SettingsError
from reminders.intake.settlement.auditing import audit
from reminders.intake.settlement.config import load_config
from reminders.intake.settlement.files import carry_out, open_workshop
from reminders.intake.settlement.reporting import Report, report, runs
from reminders.intake.settlement.running import AlreadyRunning, begin
from reminders.ledger.settlement_files import files
from reminders.settings import load


@dataclass(frozen=True, slots=True)
class Options:
    """Everything that was said."""

    file: str | None
    config: Path | None
    page: int | None
    no_reminders: bool
    dry_run: bool
    upload: bool
    missing: bool
    runs: bool
    files: bool
    show: str | None
    audit: bool
    repair: bool
    actor: str
    limit: int
    as_json: bool


@click.command("reconcile", short_help="Match a settlement file to the orders, and tell what follows.")
@click.argument("file", metavar="[FILE]", required=False)
@click.option(
    "--config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The configuration, TOML.  [default: REMINDERS_RECONCILE]",
)
@click.option("--page", metavar="N", type=click.IntRange(1), help="Take in this page of FILE alone, and decide.")
@click.option("--no-reminders", is_flag=True, help="Decide and record; tell nobody.")
@click.option("--dry-run", is_flag=True, help="Only read and check FILE, and sum it up. Nothing is written.")
@click.option("--upload", is_flag=True, help="Keep FILE in the ledger, for a task to work on; prints its id.")
@click.option("--missing", is_flag=True, help="Without a file: decide which payouts are overdue.")
@click.option("--runs", is_flag=True, help="List runs, newest first.")
@click.option("--files", is_flag=True, help="List the files that are kept in the ledger, newest first.")
@click.option("--show", metavar="RUN", help="Report of a run, by its id; `last` is the newest.")
@click.option("--audit", is_flag=True, help="Compare decisions, reminders and deliveries; name what is missing.")
@click.option("--repair", is_flag=True, help="With --audit: make what is missing.")
@click.option("--actor", help="Who; kept on record.  [default: you]")
@limit_option(20, "entries of each list")
@json_option
@click.pass_context
def reconcile(context: click.Context, /, *, actor: str | None, **said: object) -> None:
    """Match FILE, a payment provider's settlement file, to your orders, decide, and schedule what is to be told.

    Running it again repeats nothing: it recreates what is missing. A corrected file changes what it corrects. A malformed
    line is reported and passed over; a malformed file changes nothing. Broken off, it is simply run again.

    Exits with 3 if lines were rejected; --audit with 1 if it found something that is not repaired.
    """
    options = Options(actor=actor or whoever_this_is(), **said)  # type: ignore[arg-type] # click's own names and types
    _check_usage(context, options)
    if options.dry_run:
        assert options.file is not None
        rejected = check_file(
            options.file, load_config(config_path(options.config)), options.limit, as_json=options.as_json
        )
        sys.exit(DONE_WITH_REJECTS if rejected else 0)
    with session() as ledger:
        _act(ledger, options)


def config_path(given: Path | None) -> Path:
    """Of the configuration that is named, else of that of the settings. Raises `SettingsError` if there is none."""
    path = given or load().reconcile
    if path is None:
        raise SettingsError(
            "There is no configuration of reconciliation: give --config FILE, or set REMINDERS_RECONCILE\n"
            "docs/reconciliation.md shows one."
        )
    return path


def _check_usage(context: click.Context, o: Options) -> None:
    modes = {
        "FILE": o.file is not None, "--missing": o.missing, "--runs": o.runs, "--files": o.files, "--show": o.show is not None,
        "--audit": o.audit,
    }  # fmt: skip
    chosen = [name for name, is_so in modes.items() if is_so]
    if not chosen:
        context.fail(f"Say what to do: {', '.join(modes)}")
    if len(chosen) > 1:
        context.fail(f"{' and '.join(chosen)} do not go together")
    for option, is_so, needs in (
        ("--page", o.page is not None, ("FILE",)),
        ("--dry-run", o.dry_run, ("FILE",)),
        ("--upload", o.upload, ("FILE",)),
        ("--no-reminders", o.no_reminders, ("FILE", "--missing")),
        ("--repair", o.repair, ("--audit",)),
    ):
        if is_so and chosen[0] not in needs:
            context.fail(f"{option} goes with {' or '.join(needs)} only")
    if o.upload and (o.dry_run or o.page is not None or o.no_reminders):
        context.fail("--upload only keeps the file; the task that works on it takes the other options")
    if o.dry_run and (o.page is not None or o.no_reminders):
        context.fail("--dry-run reads the whole file and decides nothing")


def _act(ledger: Session, o: Options) -> None:
    if o.runs:
        print_runs(runs(ledger.database, limit=o.limit), as_json=o.as_json)
    elif o.files:
        print_files(files(ledger.database, o.limit), as_json=o.as_json)
    elif o.show is not None:
        _show(ledger, o)
    elif o.audit:
        _audit(ledger, o)
    elif o.missing:
        workshop = open_workshop(ledger.database, ledger.settings, config_path(o.config), _tell)
        run = begin(workshop, "missing", actor=o.actor, reminders=not o.no_reminders)
        _told(run if isinstance(run, AlreadyRunning) else carry_out(run), o)
    else:
        assert o.file is not None
        config = config_path(o.config)
        if o.upload:
            keep_file(ledger, o.file, load_config(config), actor=o.actor, as_json=o.as_json)
        else:
            _told(read_file(ledger, o.file, config, actor=o.actor, page=o.page, reminders=not o.no_reminders), o)


def _show(ledger: Session, o: Options) -> None:
    if o.show == "last":
        newest = runs(ledger.database, limit=1)
        if not newest:
            raise Refused("There is no run yet.")
        run_id = newest[0].run_id
    else:
        run_id = read_id(o.show or "", "--show")
    print_report(report(ledger.database, run_id, limit=o.limit), as_json=o.as_json)


def _audit(ledger: Session, o: Options) -> None:
    workshop = open_workshop(ledger.database, ledger.settings, config_path(o.config), _tell)
    found = audit(workshop, repair=o.repair, actor=o.actor, limit=o.limit)
    if isinstance(found, AlreadyRunning):
        _refuse(found)
    print_audit(found, repair=o.repair, as_json=o.as_json)
    if sum(found.counts.values()) > found.repaired:
        sys.exit(1)


def _told(outcome: Report | AlreadyRunning, o: Options) -> None:
    if isinstance(outcome, AlreadyRunning):
        _refuse(outcome)
    lists = {name: getattr(outcome, name)[: o.limit] for name in ("payouts", "unmatched", "rejects", "changes")}
    print_report(replace(outcome, **lists), as_json=o.as_json)
    if outcome.has_rejects:
        sys.exit(DONE_WITH_REJECTS)


def _refuse(other: AlreadyRunning) -> NoReturn:
    where = f"page {other.page} of {other.pages}" if other.step == "lines" else f"step {other.step}"
    raise Refused(
        f"Already running: run {other.run_id}, since {other.since:%Y-%m-%d %H:%M:%S} UTC, at {where}. Nothing was done.\n"
        f"If it has died, it can be taken over from {other.free_at:%H:%M:%S} UTC on: run the same command again."
    )


def _tell(line: str) -> None:
    click.echo(line, err=True)

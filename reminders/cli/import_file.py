"""`reminders import`: schedule a file of reminders, or those that a calendar asks for."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, BinaryIO

import click

from reminders.calendar.instants import parse_instant
from reminders.cli.import_calendar import CalendarOptions, calendar_options, import_calendar_file, suffix_says_calendar
from reminders.cli.input_file import DONE_WITH_REJECTS, fault_of, opened, rejects_path, size_of
from reminders.cli.printing import counted, for_people, print_json
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.errors import RemindersError
from reminders.domain.request import checked_instant
from reminders.intake import progress
from reminders.intake.checking import Checker, Overdue
from reminders.intake.columns import COLUMNS
from reminders.intake.csv_records import read_csv
from reminders.intake.ical.content_lines import looks_like_a_calendar
from reminders.intake.importing import Totals, run_import
from reminders.intake.jsonl_records import begins_as_json, read_jsonl
from reminders.intake.lines import Lines
from reminders.intake.patience import PATIENCE
from reminders.intake.records import Records
from reminders.intake.rejects_file import RejectsFile
from reminders.intake.writing import BatchWriter
from reminders.ledger.allowed_places import KeptAllowedPlaces
from reminders.ledger.background import BackgroundConnection

CALENDAR = "ics"
READERS: dict[str, Callable[[Lines], Records]] = {"csv": read_csv, "jsonl": read_jsonl}
_SUFFIXES = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


@click.command("import")
@click.argument("file", metavar="FILE")
@click.option(
    "--format",
    "form",
    type=click.Choice(sorted([*READERS, CALENDAR])),
    help="By default what FILE's name or its first character says.",
)
@click.option(
    "--overdue",
    type=click.Choice(["send", "skip", "reject"]),
    help="What to do with instants of more than 24 hours ago.  [default: reject; of calendars: skip]",
)
@click.option(
    "--rejects",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to list what was not taken, and why.  [default: FILE.rejects.jsonl]",
)
@calendar_options
@json_option
@click.option("--now", hidden=True, help="The present, for tests.")
def import_(
    *,
    file: str,
    form: str | None,
    overdue: Overdue | None,
    rejects: Path | None,
    as_json: bool,
    now: str | None,
    **calendar: Any,
) -> None:
    """Schedule the reminders in FILE, CSV or JSON Lines, or those that a calendar (iCalendar) asks for; - reads standard input.

    Running it again schedules nothing new, so an import that was broken off is simply run again. A calendar that has changed
    is imported again: only what has changed is written.

    Exits with 3 if some records were rejected. The rejects file has line, field and reason of each, and no copy of the
    record.
    """
    instant = datetime.now(UTC) if now is None else checked_instant("--now", parse_instant(now, "--now"))
    options = CalendarOptions(**calendar)
    with opened(file) as source:
        size = size_of(source)
        rejects_of = partial(rejects_path, file, rejects, is_pipe=size is None)
        if form == CALENDAR or (form is None and _is_calendar(file, source)):
            if import_calendar_file(
                source,
                file,
                options,
                overdue=overdue or "skip",
                now=instant,
                rejects=lambda: RejectsFile(rejects_of()),
                as_json=as_json,
            ):
                sys.exit(DONE_WITH_REJECTS)
            return
        options.refuse()
        lines = Lines(source, file)
        rejects_file = RejectsFile(rejects_of())
        records = READERS[_form(file, form, lines)](lines)
        with session() as found, progress.shown(size) as shown:
            checker = Checker(found.settings, overdue or "reject", instant, KeptAllowedPlaces(found.database).of)
            with closing(BackgroundConnection(found.database, patience=PATIENCE)) as background:
                writer = BatchWriter(background, checker.deduplicates, tell=shown.tell)
                totals, kept = run_import(checker.batches(records, lines), writer, rejects_file, shown)
    _print(totals, kept, as_json=as_json)
    if totals.rejected:
        sys.exit(DONE_WITH_REJECTS)


import_.epilog = f"Columns: {', '.join(COLUMNS)}."


def _is_calendar(file: str, source: BinaryIO) -> bool:
    if suffix_says_calendar(file):
        return True
    if Path(file).suffix.lower() in _SUFFIXES or not isinstance(source, BufferedReader):
        return False
    try:
        return looks_like_a_calendar(source.peek(64))
    except OSError as error:
        raise RemindersError(f"{file} cannot be read: {fault_of(error)}") from error


def _form(file: str, given: str | None, lines: Lines) -> str:
    """Raises `RemindersError` for an array, whatever is said of it."""
    json = begins_as_json(lines)
    return given or _SUFFIXES.get(Path(file).suffix.lower()) or ("jsonl" if json else "csv")


def _print(totals: Totals, kept: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json({**asdict(totals), "rejects_file": None if kept is None else str(kept)})
        return
    print(
        f"{counted(totals.read, 'record')} read: {totals.scheduled:,} scheduled, {totals.existing:,} existing, "
        f"{totals.rejected:,} rejected, {totals.skipped:,} skipped"
    )
    if kept is not None:
        print(for_people(f"Rejected lines and reasons: {kept}"))

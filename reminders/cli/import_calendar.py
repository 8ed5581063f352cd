"""`reminders import` for calendars: its options, and what it prints."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, time, timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

import click

from reminders.calendar.zones import load_zone
from reminders.cli.printing import counted, for_people, print_json
from reminders.cli.session import session
from reminders.cli.values import Decorated
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_text
from reminders.intake.checking import Overdue
from reminders.intake.rejects_file import RejectsFile
from reminders.ledger.allowed_places import KeptAllowedPlaces
from reminders.pipeline.schedule import to_request
from reminders.providers import registry

TEXTS = ("summary", "location", "description", "url")
LONGEST_HORIZON = timedelta(days=3660)
NOTES = 5
"""Lines without UID that are named; of more, their number."""
_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_REQUIRED = {"tenant": "--tenant", "user": "--user", "kind": "--kind", "channel": "--channel", "to": "--to"}
_OF_RECORDS = {*_REQUIRED, "zone", "data"}
"""What each record of another file says itself."""
_OPTIONS = (
    click.option("--tenant", help="Calendars: whose application the reminders are of."),
    click.option("--user", help="Calendars: who is to be reminded."),
    click.option("--kind", help="Calendars: what kind of reminder they are."),
    click.option("--channel", help="Calendars: how they are delivered."),
    click.option("--to", help="Calendars: where they are delivered."),
    click.option("--zone", help="Calendars: the zone of times that have none, and of whole days.  [default: X-WR-TIMEZONE]"),
    click.option("--all-day-at", default=None, help="Calendars: the local time at which a day without an alarm reminds.  [default: 09:00]"),
    click.option(
        "--without-alarm",
        type=click.Choice(["at-start", "skip"]),
        help="Calendars: what an event without an alarm asks for.  [default: at-start]",
    ),
    click.option("--horizon", help="Calendars: how far ahead events that recur are made reminders of.  [default: 400d]"),
    click.option(
        "--data", "texts", multiple=True, type=click.Choice(TEXTS), help="Calendars: what to keep of an event's texts; repeatable."
    ),
    click.option("--calendar", metavar="NAME", help="Calendars: which one it is.  [default: what it calls itself]"),
    click.option("--dry-run", is_flag=True, help="Calendars: write nothing, only say what would be done."),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class CalendarOptions:
    """The options that calendars alone have, as they were given."""

    tenant: str | None
    user: str | None
    kind: str | None
    channel: str | None
    to: str | None
    zone: str | None
    all_day_at: str | None
    without_alarm: str | None
    horizon: str | None
    texts: tuple[str, ...]
    calendar: str | None
    dry_run: bool

    def refuse(self) -> None:
        """Raise a usage error naming one that was given for a file that is no calendar."""
        for each in fields(self):
            if getattr(self, each.name):
                name = "data" if each.name == "texts" else each.name.replace("_", "-")
                of_records = (
                    "; in CSV and JSON Lines each record says it" if name in _OF_RECORDS else ", and FILE is none"
                )
                raise click.UsageError(f"--{name} is for calendars{of_records}")


def calendar_options(command: Decorated) -> Decorated:
    """Adds the options of `CalendarOptions` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def import_calendar_file(
    source: BinaryIO,
    name: str,
    options: CalendarOptions,
    *,
    overdue: Overdue,
    now: datetime,
    rejects: Callable[[], RejectsFile],
    as_json: bool,
) -> bool:
    """Import a calendar and print what it came to; whether anything was rejected."""
    # Half of what the command needs to start, and only calendars need it.
    from reminders.intake.ical.asking import Wishes
    from reminders.intake.ical.comparing import Owner
    from reminders.intake.ical.importing import import_calendar, read_calendar
    from reminders.intake.ical.writing import CalendarWriter

    owner = Owner(
        tenant_id=_needed(options, "tenant"),
        user_id=_needed(options, "user"),
        kind=_needed(options, "kind"),
        channel=_needed(options, "channel"),
        destination=_needed(options, "to"),
        name=_name(options.calendar),
        told=options.calendar is not None,
    )
    wishes = Wishes(
        now=now,
        until=_until(now, options.horizon),
        overdue=overdue,
        zone=_zone(options.zone),
        all_day_at=_all_day_at(options.all_day_at),
        at_start=options.without_alarm != "skip",
        texts=tuple(each.upper() for each in options.texts),
    )
    rejects_file = rejects()
    tree = read_calendar(source, name)
    with session() as found:
        provider = registry.load(owner.channel, found.settings)

        def writer(owner: Owner) -> CalendarWriter:
            return CalendarWriter(
                found.transaction,
                found.settings.schema,
                owner,
                deduplicates=provider.deduplicates,
                now=now,
                dry=options.dry_run,
            )

        asked, totals, kept = import_calendar(
            tree,
            wishes,
            owner,
            writer=writer,
            to_request=partial(to_request, lambda _: provider, KeptAllowedPlaces(found.database).of),
            rejects=rejects_file,
            dry=options.dry_run,
        )
    _tell_of_no_uid(asked.without_uid)
    if as_json:
        print_json({**asdict(totals), "rejects_file": None if kept is None else str(kept), "dry_run": options.dry_run})
    else:
        print(
            f"{counted(totals.events, 'event')} read: {counted(totals.scheduled, 'reminder')} scheduled, {totals.existing:,} existing, "
            f"{totals.moved:,} moved or changed, {totals.cancelled:,} cancelled, {totals.rejected:,} rejected, "
            f"{totals.skipped:,} skipped{' (dry run: nothing was written)' if options.dry_run else ''}"
        )
        if totals.requested:
            print(f"{totals.requested:,} could not be cancelled for sure: they are being sent or may have been")
        for reject in sorted(asked.rejects, key=lambda reject: reject.line) if options.dry_run else ():
            print(for_people(f"line {reject.line}: {reject.field + ' ' if reject.field else ''}{reject.reason}"))
        if kept is not None:
            print(for_people(f"Rejected lines and reasons: {kept}"))
    if totals.rejected and not asked.whole:
        click.echo("Part of the file cannot be read: no reminder was cancelled for being absent from it", err=True)
    return bool(totals.rejected)


def _tell_of_no_uid(lines: list[int]) -> None:
    if not lines:
        return
    named = ", ".join(map(str, lines[:NOTES])) + (" and others" if len(lines) > NOTES else "")
    click.echo(
        f"Without UID, line {named}: known again by its start and title only; moved or renamed it is another event",
        err=True,
    )


def _needed(options: CalendarOptions, name: str) -> str:
    value = getattr(options, name)
    if value is None:
        raise click.UsageError(f"A calendar needs {', '.join(_REQUIRED.values())}; {_REQUIRED[name]} is missing")
    field = {"tenant": "tenant_id", "user": "user_id", "to": "destination"}.get(name, name)
    return checked_text(field, value)


def _name(text: str | None) -> str:
    if text is not None and not text.isprintable():
        raise InvalidInput("calendar", "has characters that cannot be printed")
    return text or ""


def _until(now: datetime, horizon: str | None) -> datetime:
    try:
        return now + _horizon(horizon)
    except OverflowError:
        raise InvalidInput("horizon", "reaches beyond the last year there is") from None


def _horizon(text: str | None) -> timedelta:
    try:
        found = timedelta(seconds=parse_duration(text or "400d"))
    except (ValueError, OverflowError) as error:
        raise InvalidInput("horizon", str(error)) from None
    if found > LONGEST_HORIZON:
        raise InvalidInput("horizon", f"is longer than {LONGEST_HORIZON.days} days")
    return found


def _zone(name: str | None) -> str | None:
    if name is not None:
        load_zone(name)
    return name


def _all_day_at(text: str | None) -> time:
    given = text or "09:00"
    match = _TIME.fullmatch(given)
    if match is None:
        raise InvalidInput("all-day-at", f"{given[:40]!a} is no time of day; write 09:00")
    return time(int(match[1]), int(match[2]))


def suffix_says_calendar(file: str) -> bool:
    """Whether a file's name is a calendar's."""
    return Path(file).suffix.lower() in {".ics", ".ical", ".icalendar"}

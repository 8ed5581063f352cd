"""`reminders shadow`: what tenants in shadow would have been sent."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import click

from reminders.cli.audit import read_since
from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.input_file import DONE_WITH_REJECTS, opened
from reminders.cli.printing import for_people, print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option, read_id
from reminders.domain.comparison import Difference
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput, NotFound, Refused, RemindersError
from reminders.domain.request import checked_text
from reminders.domain.tenants import Decision
from reminders.intake.lines import Lines
from reminders.intake.previous import Previous, read_previous
from reminders.intake.shadow_report import TOLERANCE, ShadowReport
from reminders.intake.shadow_report import report as compare_all
from reminders.ledger.shadow_reading import ShadowRow, shadows
from reminders.ledger.shadow_release import Released
from reminders.ledger.shadow_release import release as let_go

MOST_TOLERANCE = 366 * 86_400.0
"""Seconds; two instants that are further apart are of different times by any measure."""

tenant_option = click.option("--tenant", "tenant_id", required=True, help="Whose.")
since_option = click.option(
    "--since", metavar="TIME", help="Only what was decided since: an instant, or an age such as 36h."
)


@click.group(short_help="What tenants in shadow would have been sent: list, report, release.")
def shadow() -> None:
    """What tenants in shadow would have been sent. `reminders tenant set TENANT --mode shadow` begins it."""


@shadow.command("list", short_help="List what would have been sent, newest first.")
@tenant_option
@since_option
@click.option("--decision", type=click.Choice(get_args(Decision)), help="Only what was decided so.")
@limit_option(100, "reminders")
@json_option
def list_shadows(tenant_id: str, *, since: str | None, decision: Decision | None, limit: int, as_json: bool) -> None:
    """List what was decided about a tenant's reminders in shadow: to send, or why not."""
    whose, start = checked_text("tenant_id", tenant_id), _since(since)
    with session() as ledger:
        found = shadows(ledger.database, whose, since=start, decision=decision, limit=limit)
    if as_json:
        for each in found:
            print_json(asdict(each))
    elif found:
        headings = ("reminder", "user", "kind", "channel", "reference", "at", "late", "decision", "why")
        print_table(headings, [_row(each) for each in found], spare=("user", "channel", "late"))
    else:
        print("Nothing was shadowed.")


@shadow.command("report", short_help="Compare it with the live path, or a previous system's file.")
@tenant_option
@since_option
@click.option("--file", metavar="FILE", help="What the previous system sent: CSV or JSON Lines; - is standard input.")
@click.option("--live", metavar="TENANT", help="Compare with the calls of this tenant.  [default: the same one]")
@click.option(
    "--tolerance",
    metavar="DURATION",
    default=f"{TOLERANCE:g}s",
    show_default=True,
    help="Instants so near are the same.",
)
@limit_option(20, "differences")
@json_option
@click.pass_context
def report_shadows(
    context: click.Context,
    /,
    tenant_id: str,
    *,
    since: str | None,
    file: str | None,
    live: str | None,
    tolerance: str,
    limit: int,
    as_json: bool,
) -> None:
    """Compare counts and instants of what would have been sent.

    Without --file, with what the live path has called in the same period. A file has columns reference or user_id, kind and
    channel if it knows them, and sent_at or due_at; others are passed over. Exits with 3 if some of its lines cannot be read.
    """
    if file is not None and live is not None:
        raise click.UsageError("Give --file or --live, not both.")
    whose, start = checked_text("tenant_id", tenant_id), _since(since)
    try:
        other = None if live is None else checked_text("tenant_id", live)
    except InvalidInput as error:
        raise InvalidInput("--live", error.reason) from None
    try:
        seconds = parse_duration(tolerance)
    except ValueError as error:
        raise InvalidInput("--tolerance", str(error)) from None
    if seconds > MOST_TOLERANCE:
        raise InvalidInput("--tolerance", "is at most 366d")
    previous = None if file is None else _read(file)
    with session() as ledger:
        found = compare_all(
            ledger.database, whose, since=start, previous=previous, live=other, tolerance=seconds, most=limit
        )
    if as_json:
        print_json(_report_fields(found, previous))
    else:
        _print_report(found, previous)
    if previous is not None and previous.rejects:
        context.exit(DONE_WITH_REJECTS)


@shadow.command("release", short_help="Send shadowed reminders after all, by name.")
@click.argument("ids", metavar="REMINDER...", nargs=-1, required=True)
@click.option("--reason", required=True, help="Why; kept on record.")
@click.option("--actor", help="Who; kept on record with this host.  [default: you]")
@json_option
@click.pass_context
def release(context: click.Context, /, ids: tuple[str, ...], *, reason: str, actor: str | None, as_json: bool) -> None:
    """Let shadowed reminders be sent: each is pending again, under a new version, and late by as much as it is.

    Their tenant must not be in shadow any more. Exits with 3 if some were refused, with 1 if all were.
    """
    wanted = list(dict.fromkeys(read_id(each) for each in ids))
    who = whoever_this_is() if actor is None else actor
    refused = 0
    with session() as ledger:
        for each in wanted:
            try:
                done = let_go(ledger.database, each, actor=who, reason=reason)
            except (NotFound, Refused) as error:
                refused += 1
                _tell_release({"id": each, "released": False, "error": str(error)}, as_json=as_json)
            else:
                _tell_release({"released": True, **_released(done)}, as_json=as_json)
    if refused:
        context.exit(1 if refused == len(wanted) else DONE_WITH_REJECTS)


def _released(done: Released) -> dict[str, Any]:
    return {"id": done.id, "delivery_key": done.delivery_key, "version": done.version}


def _tell_release(fields: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(fields)
    elif fields["released"]:
        print(for_people(f"released: {fields['id']}, version {fields['version']}"))
    else:
        print(for_people(f"not released: {fields['error']}"))


def _since(text: str | None) -> datetime | None:
    if text is None:
        return None
    found = read_since(text)
    return datetime.now(UTC) - found if isinstance(found, timedelta) else found


def _read(file: str) -> Previous:
    with opened(file) as source:
        try:
            return read_previous(Lines(source, file))
        except InvalidInput as error:
            # Of the file's columns: told with their own names, not with those of flags.
            raise RemindersError(str(error)) from error


def _report_fields(found: ShadowReport, previous: Previous | None) -> dict[str, Any]:
    told = {name: getattr(found, name) for name in ShadowReport.__slots__ if name != "comparison"}
    counts = {
        name: getattr(found.comparison, name)
        for name in ("here", "there", "matched", "differing", "missing_here", "missing_there")
    }
    rejected = 0 if previous is None else len(previous.rejects)
    return {**told, **counts, "rejected": rejected, "differences": [_difference(found, each) for each in found.comparison.differences]}  # fmt: skip


def _difference(found: ShadowReport, each: Difference) -> dict[str, Any]:
    named = dict(zip(found.compared_by, each.key, strict=True))
    return {"what": each.what, **named, "here": each.here, "there": each.there, "seconds": each.seconds}


def _print_report(found: ShadowReport, previous: Previous | None) -> None:
    result = found.comparison
    decided = ", ".join(f"{number:,} {decision}" for decision, number in sorted(found.decisions.items()))
    late = None
    if found.lateness_median is not None:
        late = f"{found.lateness_median:.1f} s in the middle, {found.lateness_most:.1f} s at most"
    print_fields(
        [
            ("tenant", found.tenant_id),
            ("against", found.against),
            ("from", found.since),
            ("to", found.until),
            ("decided", decided or "nothing"),
            ("late", late),
            (
                "compared by",
                f"{', '.join(found.compared_by) or 'nothing'}; {found.instant} within {found.tolerance:g} s",
            ),
        ]
    )
    print()
    headings = ("here", "there", "matched", "differing", "missing here", "missing there")
    counts = (result.here, result.there, result.matched, result.differing, result.missing_here, result.missing_there)
    print_table(headings, [[f"{each:,}" for each in counts]])
    if result.differences:
        print()
        columns = ("what", *found.compared_by, "here", "there", "seconds")
        print_table(columns, [list(_difference(found, each).values()) for each in result.differences])
    for reject in previous.rejects if previous is not None else ():
        print(for_people(f"line {reject.line}: {reject.field or 'the record'}: {reject.reason}"))


def _row(each: ShadowRow) -> tuple[object, ...]:
    late = f"{each.lateness:.1f} s"
    return (
        each.reminder_id, each.user_id, each.kind, each.channel, each.reference, each.decided_at, late, each.decision, each.why,
    )  # fmt: skip

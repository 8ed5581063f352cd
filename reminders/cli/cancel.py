"""`reminders cancel`: one by its id, or all that are about something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import click

from reminders.cli.printing import print_json
from reminders.cli.session import session
from reminders.cli.values import json_option, read_filters, read_id
from reminders.ledger import changing
from reminders.ledger.changing import CancelledMany, CancelResult

ANSWERS: dict[CancelResult, tuple[str, int]] = {
    "cancelled": ("cancelled: no attempt will be made", 0),
    "requested": ("requested: it is being sent right now; nothing will follow that attempt", 3),
    "maybe_sent": ("maybe sent: an earlier attempt's outcome is unknown; none will follow, and it is for review", 3),
    "too_late": ("too late: it is delivered", 1),
}
"""For each answer what is said, and the exit code."""
BATCH = 1000
"""Reminders cancelled, and so locked, in one transaction."""


@click.command(short_help="Cancel a reminder, or all that are about something.")
@click.argument("reminder_id", metavar="[ID]", required=False)
@click.option("--tenant", help="Without ID: whose reminders.")
@click.option("--reference", help="What they are about, such as the invoice that was paid.")
@click.option("--user", help="Who would be reminded.")
@click.option("--kind", help="Only of this kind.")
@click.option("--slot", help="Only in this slot; an empty text means those without one.")
@click.option("--channel", help="Only over this channel.")
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@json_option
@click.pass_context
def cancel(
    context: click.Context,
    /,
    reminder_id: str | None,
    *,
    dry_run: bool,
    as_json: bool,
    **filters: str | None,
) -> None:
    """Cancel the reminder ID; or, with --tenant and --reference or --user, all that match.

    Exits 0 when it is cancelled, 3 when that is only requested or it may have been sent already, 1 when it is delivered.
    Of several, one that is delivered already is no failure: 0, or 3 if any is only requested or may have been sent.
    """
    if reminder_id is None:
        context.exit(_cancel_all(_wanted(**filters), dry_run=dry_run, as_json=as_json))
    if dry_run or any(text is not None for text in filters.values()):
        raise click.UsageError("Give an ID, or filters; --dry-run goes with filters.")
    wanted = read_id(reminder_id)
    with session() as ledger, ledger.transaction() as connection:
        result = changing.cancel(connection, ledger.settings.schema, wanted)
    said, code = ANSWERS[result]
    if as_json:
        print_json({"id": wanted, "result": result})
    else:
        print(f"{wanted} {said}")
    context.exit(code)


def _wanted(
    *,
    tenant: str | None,
    reference: str | None,
    user: str | None,
    kind: str | None,
    slot: str | None,
    channel: str | None,
) -> dict[str, str | None]:
    if tenant is None or (reference is None and user is None):
        raise click.UsageError("Give an ID, or --tenant together with --reference or --user.")
    texts = {"tenant_id": tenant, "reference": reference, "user_id": user, "kind": kind, "channel": channel}
    return {**read_filters({**texts, "slot": slot or None}), "slot": slot}


def _cancel_all(wanted: Mapping[str, str | None], *, dry_run: bool, as_json: bool) -> int:
    """Batch after batch, each in a transaction of its own; the exit code."""
    counts: Counter[str] = Counter()
    with session() as ledger:
        more = True
        while more:
            with ledger.transaction() as connection:
                found = changing.cancel_where(
                    connection, ledger.settings.schema, wanted, at_most=BATCH, dry_run=dry_run
                )
            counts.update(found.counts)
            _print_each(found, dry_run=dry_run, as_json=as_json)
            more = found.more and not dry_run
    if not as_json:
        told = ", ".join(f"{number:,} {answer.replace('_', ' ')}" for answer, number in counts.items())
        print(f"dry run, nothing is changed: {told}" if dry_run else told)
    if found.more:
        click.echo(f"Only the first {BATCH:,} are shown; without --dry-run all are cancelled", err=True)
    return 3 if counts["requested"] or counts["maybe_sent"] else 0


def _print_each(found: CancelledMany, *, dry_run: bool, as_json: bool) -> None:
    for answer in ANSWERS:
        for each in getattr(found, answer):
            if as_json:
                print_json({"id": each, "result": answer, "dry_run": dry_run})
            else:
                print(f"{each} {answer.replace('_', ' ')}")

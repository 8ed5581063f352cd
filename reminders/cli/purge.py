"""`reminders purge`: what ended long ago goes; what it was is remembered, so that it is never sent anew."""

from __future__ import annotations

import click

from reminders.cli.printing import print_json
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.ledger.retention_policies import LONGEST
from reminders.operate.other_retention import OthersPurged, purge_others
from reminders.operate.retention import Purged, not_within_window, purge, rehearse
from reminders.operate.settlement_retention import SettlementsPurged, purge_settlements, rehearse_settlements
from reminders.settings import SHORTEST_RETENTION


@click.command("purge", short_help="Delete what ended long ago; its keys are kept.")
@click.option("--older-than", help="Ended longer ago than this; `30d`, `36h`.  [default: REMINDERS_RETENTION]")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--limit", type=click.IntRange(1), help="At most so many reminders; run again for the others.")
@json_option
def purge_(*, older_than: str | None, dry_run: bool, limit: int | None, as_json: bool) -> None:
    """Delete reminders that ended long ago, with their deliveries, attempts and dead letters.

    A run marks what has ended long enough ago, and deletes what an earlier run marked. The keys stay: scheduling a
    purged reminder again answers how it ended. What is live or has an open dead letter is never touched. It may be
    broken off at any time, and run beside everything else.

    Settlement files kept in the ledger go too; runs, lines and decisions of reconciliation after REMINDERS_RECONCILE_KEEP; and what
    people have said and done after REMINDERS_EVIDENCE_KEEP. A tenant may have it otherwise (`reminders retention`).
    """
    given = None if older_than is None else _age(older_than)
    with session() as ledger:
        age = ledger.settings.retention if given is None else given
        not_within_window("--older-than", age, ledger.settings)
        done = rehearse(ledger.database, age) if dry_run else purge(ledger.database, age, limit=limit)
        act = rehearse_settlements if dry_run else purge_settlements
        settled = act(ledger.database, files=age, others=ledger.settings.reconcile_keep)
        evidence = ledger.settings.evidence_keep
        others = purge_others(ledger.database, reminders=age, evidence=evidence, dry_run=dry_run)
    if as_json:
        print_json(
            {
                "purged": done.purged,
                "marked": done.marked,
                "complete": done.complete,
                "waiting": done.waiting,
                "dropped_months": done.months,
                "older_than_seconds": age,
                "dry_run": dry_run,
                "settlement_files": settled.files,
                "settlement_lines": settled.lines,
                "reconciliation_runs": settled.runs,
                "reconciliation_decisions": None if dry_run else settled.decisions,
                "others": others.gone,
            }
        )
    else:
        lines = [*_told(done, dry_run=dry_run), *_told_of_settlements(settled, dry_run=dry_run)]
        print("\n".join([*lines, *_told_of_others(others, dry_run=dry_run)]))


def _age(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except ValueError as error:
        raise InvalidInput("--older-than", str(error)) from None
    if seconds > LONGEST:
        raise InvalidInput("--older-than", "must be at most a hundred years")
    if seconds < SHORTEST_RETENTION:
        raise InvalidInput(
            "--older-than", f"must be at least a day; {text.strip()!r} is {seconds:g} s (write 90d for days)"
        )
    return seconds


def _told(done: Purged, *, dry_run: bool) -> list[str]:
    if dry_run:
        return [f"{done.purged:,} marked, for the next run to delete; {done.marked:,} would be marked"]
    lines = [f"{done.purged:,} purged; {done.marked:,} marked, for the next run to delete"]
    if done.waiting:
        lines.append("Some marks wait until transactions that are older than they have ended (`pg_stat_activity`).")
    if not done.complete:
        lines.append("There is more to look at: run it again.")
    if done.months:
        lines.append(f"Dropped {', '.join(done.months)}")
    return lines


def _told_of_settlements(done: SettlementsPurged, *, dry_run: bool) -> list[str]:
    if not (done.files or done.runs or done.lines):
        return []
    would = "would be " if dry_run else ""
    decisions = "" if dry_run else f" with {done.decisions:,} decisions"
    return [
        f"Of reconciliation {would}purged: {done.files:,} files, {done.runs:,} runs, {done.lines:,} lines{decisions}"
    ]


def _told_of_others(done: OthersPurged, *, dry_run: bool) -> list[str]:
    if not done.gone:
        return []
    counts = ", ".join(f"{number:,} {table.replace('_', ' ')}" for table, number in done.gone.items())
    return [f"Besides {'would be purged as things are' if dry_run else 'purged'}: {counts}"]

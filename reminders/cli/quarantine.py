"""`reminders quarantine`: make a ledger that was restored from a backup fit for workers."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from reminders.bootstrap import channels
from reminders.calendar.instants import instant_text, parse_instant
from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.pause import actor_option
from reminders.cli.printing import for_people, print_json, print_table
from reminders.cli.session import Session, session
from reminders.cli.values import json_option
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_instant
from reminders.ledger.quarantine_moves import VERDICTS
from reminders.ledger.quarantining import Counted, Quarantine, quarantines
from reminders.operate.quarantine import Quarantined, connected, rehearse
from reminders.operate.quarantine import quarantine as carry_out


@click.command(short_help="After a restore from a backup, before workers start: judge what may have been sent.")
@click.option(
    "--since",
    metavar="T",
    help="What the ledger was restored to: an instant with Z or an offset; rather early than late.",
)
@click.option("--reason", help="Why; kept on record.  [required, save with --dry-run]")
@actor_option
@click.option("--dry-run", is_flag=True, help="Only count; workers may run.")
@click.option(
    "--no-redrives", is_flag=True, help="Your word that no dead letter was redriven after T: they stay as they are."
)
@click.option("--without-redis", is_flag=True, help="Redis is gone: ask nobody there which workers live.")
@click.option("--list", "listed", is_flag=True, help="List the quarantines on record.")
@json_option
def quarantine(
    *,
    since: str | None,
    reason: str | None,
    actor: str | None,
    dry_run: bool,
    no_redrives: bool,
    without_redis: bool,
    listed: bool,
    as_json: bool,
) -> None:
    """Judge what the restored ledger takes for unsent, although it may have been sent after T.

    What may have been is repeated under the same key where its destination deduplicates and still remembers it, and is for
    review everywhere else. All versions move to a new epoch, so that no new key is one that was used before. Everything is
    paused meanwhile. It refuses while workers or scanners are connected; broken off, it goes on when it is said again.
    """
    if listed:
        _list(as_json=as_json)
        return
    if since is None:
        raise click.UsageError("Missing option '--since'.")
    if reason is None and not dry_run:
        raise click.UsageError("Missing option '--reason'.")
    restored_to = read_restored_to(since)
    with session(broker=not without_redis) as ledger:
        if dry_run:
            _tell_count(ledger, restored_to, letters=not no_redrives, broker=not without_redis, as_json=as_json)
            return
        done = carry_out(
            ledger.database,
            ledger.settings,
            restored_to,
            formats=channels(ledger.settings).formats,
            actor=whoever_this_is() if actor is None else actor,
            reason=reason or "",
            letters=not no_redrives,
            broker=not without_redis,
            tell=lambda line: print(line, file=sys.stderr),
        )
    if as_json:
        print_json(
            {**_fields(done.quarantine), "already": done.already, "faulty_series": done.faulty, "dry_run": False}
        )
    else:
        _tell(done)


def read_restored_to(text: str) -> datetime:
    """An instant with `Z` or an offset. Raises `InvalidInput`: an age would mean another instant each time it is said."""
    instant = parse_instant(text, "since")
    if instant.tzinfo is None:
        raise InvalidInput("since", "needs Z or an offset")
    return checked_instant("since", instant)


def _fields(found: Quarantine) -> dict[str, object]:
    return {
        "id": found.id,
        "since": found.since,
        "cutoff": found.cutoff,
        "started_at": found.started_at,
        "ended_at": found.ended_at,
        "epoch": found.base,
        "series_planned": found.planned,
        **found.counts,
        "actor": found.actor,
        "host": found.host,
        "reason": found.reason,
    }


def _tell(done: Quarantined) -> None:
    found = done.quarantine
    if done.already:
        print(f"Nothing to do: quarantined since {instant_text(found.since)} already, by {for_people(found.actor)}")
    _tell_counts(found.counts)
    print(f"{found.planned:,} series were planned; versions go on from {found.base:,}")
    for each in done.faulty:
        print(f"series {each} cannot be planned: once it can, look at its turns before they are due")
    if not done.already:
        print("Workers may start. `reminders dlq list --kind unknown` lists what is for review.")


def _tell_counts(counts: object) -> None:
    assert isinstance(counts, dict)
    print_table(["reminders", "what of them"], [[f"{counts[name]:,}", words] for name, words in VERDICTS.items()])


def _tell_count(ledger: Session, since: datetime, *, letters: bool, broker: bool, as_json: bool) -> None:
    found: Counted = rehearse(ledger.database, ledger.settings, since, letters=letters)
    against = connected(ledger.database, ledger.settings, broker=broker)
    if as_json:
        shown = {"since": since, "cutoff": found.at, "series_due": found.series_due, **found.counts}
        print_json({**shown, "connected": against, "dry_run": True})
        return
    _tell_counts(found.counts)
    print(f"{found.series_due:,} series have turns to plan, which would be judged as well")
    for line in against:
        print(for_people(f"It would be refused now: {line}"))


def _list(*, as_json: bool) -> None:
    with session() as ledger:
        found = quarantines(ledger.database)
    for each in found:
        if as_json:
            print_json(_fields(each))
    if not as_json:
        rows = [[each.since, each.ended_at or "unfinished", each.actor, each.reason] for each in found]
        print_table(["restored to", "ended", "by", "reason"], rows)

"""`reminders audit`: what the ledger can prove, and what breaks it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from reminders.calendar.instants import instant_text, parse_instant
from reminders.cli.printing import for_people, print_json
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_instant
from reminders.ledger.audit import Audit, AuditPolicy, Checked
from reminders.ledger.audit import audit as run_audit
from reminders.ledger.keyring import Keyring

LONGEST_AGE = timedelta(days=36_500)
"""Longer ones reach beyond the times that Python and Postgres can tell."""


@click.command(short_help="Check what the ledger can prove; lists violations.")
@click.option(
    "--since",
    metavar="TIME",
    help="Of what has ended, check only what was claimed, ended or opened since: an instant, or an age such as 36h or 7d.",
)
@click.option(
    "--series",
    "turns",
    is_flag=True,
    help="Also go through the rules of all series, and look for turns that are neither a reminder nor on record.",
)
@limit_option(20, "violations of each check")
@json_option
@click.pass_context
def audit(context: click.Context, *, since: str | None, turns: bool, limit: int, as_json: bool) -> None:
    """Check every invariant that the ledger can show, over one snapshot of it, while everything runs.

    Violations are listed with ids and what to do. Exits 1 if there is any. Run it with the settings of the workers.
    """
    start = None if since is None else read_since(since)
    with session() as ledger:
        s = ledger.settings
        keys = Keyring(s.keys).fingerprints
        policy = AuditPolicy(s.max_attempts, s.max_wait, s.dedup_window, s.in_flight_limit, keys)
        found = run_audit(ledger.database, policy, since=start, limit=limit, turns=turns)
    if as_json:
        print_json(audit_as_json(found))
    else:
        _print_for_people(found)
    if found.violations:
        context.exit(1)


def read_since(text: str, field: str = "since") -> datetime | timedelta:
    """An instant with `Z` or an offset, or an age with its unit. Raises `InvalidInput`."""
    if text[-1:] in {"s", "m", "h", "d"}:
        try:
            age = timedelta(seconds=parse_duration(text))
        except (ValueError, OverflowError):
            raise InvalidInput(field, f"{text[:40]!r} is no age; write 90m, 36h or 7d") from None
        if age > LONGEST_AGE:
            raise InvalidInput(field, f"is an age of at most {LONGEST_AGE.days:,}d")
        return age
    instant = parse_instant(text, field)
    if instant.tzinfo is None:
        raise InvalidInput(field, "needs Z or an offset")
    return checked_instant(field, instant)


def audit_as_json(found: Audit) -> dict[str, Any]:
    """`violations` counts all; the ones listed are at most `--limit` of each check."""
    return {
        "ok": not found.violations,
        "checked_at": found.at,
        "since": found.since,
        "violations": found.violations,
        "checks": [
            {
                "name": result.check.name,
                "scope": result.check.scope,
                "meaning": result.check.meaning,
                "remedy": result.check.remedy,
                "violations": result.count,
                "seconds": round(result.seconds, 3),
                "listed": [
                    {"reminder_id": each.reminder_id, "delivery_key": each.delivery_key, "detail": each.detail}
                    for each in result.shown
                ],
            }
            for result in found.results
        ],
    }


def _print_for_people(found: Audit) -> None:
    for result in found.results:
        if result.count:
            _print_violations(result)
    period = (
        "the whole ledger" if found.since is None else f"what is live, and the rest since {instant_text(found.since)}"
    )
    verdict = f"{found.violations:,} violations" if found.violations else "No violation"
    print(f"{verdict}: {len(found.results)} checks of {period}, at {instant_text(found.at)}")


def _print_violations(result: Checked) -> None:
    print(f"{result.check.name}: {result.count:,} {'violations' if result.count > 1 else 'violation'}")
    print(f"  Must hold: {result.check.meaning}")
    for each in result.shown:
        print(f"  {for_people(each.reminder_id)}  {for_people(each.delivery_key)}  {for_people(each.detail)}")
    if result.count > len(result.shown):
        print(f"  ... and {result.count - len(result.shown):,} more; --limit shows them")
    print(f"  To do: {result.check.remedy}\n")

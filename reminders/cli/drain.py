"""`reminders drain`: work off a backlog oldest first, at a rate that the ledger keeps. The command only watches."""

from __future__ import annotations

import sys
import threading
from datetime import UTC, datetime
from typing import Any

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.pause import actor_option, told_unknown
from reminders.cli.printing import for_people, print_json
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.pauses import PauseScope
from reminders.ledger.database import Database
from reminders.ledger.draining import Drain, begin_drain, drain_of_scope, drains, stop_drain
from reminders.ledger.pausing import read_scope
from reminders.ledger.review import read_rate
from reminders.ledger.scope_known import refuse_other_ids

LOOK_EVERY = 1.0
TELL_EVERY = 5
"""Looks between two lines."""


@click.command(short_help="Work off a backlog oldest first, at a set rate.")
@click.option("--tenant", help="What this tenant has due.")
@click.option("--destination", metavar="ID", help="What is due for this destination; its id, not its address.")
@click.option("--all", "everything", is_flag=True, help="Everything that is due.")
@click.option("--rate", metavar="N/s|N/m", help="Begin, or change the rate; without it the drain is only watched.")
@click.option("--stop", is_flag=True, help="Let nothing more of it go; what is left stays held.")
@click.option("--list", "listed", is_flag=True, help="List the drains that are under way.")
@click.option("--no-watch", is_flag=True, help="Return at once.")
@click.option("--reason", help="Why; kept on record.  [required with --rate and --stop]")
@actor_option
@json_option
def drain(
    *,
    tenant: str | None,
    destination: str | None,
    everything: bool,
    rate: str | None,
    stop: bool,
    listed: bool,
    no_watch: bool,
    reason: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """Work off what is due by now, oldest first, at a rate; what comes due later goes out as ever.

    The ledger keeps the rate: the command shows what is left, how late it is and when it will be done, and may be ended
    at any time without ending the drain. Said again, it changes the rate and takes in what has come due since. A stopped
    drain holds what is left until it is said again with --rate; `reminders resume ID` lets it go at once.
    """
    if listed:
        if stop or everything or any(given is not None for given in (tenant, destination, rate)):
            raise click.UsageError("--list goes with none of --tenant, --destination, --all, --rate and --stop.")
        _list(as_json=as_json)
        return
    if [tenant is not None, destination is not None, everything].count(True) != 1:
        raise click.UsageError("Give one of --tenant, --destination and --all.")
    if rate is not None and stop:
        raise click.UsageError("Give either --rate or --stop.")
    if (rate is not None or stop) and reason is None:
        raise click.UsageError("Missing option '--reason'.")
    scope = read_scope(tenant=tenant, destination=destination, everything=everything)
    per_second = None if rate is None else read_rate(rate)
    said: dict[str, Any] = {"actor": whoever_this_is() if actor is None else actor, "reason": reason}
    missing = None
    with session() as ledger:
        refuse_other_ids(ledger.database, scope)
        if stop:
            found = stop_drain(ledger.database, scope, **said)
        elif per_second is not None:
            found, _ = begin_drain(ledger.database, scope, rate=per_second, **said)
            missing = told_unknown(ledger.database, scope)
        else:
            found = drain_of_scope(ledger.database, scope)
        try:
            _tell(found, as_json=as_json, unknown=missing)
            if not (stop or no_watch):
                _watch(ledger.database, scope, found, as_json=as_json)
        except KeyboardInterrupt:
            raise KeyboardInterrupt("the drain goes on without this command; --stop stops it") from None


def _list(*, as_json: bool) -> None:
    with session() as ledger:
        found = drains(ledger.database)
    for each in found:
        _tell(each, as_json=as_json)
    if not found and not as_json:
        print("No drain is under way.")


def _watch(database: Database, scope: PauseScope, found: Drain, *, as_json: bool) -> None:
    """Look on until it is done or stopped. Nothing of the drain depends on it."""
    pause = threading.Event()
    looks = 0
    while found.drained_at is None and found.stopped_at is None and (found.left or found.going):
        pause.wait(LOOK_EVERY)
        looks += 1
        found = drain_of_scope(database, scope)
        if looks % TELL_EVERY == 0 and (found.left or found.going):
            _tell(found, as_json=as_json)
    if looks:
        _tell(found, as_json=as_json)


def _tell(found: Drain, *, as_json: bool, unknown: list[str] | None = None) -> None:
    if as_json:
        print_json(found.fields() | ({} if unknown is None else {"unknown": unknown}))
    else:
        print(for_people(f"{found.scope.words()}: {_words(found)}"))
    sys.stdout.flush()


def _words(found: Drain) -> str:
    now = datetime.now(UTC)
    late = f", the oldest {(now - found.oldest_since).total_seconds():,.0f} s late" if found.oldest_since else ""
    if found.drained_at is not None or not found.left:
        return f"the last {found.going:,} have their turns{late}" if found.going else "drained"
    left = f"{found.left:,} left" + (f", {found.going:,} more have their turns" if found.going else "") + late
    if found.stopped_at is not None:
        return f"stopped, {left}; they stay held until --rate is said again, or `reminders resume {found.id}`"
    eta = found.eta_seconds(now) or 0.0
    return f"{left}, done in about {eta:,.0f} s at {found.rate:g} a second" if found.rate else f"{left}, at once"


def drains_for_people(found: list[Drain]) -> list[tuple[str, object]]:
    """Fields for `reminders status`: a line for each, the name said once."""
    told = [f"{each.scope.words()}: {_words(each)}" for each in found]
    return [("draining" if number == 0 else "", line) for number, line in enumerate(told)]

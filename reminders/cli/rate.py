"""`reminders rate`: how much at once, and how many a second, a tenant, a channel or a destination is sent at most."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.pause import actor_option, told_unknown
from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.domain.pauses import PauseScope
from reminders.ledger.pausing import read_scope
from reminders.ledger.rates import Rate, rates, remove_rate, set_rate
from reminders.ledger.scope_known import refuse_other_ids

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

reason_option = click.option("--reason", required=True, help="Why; kept on record.")


def _scoped(command: Decorated) -> Decorated:
    for option in (
        click.option("--destination", metavar="ID", help="What goes to this destination; its id, not its address."),
        click.option("--channel", help="What goes over this channel, of all tenants together."),
        click.option("--tenant", help="What this tenant sends."),
    ):
        command = option(command)
    return command


@click.group(short_help="Caps of tenants, channels and destinations: set, list, remove.")
def rate() -> None:
    """Caps: how many a second, and how many calls at once, a tenant, a channel or a destination is sent at most.

    They hold across all workers. What has no turn waits in the ledger for it, uncounted, and is shown with its lateness.
    """


@rate.command("set", short_help="Cap a tenant, a channel or a destination.")
@_scoped
@click.option("--per-second", type=float, metavar="N", help="So many a second; 0.1 is one in ten seconds.")
@click.option(
    "--burst", type=int, metavar="B", help="So many together after a quiet time.  [default: one second's worth]"
)
@click.option("--concurrent", type=int, metavar="K", help="So many calls at once.")
@reason_option
@actor_option
@json_option
def set_(
    *,
    per_second: float | None,
    burst: int | None,
    concurrent: int | None,
    reason: str,
    actor: str | None,
    as_json: bool,
    **scope: Any,
) -> None:
    """Cap one tenant, one channel or one destination, instead of the cap that it had.

    What is covered by several caps keeps to all of them. Messages that are on their way already go out as they are.
    """
    wanted = _scope(scope)
    with session() as ledger:
        refuse_other_ids(ledger.database, wanted)
        made = set_rate(
            ledger.database,
            wanted,
            per_second=per_second,
            burst=burst,
            concurrent=concurrent,
            actor=whoever_this_is() if actor is None else actor,
            reason=reason,
        )
        missing = told_unknown(ledger.database, wanted)
    if as_json:
        print_json({**made.fields(), "unknown": missing})
    else:
        print(for_people(f"capped: {wanted.words()}, {_words(made)}"))


@rate.command("list", short_help="List caps, with what waits for each.")
@click.option("--removed", is_flag=True, help="Also those that were removed or replaced.")
@limit_option(100, "caps")
@json_option
def list_(*, removed: bool, limit: int, as_json: bool) -> None:
    """List the caps that are in force or still waited for, oldest first."""
    with session() as ledger:
        found = rates(ledger.database, removed=removed, limit=limit)
    if as_json:
        for each in found:
            print_json(each.fields())
    elif found:
        headings = ("id", "covers", "at most", "in flight", "waiting", "since", "by", "reason")
        print_table(headings, [_row(each) for each in found], spare=("by", "id"))
    else:
        print("Nothing is capped.")


@rate.command("remove", short_help="Remove a cap.")
@_scoped
@reason_option
@actor_option
@json_option
def remove(*, reason: str, actor: str | None, as_json: bool, **scope: Any) -> None:
    """Remove the cap of exactly this; what waits for it is sent as there is room."""
    wanted = _scope(scope)
    with session() as ledger:
        ended = remove_rate(ledger.database, wanted, actor=whoever_this_is() if actor is None else actor, reason=reason)
    if as_json:
        print_json(ended.fields())
    else:
        print(for_people(f"no longer capped: {wanted.words()}; {ended.waiting:,} that waited are sent now"))


def _scope(given: dict[str, Any]) -> PauseScope:
    if sum(value is not None for value in given.values()) != 1:
        raise click.UsageError("Give one of --tenant, --channel and --destination.")
    return read_scope(**given)


def _words(cap: Rate) -> str:
    parts = []
    if cap.per_second is not None:
        parts.append(f"{cap.per_second:g} a second after {cap.burst:,} together")
    if cap.concurrent is not None:
        parts.append(f"{counted(cap.concurrent, 'call')} at once")
    return ", ".join(parts)


def _row(cap: Rate) -> tuple[object, ...]:
    ended = "" if cap.removed_at is None else f" [removed by {cap.removed_by}: {cap.removed_reason}]"
    told = f"{cap.reason}{ended}"
    counts = (f"{cap.in_flight:,}", f"{cap.waiting:,}", cap.waiting_since)
    return (cap.id, cap.scope.words(), _words(cap), *counts, cap.actor, told)


def rates_for_people(found: list[Rate]) -> list[tuple[str, object]]:
    """Fields for `reminders status`: a line for each cap, the name said once."""
    told = [f"{each.scope.words()}: {_words(each)}; {each.waiting:,} wait for a turn" for each in found]
    return [("capped" if number == 0 else "", line) for number, line in enumerate(told)]

"""`reminders dlq redrive|discard|resolve`: what a person decides about dead letters."""

from __future__ import annotations

import getpass
import os
from collections.abc import Callable
from typing import Any, TypedDict

import click

from reminders.cli.dlq_filters import choosing_letters_or_all
from reminders.cli.printing import for_people, print_json
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.ledger.closing_letters import Answer, discard, redrive, resolve
from reminders.ledger.review import LetterFilter, read_rate

SHOWN = 20
"""Refusals that people are shown; `--json` lists as many as `--limit` allows."""


class Said(TypedDict):
    """Who decides, and why."""

    actor: str
    reason: str


def _deciding(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every decision has."""
    for option in (
        json_option,
        limit_option(1000, "reminders"),
        click.option("--dry-run", is_flag=True, help="Only count, and say what would stay and why."),
        click.option("--actor", help="Who; kept on record with this host.  [default: you]"),
        click.option("--reason", help="Why; kept on record.  [required, save with --dry-run]"),
    ):
        command = option(command)
    return choosing_letters_or_all(command)


@click.command("redrive", short_help="Send the reminders of dead letters again.")
@click.option("--checked", is_flag=True, help="A person made sure that those of unknown outcome were not sent.")
@click.option("--ignore-expiry", is_flag=True, help="Send also what has expired; it does not expire any more.")
@click.option("--rate", metavar="N/s|N/m", help="Spread them from now on; kept to without this command.")
@_deciding
@click.pass_context
def redrive_letters(
    context: click.Context,
    *,
    wanted: LetterFilter,
    checked: bool,
    ignore_expiry: bool,
    rate: str | None,
    reason: str | None,
    actor: str | None,
    dry_run: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Send the reminders of dead letters again, with the same key and a fresh number of attempts.

    ID is a letter's or a reminder's. Taken are open letters, and those resolved as not sent; with --ignore-expiry also
    reminders that expired (`--kind expired`: those alone). What may have been sent stays, unless --checked says that
    somebody made sure. What is cancelled or discarded stays. Exits 3 if any that was named or matched stays.
    """
    per_second = None if rate is None else read_rate(rate)
    said = _said(reason, actor, dry_run=dry_run)
    with session() as ledger:
        answer = redrive(
            ledger.database,
            wanted,
            **said,
            limit=limit,
            checked=checked,
            ignore_expiry=ignore_expiry,
            rate=per_second,
            dry_run=dry_run,
        )
    _tell(context, "redriven", answer, dry_run=dry_run, as_json=as_json, spread=per_second is not None)


@click.command("discard", short_help="Give the reminders of dead letters up for good.")
@_deciding
@click.pass_context
def discard_letters(
    context: click.Context,
    *,
    wanted: LetterFilter,
    reason: str | None,
    actor: str | None,
    dry_run: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Give up for good: the reminders stay dead, and no redrive takes them any more.

    ID is a letter's or a reminder's. Only `reminders reschedule` revives a discarded reminder, under a new key, and not
    if it may have been sent. Exits 3 if any that was named or matched stays.
    """
    said = _said(reason, actor, dry_run=dry_run)
    with session() as ledger:
        answer = discard(ledger.database, wanted, **said, limit=limit, dry_run=dry_run)
    _tell(context, "discarded", answer, dry_run=dry_run, as_json=as_json)


@click.command("resolve", short_help="Record whether reminders were delivered or not sent.")
@click.option("--delivered", metavar="REFERENCE", help="It arrived; what proves it. Ends the reminder as delivered.")
@click.option("--not-sent", is_flag=True, help="It was not sent. Ends the letter; a redrive sends it.")
@click.option("--note", help="What was found out; kept with the letter.")
@_deciding
@click.pass_context
def resolve_letters(
    context: click.Context,
    *,
    wanted: LetterFilter,
    delivered: str | None,
    not_sent: bool,
    note: str | None,
    reason: str | None,
    actor: str | None,
    dry_run: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Record what a person found out about open letters: delivered, or not sent.

    ID is a letter's or a reminder's. What somebody had asked to cancel, and was not sent, ends as cancelled. Exits 3 if
    any that was named or matched stays.
    """
    if (delivered is not None) == not_sent:
        raise click.UsageError("Say either --delivered REFERENCE or --not-sent.")
    said = _said(reason, actor, dry_run=dry_run)
    with session() as ledger:
        answer = resolve(
            ledger.database,
            wanted,
            "not_sent" if not_sent else "delivered",
            reference=delivered,
            note=note,
            **said,
            limit=limit,
            dry_run=dry_run,
        )
    _tell(context, "resolved", answer, dry_run=dry_run, as_json=as_json)


def _said(reason: str | None, actor: str | None, *, dry_run: bool) -> Said:
    if reason is None and not dry_run:
        raise click.UsageError("Missing option '--reason'.")
    return Said(reason=reason or "", actor=whoever_this_is() if actor is None else actor)


def _tell(
    context: click.Context, what: str, answer: Answer, *, dry_run: bool, as_json: bool, spread: bool = False
) -> None:
    if as_json:
        print_json(answer.fields(what, dry_run=dry_run))
    else:
        _print_for_people(what, answer, dry_run=dry_run, spread=spread)
    if answer.stay:
        context.exit(3)


def _print_for_people(what: str, answer: Answer, *, dry_run: bool, spread: bool) -> None:
    until = f", the last one due {for_people(answer.last_wake_at)}" if spread and answer.last_wake_at else ""
    print(f"{len(answer.done):,} {f'would be {what}' if dry_run else what}{until}; {answer.stay:,} stay as they are")
    if answer.confirmed_late:
        ended = "would end" if dry_run else "ended"
        print(f"{len(answer.confirmed_late):,} {ended} as delivered: an attempt had reported its success late")
    for each in answer.refused[:SHOWN]:
        print(for_people(f"  {each.id}  {each.reason}: {each.detail}"))
    if answer.stay > SHOWN:
        print(f"  ... and {answer.stay - SHOWN:,} more; --json lists them, up to --limit")


def whoever_this_is() -> str:
    """The name that an operator goes by on this host."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        # A container's user without a name.
        return f"user {os.getuid()}"

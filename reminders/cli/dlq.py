"""`reminders dlq`: the dead letters, for a person to look at and to send again."""

from __future__ import annotations

import getpass
import os
import socket
from typing import Any

import click

from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.show import attempts_as_json, print_attempts
from reminders.cli.values import json_option, limit_option, read_filters, read_id
from reminders.ledger.history import history
from reminders.ledger.redrive_rehearsal import would_redrive
from reminders.ledger.review import DeadLetter, LetterFilter, letter, letters, redrive

KINDS = click.Choice(["destination", "unknown", "pipeline"])
STATES = click.Choice(["open", "redriven", "discarded", "resolved", "all"])


@click.group(short_help="Dead letters: list, show, redrive.")
def dlq() -> None:
    """Dead letters: reminders that were given up, for a person to look at.

    Kinds: `destination`, the far side refuses or keeps failing; `unknown`, nobody can tell whether it was sent;
    `pipeline`, our own fault.
    """


@dlq.command("list", short_help="List dead letters, oldest first.")
@click.option("--state", type=STATES, default="open", show_default=True, help="Only in this state.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--kind", type=KINDS, help="Only of this kind.")
@click.option("--channel", help="Only of this channel.")
@limit_option(100, "letters")
@json_option
def list_letters(
    *, state: str, tenant: str | None, kind: str | None, channel: str | None, limit: int, as_json: bool
) -> None:
    """List dead letters, oldest first."""
    wanted = _filter((), tenant, kind, channel)
    with session() as ledger:
        found = letters(ledger.database, wanted, state=None if state == "all" else state, limit=limit)
    if as_json:
        for each in found:
            print_json(_as_json(each))
        return
    print_table(
        ("letter", "reminder", "opened", "kind", "state", "tenant", "channel", "attempts", "error"),
        [
            (
                each.id,
                each.reminder_id,
                each.opened_at,
                each.kind,
                each.state,
                each.tenant_id,
                each.channel,
                each.attempts,
                f"{each.error_class}: {each.reason}",
            )
            for each in found
        ],
    )


@dlq.command("show", short_help="Show one dead letter and the attempts before it.")
@click.argument("letter_id", metavar="ID")
@json_option
def show_letter(letter_id: str, *, as_json: bool) -> None:
    """Show one dead letter, by its id or its reminder's (then the latest), and all attempts at the reminder."""
    wanted = read_id(letter_id)
    with session() as ledger:
        found = letter(ledger.database, wanted)
        attempts = history(ledger.database, found.reminder_id).attempts
    if as_json:
        print_json({**_as_json(found), "attempts_made": attempts_as_json(attempts)})
        return
    print_fields([(name.replace("_", " "), value) for name, value in _as_json(found).items()])
    print()
    print_attempts(attempts)


@dlq.command("redrive", short_help="Send the reminders of dead letters again.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--tenant", help="Only this tenant's.")
@click.option("--kind", type=KINDS, help="Only of this kind.")
@click.option("--channel", help="Only of this channel.")
@click.option(
    "--all", "everything", is_flag=True, help="All open ones; needed where neither ids nor filters are given."
)
@click.option("--reason", help="Why; kept with the letter.  [required, save with --dry-run]")
@click.option("--actor", help="Who; kept with the letter.  [default: you on this host]")
@click.option("--checked", is_flag=True, help="A person made sure that those of unknown outcome were not sent.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@limit_option(1000, "letters")
@json_option
@click.pass_context
def redrive_letters(
    context: click.Context,
    ids: tuple[str, ...],
    *,
    tenant: str | None,
    kind: str | None,
    channel: str | None,
    everything: bool,
    reason: str | None,
    actor: str | None,
    checked: bool,
    dry_run: bool,
    limit: int,
    as_json: bool,
) -> None:
    """Send the reminders of open dead letters again, with the same key and a fresh number of attempts.

    ID is a letter's or a reminder's. Letters of unknown outcome stay, unless --checked says that somebody made sure;
    so do those that were cancelled or moved meanwhile. Exits 3 if any that matched stays.
    """
    if not (ids or tenant or kind or channel or everything):
        raise click.UsageError("Name letters, give a filter, or say --all.")
    if reason is None and not dry_run:
        raise click.UsageError("Missing option '--reason'.")
    wanted = _filter(ids, tenant, kind, channel)
    with session() as ledger:
        if dry_run:
            sent, stay = would_redrive(ledger.database, wanted, limit=limit, checked=checked)
        else:
            said = {"actor": actor or _whoever_this_is(), "reason": reason or ""}
            sent = redrive(ledger.database, wanted, **said, limit=limit, checked=checked)
            stay = len(letters(ledger.database, wanted, limit=limit))
    if as_json:
        print_json({"redriven": len(sent), "stay": stay, "dry_run": dry_run, "reminder_ids": sent})
    else:
        print(f"{len(sent):,} {'would be redriven' if dry_run else 'redriven'}; {stay:,} that match stay open")
    if stay:
        context.exit(3)


def _filter(ids: tuple[str, ...], tenant: str | None, kind: str | None, channel: str | None) -> LetterFilter:
    checked = read_filters({"tenant_id": tenant, "channel": channel})
    return LetterFilter(
        ids=[read_id(text) for text in ids], tenant=checked["tenant_id"], kind=kind, channel=checked["channel"]
    )


def _as_json(found: DeadLetter) -> dict[str, Any]:
    return {name: getattr(found, name) for name in DeadLetter.__slots__}


def _whoever_this_is() -> str:
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        # A container's user without a name.
        name = f"user {os.getuid()}"
    return f"{name}@{socket.gethostname()}"

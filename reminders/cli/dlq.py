"""`reminders dlq`: the dead letters, for a person to look at and to decide about."""

from __future__ import annotations

from typing import Any

import click

from reminders.cli.dlq_closing import discard_letters, redrive_letters, resolve_letters
from reminders.cli.dlq_filters import choosing_letters
from reminders.cli.printing import print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.show import attempts_as_json, print_attempts
from reminders.cli.timeline import timeline, why
from reminders.cli.values import json_option, limit_option, read_id
from reminders.ledger.closing_letters import Answer, redrive
from reminders.ledger.history import History, history
from reminders.ledger.review import DeadLetter, LetterFilter, letter, letters

STATES = click.Choice(["open", "redriven", "discarded", "resolved", "all"])


@click.group(short_help="Dead letters: list, show, redrive, discard, resolve.")
def dlq() -> None:
    """Dead letters: reminders that were given up, for a person to look at.

    Kinds: `destination`, the far side refuses or keeps failing; `unknown`, nobody can tell whether it was sent;
    `pipeline`, our own fault; `expired`, it had expired and was sent all the same.
    """


dlq.add_command(redrive_letters)
dlq.add_command(discard_letters)
dlq.add_command(resolve_letters)


@dlq.command("list", short_help="List dead letters, oldest first.")
@click.option("--state", type=STATES, default="open", show_default=True, help="Only in this state.")
@limit_option(100, "letters")
@json_option
@choosing_letters
def list_letters(*, wanted: LetterFilter, state: str, limit: int, as_json: bool) -> None:
    """List dead letters, oldest first. ID is a letter's or a reminder's."""
    with session() as ledger:
        found = letters(ledger.database, wanted, state=None if state == "all" else state, limit=limit + 1)
    shown = found[:limit]
    if as_json:
        for each in shown:
            print_json(_as_json(each))
    else:
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
                for each in shown
            ],
            spare=("channel", "attempts", "state", "opened"),
        )
    if len(found) > limit:
        click.echo(f"Only the first {limit:,} are shown; --limit shows more", err=True)


@dlq.command("show", short_help="Show one dead letter: why, what happened, and what can be done.")
@click.argument("letter_id", metavar="ID")
@json_option
def show_letter(letter_id: str, *, as_json: bool) -> None:
    """Show one dead letter, by its id or its reminder's (then the latest): why it is there, what happened to its
    reminder, every attempt with what was decided, and what a redrive would do.
    """
    wanted = read_id(letter_id)
    with session() as ledger:
        found = letter(ledger.database, wanted)
        told = history(ledger.database, found.reminder_id)
        rehearsed = redrive(ledger.database, LetterFilter(ids=[found.id]), dry_run=True)
    if as_json:
        print_json(_whole_as_json(found, told, rehearsed))
    else:
        _print_for_people(found, told, rehearsed)


def _as_json(found: DeadLetter) -> dict[str, Any]:
    return {name: getattr(found, name) for name in DeadLetter.__slots__}


def _whole_as_json(found: DeadLetter, told: History, rehearsed: Answer) -> dict[str, Any]:
    """A letter with all of its reminder's story. `redrive` is null where one would send it again, or why it would not."""
    return {
        **_as_json(found),
        "status": told.reminder.status,
        "expires_at": told.reminder.expires_at,
        "uncertain_since": told.standing.uncertain_since,
        "cancel_requested": told.reminder.cancel_requested,
        "why": _why(found, told),
        "redrive": _redrive_told(rehearsed),
        "attempts_made": attempts_as_json(told.attempts),
        "timeline": [{"at": event.at, "what": event.what, "detail": event.detail} for event in timeline(told)],
    }


def _print_for_people(found: DeadLetter, told: History, rehearsed: Answer) -> None:
    fields = _as_json(found)
    stays = _redrive_told(rehearsed)
    print_fields(
        [
            ("letter", fields.pop("id")),
            ("reminder", fields.pop("reminder_id")),
            ("status", told.reminder.status),
            ("why", _why(found, told)),
            ("redrive", "would send it again" if stays is None else f"{stays['reason']}: {stays['detail']}"),
            ("uncertain since", told.standing.uncertain_since),
            ("expires at", told.reminder.expires_at),
            ("checked", fields.pop("checked") or None),
            *((name.replace("_", " "), value) for name, value in fields.items()),
        ]
    )
    print("\nWhat happened")
    print_table(("at", "what", "detail"), [(event.at, event.what, event.detail) for event in timeline(told)])
    print()
    print_attempts(told.attempts)


def _redrive_told(rehearsed: Answer) -> dict[str, Any] | None:
    if rehearsed.done:
        return None
    if rehearsed.confirmed_late:
        return {"reason": "confirmed_late", "detail": "an attempt has reported its success late; it ends as delivered"}
    return {"reason": rehearsed.refused[0].reason, "detail": rehearsed.refused[0].detail}


def _why(found: DeadLetter, told: History) -> str:
    """One line: why the letter is there, or how it was closed, and how its reminder stands."""
    stands = why(told)
    if found.state == "open":
        return stands
    said = f"{found.state}{_resolution_told(found)} by {found.actor}"
    where = f" on {found.host}" if found.host else ""
    dead = told.reminder.status == "dead"
    return f"{said}{where}: {found.action_reason}" + (
        "" if dead else f"; the reminder is {told.reminder.status}: {stands}"
    )


def _resolution_told(found: DeadLetter) -> str:
    if found.resolution is None:
        return ""
    proof = f" ({found.resolution_reference})" if found.resolution_reference else ""
    return f" as {found.resolution.replace('_', ' ')}{proof}"

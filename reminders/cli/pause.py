"""`reminders pause` and `reminders resume`: stop sending, for everything or a part of it, and go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option, read_id
from reminders.domain.pauses import PauseScope
from reminders.ledger.database import Database
from reminders.ledger.pausing import Pause, active_of_scope, pauses, read_scope
from reminders.ledger.pausing import pause as hold
from reminders.ledger.pausing import resume as end
from reminders.ledger.review import read_rate
from reminders.ledger.scope_known import refuse_other_ids, unknown, words

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def _scoped(command: Decorated) -> Decorated:
    for option in (
        click.option("--all", "everything", is_flag=True, help="Everything."),
        click.option("--destination", metavar="ID", help="What goes to this destination; its id, not its address."),
        click.option("--kind", help="Reminders of this kind."),
        click.option("--channel", help="What goes over this channel."),
        click.option("--tenant", help="Reminders of this tenant."),
    ):
        command = option(command)
    return command


actor_option = click.option("--actor", help="Who; kept on record with this host.  [default: you]")


@click.group(invoke_without_command=True, short_help="Stop sending: all, a tenant, channel, kind or destination.")
@_scoped
@click.option("--reason", help="Why; kept on record.  [required]")
@actor_option
@json_option
@click.pass_context
def pause(context: click.Context, /, *, reason: str | None, actor: str | None, as_json: bool, **scope: Any) -> None:
    """Begin nothing any more of what fits everything that is named, until `reminders resume`.

    Returns once nothing it covers can be claimed any more; it says how many claims are open, whose calls end as they would.
    What comes due meanwhile is held: not lost, not late for anybody else, and it can still be cancelled and moved.
    Only what expires ends. Overlapping pauses hold until the last of them has ended.
    """
    if context.invoked_subcommand is not None:
        if reason is not None or _says_something(scope):
            raise click.UsageError(f"Give either what to pause, or {context.invoked_subcommand}.")
        return
    if reason is None:
        raise click.UsageError("Missing option '--reason'.")
    wanted = _scope(scope)
    with session() as ledger:
        refuse_other_ids(ledger.database, wanted)
        said = hold(ledger.database, wanted, actor=whoever_this_is() if actor is None else actor, reason=reason)
        missing = told_unknown(ledger.database, wanted)
    if as_json:
        ends = {"open_claims": said.open_claims, "claims_end_at": said.claims_end_at}
        print_json({**said.pause.fields(), "created": said.created, **ends, "unknown": missing})
        return
    began = "paused" if said.created else "already paused"
    print(for_people(f"{began}: {wanted.words()}; `reminders resume {said.pause.id}` ends it"))
    if said.open_claims:
        print(
            f"{counted(said.open_claims, 'open claim')}, the last until {for_people(said.claims_end_at)}; nothing new begins"
        )
    else:
        print("no claim is open, and none can be taken")


@pause.command("list", short_help="List pauses, with what each of them holds.")
@click.option("--ended", is_flag=True, help="Also those that have ended and hold nothing any more.")
@limit_option(100, "pauses")
@json_option
def list_pauses(*, ended: bool, limit: int, as_json: bool) -> None:
    """List pauses that are active or still hold something, oldest first."""
    with session() as ledger:
        found = pauses(ledger.database, ended=ended, limit=limit)
    if as_json:
        for each in found:
            print_json(each.fields())
    elif found:
        headings = ("id", "covers", "since", "by", "held", "state", "reason")
        print_table(headings, [_row(each) for each in found], spare=("by", "since"))
    else:
        print("Nothing is paused.")


@click.command(short_help="End pauses; what they hold is sent, at a rate.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@_scoped
@click.option("--rate", metavar="N/s|N/m", help="Let what was held go at this rate; kept to without this command.")
@click.option("--reason", help="Why; kept on record.")
@actor_option
@json_option
def resume(
    ids: tuple[str, ...], *, rate: str | None, reason: str | None, actor: str | None, as_json: bool, **scope: Any
) -> None:
    """End pauses, by ID or by exactly what they cover; `--all` is the pause of everything, not every pause.

    What they hold is let go by the scan, what was due first before the rest, unless another pause covers it. Said again
    by ID, it changes the rate of what is still held.
    """
    if bool(ids) == _says_something(scope):
        raise click.UsageError("Give either IDs (`reminders pause list`) or what the pause covers.")
    per_second = None if rate is None else read_rate(rate)
    with session() as ledger:
        wanted = [read_id(each) for each in ids] or active_of_scope(ledger.database, _scope(scope))
        who = whoever_this_is() if actor is None else actor
        ended = end(ledger.database, wanted, actor=who, reason=reason, rate=per_second)
    for each in ended:
        if as_json:
            print_json(each.fields())
        else:
            pace = "at once" if per_second is None else f"at {rate}"
            print(for_people(f"resumed: {each.scope.words()}; {each.held:,} held reminders go {pace}"))


def told_unknown(database: Database, scope: PauseScope) -> list[str]:
    """The parts of `scope` that the ledger does not know, after saying so on stderr."""
    if names := unknown(database, scope):
        click.echo(for_people(words(scope, names)), err=True)
    return names


def _scope(given: dict[str, Any]) -> PauseScope:
    if not _says_something(given):
        raise click.UsageError("Say what: --tenant, --channel, --kind, --destination, or --all.")
    return read_scope(**given)


def _says_something(given: dict[str, Any]) -> bool:
    return any(value is not None and value is not False for value in given.values())


def _row(pause: Pause) -> tuple[object, ...]:
    active = "tenant off" if pause.by_mode else "active"
    state = active if pause.ended_at is None else f"ended {for_people(pause.ended_at)} by {pause.ended_by}"
    return (pause.id, pause.scope.words(), pause.paused_at, pause.actor, f"{pause.held:,}", state, pause.reason)


def pauses_for_people(found: list[Pause]) -> list[tuple[str, object]]:
    """Fields for `reminders status`: a line for each, the name said once."""
    told = [
        f"{each.held:,} by {each.id} ({each.scope.words()}): {each.reason}{' [ending]' if each.ended_at is not None else ''}"
        for each in found
    ]
    return [("paused" if number == 0 else "", line) for number, line in enumerate(told)]

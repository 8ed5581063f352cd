"""`reminders suppress`: send nothing any more to a user or an address, of a kind or over a channel; list; import."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.input_file import DONE_WITH_REJECTS, opened, rejects_path, size_of
from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.cli.session import Session, session
from reminders.cli.values import json_option, limit_option, read_id
from reminders.domain.errors import InvalidInput, NotFound, RemindersError
from reminders.domain.request import checked_text
from reminders.domain.suppressions import Scope, read_scope
from reminders.intake.lines import Lines
from reminders.intake.rejects_file import RejectsFile
from reminders.intake.suppressions import COLUMNS, Defaults, import_suppressions
from reminders.ledger.claims_under_way import await_claims
from reminders.ledger.suppressing import (
    NewSuppression,
    Suppression,
    add,
    add_many,
    lift,
    live_under,
    new_suppression,
    other_spellings,
    suppressions,
)
from reminders.pipeline.consent import check_named
from reminders.providers import registry

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
OPERATOR = "operator"
actor_option = click.option("--actor", help="Who; kept on record.  [default: you]")


def _scoped(command: Decorated) -> Decorated:
    for option in (
        click.option("--kind", help="Of this kind only."),
        click.option("--channel", help="Over this channel only; needed with --to."),
        click.option("--destination-id", metavar="ID", help="What goes to this destination, by its id."),
        click.option(
            "--to", "destination", metavar="ADDRESS", help="What goes to this address; only its id is stored."
        ),
        click.option("--user", "user_id", help="What is for this user of the tenant."),
        click.option("--tenant", "tenant_id", help="Whose reminders."),
    ):
        command = option(command)
    return command


@click.group(short_help="Send nothing any more to a user or address: add, remove, list, import.")
def suppress() -> None:
    """Suppressions: who, or which address, is not to be sent anything any more, or nothing of a kind or channel.

    Every claim looks at them. What comes due while one stands ends as `suppressed`; nothing is swept.
    """


@suppress.command("add", short_help="Send nothing any more to a user or an address.")
@_scoped
@click.option("--reason", required=True, help="Why; kept as evidence. No personal data.")
@click.option("--source", default=OPERATOR, show_default=True, help="Where it came from: a link, a bounce, a case.")
@actor_option
@json_option
def add_suppression(*, reason: str, source: str, actor: str | None, as_json: bool, **named: str | None) -> None:
    """Suppress what is named. Saying it twice is one suppression; the first one's reason stays.

    Returns once no claim that began before can still commit; says how many reminders live under it, and how many of them
    have an open claim, whose calls end as they would.
    """
    scope = _scope(named)
    who = whoever_this_is() if actor is None else actor
    with session() as ledger:
        check_named(
            partial(registry.load, settings=ledger.settings),
            tenant_id=scope.tenant_id,
            channel=named["channel"],
            destination=named["destination"],
        )
        wanted = new_suppression(scope, reason=reason, source=source, actor=who)
        with ledger.transaction() as connection:
            said = add(connection, ledger.database.schema, wanted)
        # Crash here: it stands, and its list shows it. Said again, it is the same one.
        live = live_under(ledger.database, scope)
        others = _others(ledger, scope, named)
    if as_json:
        print_json(
            {"id": said.id, "created": said.created, **_scope_fields(scope), **asdict(live), "other_spellings": others}
        )
        return
    print(for_people(f"{'suppressed' if said.created else 'already suppressed'}: {scope.words()} ({said.id})"))
    print(f"{live.reminders:,} live reminders; they end as suppressed when they come due")
    if live.open_claims:
        print(f"{live.open_claims:,} have an open claim and may still be sent, until {for_people(live.claims_end_at)}")
    for other in others:
        print(f"not suppressed: destination {other}, the same but for upper and lower case; --destination-id names it")


@suppress.command("remove", short_help="Lift a suppression.")
@click.argument("suppression_id", metavar="[ID]", required=False)
@_scoped
@click.option("--reason", required=True, help="Why; kept as evidence. No personal data.")
@actor_option
@json_option
def remove_suppression(
    suppression_id: str | None, *, reason: str, actor: str | None, as_json: bool, **named: str | None
) -> None:
    """Lift a suppression, by ID or by exactly what it covers; it stays on record.

    What comes due from now on is sent. What has ended as suppressed stays so, unless it is rescheduled.
    """
    if (suppression_id is None) == (not any(named.values())):
        raise click.UsageError("Give either ID (`reminders suppress list`) or what the suppression covers.")
    which = _scope(named) if suppression_id is None else read_id(suppression_id)
    who = whoever_this_is() if actor is None else actor
    with session() as ledger, ledger.transaction() as connection:
        lifted = lift(connection, ledger.database.schema, which, actor=who, reason=reason)
    if lifted is None:
        meant = which.words() if isinstance(which, Scope) else which
        raise NotFound(f"no suppression of exactly this stands: {meant}")
    if as_json:
        print_json({"id": lifted, "lifted": True})
    else:
        print(f"lifted: {lifted}")


@suppress.command("list", short_help="List suppressions.")
@_scoped
@click.option("--lifted", is_flag=True, help="Also those that do not stand any more.")
@limit_option(100, "suppressions")
@json_option
def list_suppressions(*, lifted: bool, limit: int, as_json: bool, **named: str | None) -> None:
    """List suppressions that fit what is named, oldest first. A channel or kind also finds those of every one."""
    filters: dict[str, str | None] = {"tenant": named["tenant_id"], "kind": named["kind"]}
    if named["user_id"] or named["destination"] or named["destination_id"]:
        scope = _scope(named)
        filters |= {name: value or None for name, value in scope.values().items()}
    else:
        filters["channel"] = named["channel"]
    names = {"tenant": "tenant_id"}
    checked = {
        name: None if text is None else checked_text(names.get(name, name), text) for name, text in filters.items()
    }
    with session() as ledger:
        found = suppressions(ledger.database, lifted=lifted, limit=limit, **checked)
    if as_json:
        for each in found:
            print_json(asdict(each))
    elif found:
        headings = ("id", "tenant", "of", "channel", "kind", "since", "by", "source", "state", "reason")
        print_table(headings, [_row(each) for each in found], spare=("by", "source", "since"))
    else:
        print("Nothing is suppressed.")


@suppress.command("import", short_help="Add a file of suppressions, CSV.")
@click.argument("file", metavar="FILE")
@click.option("--tenant", "tenant_id", help="Of records without a tenant_id.")
@click.option("--reason", help="Of records without one.")
@click.option("--source", help="Of records without one.  [default: FILE's name]")
@actor_option
@click.option(
    "--rejects",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Where to list what was not taken, and why.  [default: FILE.rejects.jsonl]",
)
@json_option
def import_file(
    *,
    file: str,
    tenant_id: str | None,
    reason: str | None,
    source: str | None,
    actor: str | None,
    rejects: Path | None,
    as_json: bool,
) -> None:
    """Add the suppressions in FILE, CSV with a header line; - reads standard input.

    Each record names a user, a destination with its channel, or a destination_id. Running it again adds nothing new.
    Returns once no claim that began before can still commit. Exits with 3 if some records were rejected.
    """
    who = whoever_this_is() if actor is None else actor
    defaults = Defaults(tenant_id, reason, source or Path(file).name, who)
    with opened(file) as read, session() as ledger:
        rejects_file = RejectsFile(rejects_path(file, rejects, is_pipe=size_of(read) is None))
        try:
            providers = partial(registry.load, settings=ledger.settings)
            totals, kept = import_suppressions(
                Lines(read, file), defaults, partial(_add, ledger), rejects_file, providers
            )
        except InvalidInput as error:
            # Of the header line: told with the names that the file has, not with the flags.
            raise RemindersError(str(error)) from error
        await_claims(ledger.database, "What was imported")
    if as_json:
        print_json({**asdict(totals), "rejects_file": None if kept is None else str(kept)})
    else:
        counts = f"{totals.added:,} added, {totals.existing:,} existing, {totals.rejected:,} rejected"
        print(f"{counted(totals.read, 'record')} read: {counts}")
        if kept is not None:
            print(for_people(f"Rejected lines and reasons: {kept}"))
    if totals.rejected:
        sys.exit(DONE_WITH_REJECTS)


import_file.epilog = f"Columns: {', '.join(COLUMNS)}."


def _add(ledger: Session, wanted: list[NewSuppression]) -> int:
    with ledger.transaction() as connection:
        return add_many(connection, ledger.database.schema, wanted)


def _scope(named: dict[str, str | None]) -> Scope:
    if named["tenant_id"] is None:
        raise click.UsageError("Say whose: --tenant.")
    if sum(named[name] is not None for name in ("user_id", "destination", "destination_id")) != 1:
        raise click.UsageError("Give one of --user, --to (with --channel) and --destination-id.")
    return read_scope(**named)


def _others(ledger: Session, scope: Scope, named: dict[str, str | None]) -> list[UUID]:
    channel, address = named["channel"], named["destination"]
    return [] if channel is None or address is None else other_spellings(ledger.database, scope, channel, address)


def _scope_fields(scope: Scope) -> dict[str, Any]:
    return {**asdict(scope), "channel": scope.channel or None, "kind": scope.kind or None}


def _row(found: Suppression) -> tuple[object, ...]:
    of = f"user {found.user_id}" if found.user_id is not None else f"destination {found.destination_id}"
    state = "stands" if found.lifted_at is None else f"lifted {for_people(found.lifted_at)} by {found.lifted_by}"
    return (
        found.id,
        found.tenant_id,
        of,
        found.channel,
        found.kind,
        found.suppressed_at,
        found.actor,
        found.source,
        state,
        found.reason,
    )

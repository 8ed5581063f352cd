"""`reminders tenant set --mode` and `reminders tenant modes`: tenants off, in shadow or live; and whose they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from reminders.bootstrap import dispatcher_of
from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.domain.request import checked_text
from reminders.domain.tenants import MODES, Mode
from reminders.ledger.cohorts import checked_cohort
from reminders.ledger.review import read_rate
from reminders.ledger.tenant_moves import Moved, Wanted, set_mode
from reminders.ledger.tenant_standing import TenantStanding, standing

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def mode_options(command: Decorated) -> Decorated:
    """The options that belong to a change of mode."""
    for option in (
        click.option("--actor", help="Of --mode: who; kept on record with this host.  [default: you]"),
        click.option("--reason", help="Of --mode: why; kept on record.  [required with it]"),
        click.option(
            "--rate", metavar="N/s|N/m", help="Of --mode: let what was held while off go at this rate, each tenant's."
        ),
        click.option("--cohort", help="Of --mode: all tenants of this cohort, in one step."),
        click.option("--mode", type=click.Choice(MODES), help="Whether its reminders are sent."),
    ):
        command = option(command)
    return command


def change_mode(
    context: click.Context,
    tenant_id: str | None,
    *,
    mode: Mode,
    cohort: str | None,
    rate: str | None,
    reason: str | None,
    actor: str | None,
    as_json: bool,
) -> None:
    """What `reminders tenant set --mode` does. Raises `UsageError`, and what `set_mode` raises."""
    wanted = read_wanted(context, tenant_id, cohort)
    if reason is None:
        raise click.UsageError("Missing option '--reason'.", context)
    if rate is not None and mode == "off":
        raise click.UsageError("--rate is for what goes out again: give it with --mode live or shadow.", context)
    with session() as ledger:
        moved = set_mode(
            ledger.database,
            wanted,
            mode,
            actor=whoever_this_is() if actor is None else actor,
            reason=reason,
            rate=None if rate is None else read_rate(rate),
            dispatcher=dispatcher_of(ledger.settings),
        )
    if as_json:
        print_json({"mode": mode, **moved.fields()})
        return
    already = "" if moved.changed else "already "
    print(for_people(f"{already}{mode}: {wanted.words()}{_number(wanted, moved)}"))
    if mode != "live":
        tell_open_claims(moved)


def read_wanted(context: click.Context, tenant_id: str | None, cohort: str | None) -> Wanted:
    """One tenant or one cohort, whichever is named. Raises `UsageError` and `InvalidInput`."""
    if (tenant_id is None) == (cohort is None):
        raise click.UsageError("Name either a TENANT or a --cohort.", context)
    if cohort is not None:
        return Wanted(cohort=checked_cohort(cohort))
    return Wanted(tenant=checked_text("tenant_id", tenant_id))


def tell_open_claims(moved: Moved) -> None:
    """Say what may still go out."""
    if moved.open_claims:
        until = for_people(moved.claims_end_at)
        print(f"{counted(moved.open_claims, 'open claim')}, the last until {until}; nothing new begins")
    else:
        print("no claim is open, and none can be taken")


def standing_fields(stands: TenantStanding) -> dict[str, Any]:
    """Where a tenant stands, as JSON shows it."""
    return {name: getattr(stands, name) for name in TenantStanding.__slots__}


def standing_for_people(stands: TenantStanding) -> list[tuple[str, object]]:
    """The same, as fields."""
    handed_over = f" (handed over {stands.epoch} times)" if stands.epoch else ""
    said = None if stands.changed_at is None else f"{for_people(stands.changed_at)} by {stands.actor}: {stands.reason}"
    return [
        ("mode", stands.mode),
        ("dispatcher", f"{stands.dispatcher}{handed_over}"),
        ("cohorts", ", ".join(stands.cohorts)),
        ("since", said),
    ]


@click.command("modes", short_help="List tenants with mode, dispatcher and cohorts.")
@limit_option(100, "tenants")
@json_option
def modes(*, limit: int, as_json: bool) -> None:
    """List the tenants that the ledger has met: mode, dispatcher, cohorts, and who changed that last, and why."""
    with session() as ledger:
        found = standing(ledger.database, tenant=None, limit=limit)
    if as_json:
        for each in found:
            print_json(standing_fields(each))
        return
    headings = ("tenant", "mode", "dispatcher", "cohorts", "since", "by", "why")
    print_table(headings, [_row(each) for each in found], spare=("by", "since"))


def _row(each: TenantStanding) -> tuple[object, ...]:
    who = (each.changed_at, each.actor, each.reason)
    return (each.tenant_id, each.mode, each.dispatcher, ", ".join(each.cohorts) or None, *who)


def _number(wanted: Wanted, moved: Moved) -> str:
    return (
        ""
        if wanted.tenant is not None
        else f" ({counted(len(moved.tenants), 'tenant')}, {len(moved.changed):,} changed)"
    )

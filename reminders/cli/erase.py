"""`reminders erase`: what is known of a user goes; the proof of what was sent stays."""

from __future__ import annotations

from dataclasses import asdict

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import counted, for_people, print_json
from reminders.cli.session import session
from reminders.cli.values import json_option
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput
from reminders.operate.erasure import PATIENCE, Erased, erase, rehearse


@click.command("erase", short_help="Erase a user; the proof of what was sent stays.")
@click.option("--tenant", required=True, help="Whose user it is.")
@click.option("--user", required=True, help="The user's id.")
@click.option(
    "--to",
    "addresses",
    multiple=True,
    metavar="ADDRESS",
    help="An address of the user's that the ledger may not know any more; repeatable.",
)
@click.option("--channel", help="Of which channel these addresses are.  [default: any]")
@click.option("--reason", help="Why; kept on record. Needed, save with --dry-run.")
@click.option("--actor", help="Who; kept on record with this host.  [default: you]")
@click.option("--wait", help=f"How long to wait for attempts that are under way; `0s`, `2m`.  [default: {PATIENCE:g}s]")
@click.option("--dry-run", is_flag=True, help="Only count what bears the user's id.")
@json_option
def erase_(
    *,
    tenant: str,
    user: str,
    addresses: tuple[str, ...],
    channel: str | None,
    reason: str | None,
    actor: str | None,
    wait: str | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Remove what is personal of a user, or put a token in its place, everywhere in the ledger.

    Live reminders are cancelled first. Delivery keys, times, outcomes and providers' references stay; suppressions and
    refusals stay in force. Addresses are known by the user's reminders and series that are there; name those of purged ones
    with --to. What is scheduled again of before is known, and not sent; new reminders are. It may be broken
    off at any time, and is completed by saying it again. Backups, logs of others and files on disk are not ours to erase.
    """
    if channel is not None and not addresses:
        raise click.UsageError("--channel says of which channel the addresses of --to are.")
    if dry_run:
        if addresses:
            raise click.UsageError("--dry-run counts what bears the user's id: not with --to.")
        with session() as ledger:
            counts = rehearse(ledger.database, tenant, user)
        if as_json:
            print_json({"dry_run": True, "found": counts})
        else:
            print("\n".join(_lines(counts) or ["Nothing bears this user's id."]))
        return
    if reason is None:
        raise click.UsageError("Missing option '--reason'.")
    patience = PATIENCE if wait is None else _seconds(wait)
    with session() as ledger:
        who = whoever_this_is() if actor is None else actor
        done = erase(
            ledger.database,
            tenant,
            user,
            actor=who,
            reason=reason,
            addresses=addresses,
            channel=channel,
            patience=patience,
        )
    if as_json:
        print_json(asdict(done))
    else:
        _tell(done)
    if not done.complete:
        click.get_current_context().exit(3)


def _tell(done: Erased) -> None:
    if done.complete:
        print("\n".join(_lines(done.touched) or ["Nothing was left to erase."]))
        print(for_people(f"Erased. What stays bears {done.user_token}"))
        return
    if done.being_sent:
        until = "" if done.claims_end_at is None else f", the last until {done.claims_end_at:%Y-%m-%d %H:%M:%S} UTC"
        print(f"Being sent: {counted(done.being_sent, 'reminder')} of the user{until}; no attempt follows")
    if done.files_in_use:
        print(
            f"{done.files_in_use:,} settlement files that name the user are still being read (`reminders reconcile --files`)"
        )
    print("Not erased yet: say it again then.")


def _lines(counts: dict[str, int]) -> list[str]:
    return [f"{number:>9,}  {name.replace('_', ' ')}" for name, number in counts.items() if number]


def _seconds(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidInput("--wait", str(error)) from None

"""`reminders notice`: what a person should be told once, and that somebody has seen it."""

from __future__ import annotations

import click

from reminders.cli.dlq_closing import whoever_this_is
from reminders.cli.printing import counted, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option, read_id
from reminders.domain.request import checked_text
from reminders.ledger.notices import Notice, notices, see
from reminders.ledger.review import checked_words


@click.group(short_help="What a person should be told once: list, seen.")
def notice() -> None:
    """What a person should be told once: a destination was disabled, since it is gone or keeps failing, or its breaker has
    opened; a tenant's channel is held, since our credentials were refused there; there are new dead letters; beat is silent;
    a settlement file was refused.
    """


@notice.command("list", short_help="List notices that nobody has seen yet.")
@click.option("--tenant", help="Only this tenant's.")
@click.option("--seen", is_flag=True, help="Also those that were seen.")
@limit_option(100, "notices")
@json_option
def list_notices(*, tenant: str | None, seen: bool, limit: int, as_json: bool) -> None:
    """List notices, newest first. `reminders destination show ID` tells more of a destination, `reminders dlq list` of dead letters.

    What comes again before somebody has seen it adds to its notice: so many times, since the first.
    """
    whose = None if tenant is None else checked_text("tenant_id", tenant)
    with session() as ledger:
        found = notices(ledger.database, tenant=whose, seen=seen, limit=limit)
    if as_json:
        for each in found:
            print_json({name: getattr(each, name) for name in Notice.__slots__})
    else:
        headings = ("id", "what", "tenant", "channel", "destination", "times", "since", "seen at", "why")
        print_table(headings, [_row(each) for each in found], spare=("seen at", "channel", "since", "times"))


@notice.command("seen", short_help="Say that notices were seen.")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All that are open.")
@click.option("--tenant", help="All of this tenant's that are open.")
@click.option("--actor", help="Who; kept on record with this host.  [default: you]")
@json_option
def seen_notices(
    ids: tuple[str, ...], *, everything: bool, tenant: str | None, actor: str | None, as_json: bool
) -> None:
    """Say that somebody has seen notices: they are no longer counted. Nothing else follows.

    `reminders destination enable` does it for its destination.
    """
    if [bool(ids), everything, tenant is not None].count(True) != 1:
        raise click.UsageError("Give IDs, --tenant or --all.")
    whose = None if tenant is None else checked_text("tenant_id", tenant)
    who = checked_words("actor", whoever_this_is() if actor is None else actor)
    wanted = [read_id(each) for each in ids] or None
    with session() as ledger:
        closed = see(ledger.database, ids=wanted, tenant=whose, actor=who)
    if as_json:
        print_json({"seen": closed})
    else:
        print(f"{counted(closed, 'notice')} seen")


def _row(each: Notice) -> list[object]:
    what = each.kind.replace("_", " ")
    return [
        each.id,
        what,
        each.tenant_id,
        each.channel,
        each.destination_id,
        each.times,
        each.noticed_at,
        each.seen_at,
        each.reason,
    ]

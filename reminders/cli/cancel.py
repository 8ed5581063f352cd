"""`reminders cancel`."""

from __future__ import annotations

import click

from reminders.cli.printing import print_json
from reminders.cli.session import session
from reminders.cli.values import json_option, read_id
from reminders.ledger import changing
from reminders.ledger.changing import CancelResult

ANSWERS: dict[CancelResult, tuple[str, int]] = {
    "cancelled": ("cancelled: no attempt will be made", 0),
    "requested": ("requested: it is being sent right now; nothing will follow that attempt", 3),
    "maybe_sent": ("maybe sent: an earlier attempt's outcome is unknown; none will follow, and it is for review", 3),
    "too_late": ("too late: it is delivered", 1),
}
"""For each answer what is said, and the exit code."""


@click.command(short_help="Cancel a reminder.")
@click.argument("reminder_id", metavar="ID")
@json_option
@click.pass_context
def cancel(context: click.Context, reminder_id: str, *, as_json: bool) -> None:
    """Cancel a reminder.

    Exits 0 when it is cancelled, 3 when that is only requested or it may have been sent already, 1 when it is delivered.
    """
    wanted = read_id(reminder_id)
    with session() as ledger, ledger.transaction() as connection:
        result = changing.cancel(connection, ledger.settings.schema, wanted)
    said, code = ANSWERS[result]
    if as_json:
        print_json({"id": wanted, "result": result})
    else:
        print(f"{wanted} {said}")
    context.exit(code)

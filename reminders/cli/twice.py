"""`reminders twice`: did anyone get two? What the record of attempts proves, and what it does not."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from reminders.cli.audit import read_since
from reminders.cli.printing import counted, for_people, print_json, print_table
from reminders.cli.session import Session, session
from reminders.cli.values import json_option, limit_option, read_id
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_text
from reminders.domain.sending_proof import SENT_WORDS, SentVerdict
from reminders.ledger.reading import get
from reminders.ledger.sendings import Sending, Sent, Window, sent_again, sent_of, sent_to

DEFAULT_WINDOW = timedelta(hours=24)
_PROVES = "The ledger proves what was called, not what a receiver did: ask it how often it applied the key."


@click.command(short_help="Did anyone get two? What the record of attempts proves.")
@click.argument("reminder_id", metavar="[ID]", required=False)
@click.option("--tenant", help="Of this tenant alone.")
@click.option("--user", help="All that this user of the tenant was sent, also once.")
@click.option(
    "--since", metavar="TIME", help="An instant, or an age such as 90m or 7d.  [default: 24h; all with --user]"
)
@click.option("--until", metavar="TIME", help="The same; up to then.")
@limit_option(50, "reminders")
@json_option
def twice(
    *, reminder_id: str | None, tenant: str | None, user: str | None, since: str | None, until: str | None, limit: int,
    as_json: bool,
) -> None:  # fmt: skip
    """Say of one reminder, of a user, or of a window of time whether anybody can have got the same twice.

    A window lists the reminders that were called for more than once where an earlier call can have arrived. Whoever gets two
    in spite of "once" was sent two reminders: `--user` lists them all. Exits 1 if something was sent twice, perhaps or surely.
    """
    wanted = None if reminder_id is None else read_id(reminder_id)
    if wanted is not None and not (tenant is user is since is until is None):
        raise click.UsageError("Give either an ID, or --tenant, --user, --since, --until.")
    if user is not None and tenant is None:
        raise click.UsageError("--user needs --tenant.")
    whose = None if tenant is None else checked_text("tenant_id", tenant)
    who = None if user is None else checked_text("user_id", user)
    start, end = _instant(since, "since"), _instant(until, "until")
    window = None
    with session() as ledger:
        if wanted is not None:
            found = _one(ledger, wanted)
        elif whose is not None and who is not None:
            found = sent_to(ledger.database, whose, who, since=start, until=end)
        else:
            last = end or datetime.now(UTC)
            first = start or last - DEFAULT_WINDOW
            if first > last:
                raise InvalidInput("since", "lies after --until")
            window, found = sent_again(ledger.database, since=first, until=last, tenant=whose)
    if as_json:
        print_json(_as_json(found, window, limit))
    else:
        _print_for_people(found, window, limit)
    if any(each.verdict in {"twice", "maybe_twice"} for each in found):
        click.get_current_context().exit(1)


def sending_as_json(sending: Sending) -> dict[str, Any]:
    """What is on record of one key."""
    calls = sending.calls
    return {
        "delivery_key": sending.delivery_key,
        "verdict": sending.verdict,
        "status": sending.status,
        "calls": sending.attempts,
        "confirmed": calls.confirmed,
        "unknown": calls.unknown,
        "under_way": calls.under_way,
        "deduplicates": calls.deduplicates,
        "first_at": sending.first_at,
        "last_at": sending.last_at,
        "confirmed_at": sending.confirmed_at,
        "body_sha256": sending.body_sha256,
        "provider_reference": sending.provider_reference,
        "by": sending.by,
    }


def _instant(text: str | None, field: str) -> datetime | None:
    if text is None:
        return None
    found = read_since(text, field)
    return datetime.now(UTC) - found if isinstance(found, timedelta) else found


def _one(ledger: Session, wanted: Any) -> list[Sent]:
    with ledger.transaction() as connection:
        get(connection, ledger.settings.schema, wanted)
    found = sent_of(ledger.database, wanted)
    return [] if found is None else [found]


def _verdicts(found: list[Sent]) -> dict[SentVerdict, int]:
    counts = Counter(each.verdict for each in found)
    return {verdict: counts[verdict] for verdict in SENT_WORDS if counts[verdict]}


def _as_json(found: list[Sent], window: Window | None, limit: int) -> dict[str, Any]:
    told: dict[str, Any] = {}
    if window is not None:
        told = {name: getattr(window, name) for name in Window.__slots__}
    return {
        **told,
        "verdicts": _verdicts(found),
        "reminders": [
            {
                **{name: getattr(each, name) for name in Sent.__slots__ if name != "sendings"},
                "verdict": each.verdict,
                "sendings": [sending_as_json(key) for key in each.sendings],
            }
            for each in found[:limit]
        ],
        "more": len(found) > limit,
    }


def _print_for_people(found: list[Sent], window: Window | None, limit: int) -> None:
    if window is not None:
        part = "" if window.complete else "; there were too many before, so ask again with --until that time"
        print(
            f"{counted(window.attempts, 'attempt')} at {counted(window.keys, 'key')} from {for_people(window.since)} to {for_people(window.until)}{part}"
        )
    if not found:
        print(
            "Nothing was called for again after a call that can have arrived." if window else "No attempt is on record."
        )
        return
    print_table(
        ("reminder", "tenant", "user", "kind", "reference", "calls", "confirmed", "unknown", "verdict"),
        [_row(each) for each in found[:limit]],
        spare=("kind", "calls"),
    )
    print()
    print_table(("verdict", "reminders", "means"), [(v, f"{n:,}", SENT_WORDS[v]) for v, n in _verdicts(found).items()])
    print(_PROVES)
    if len(found) > limit:
        click.echo(f"Only the first {limit:,} are shown; --limit shows more", err=True)


def _row(each: Sent) -> tuple[object, ...]:
    keys = each.sendings
    return (
        each.reminder_id, each.tenant_id, each.user_id, each.kind, each.reference, sum(key.attempts for key in keys),
        sum(key.calls.confirmed for key in keys), sum(key.calls.unknown for key in keys), each.verdict,
    )  # fmt: skip

"""`reminders late`: what is due and not sent, why, whom it concerns, whose doing it is, and whether it grows."""

from __future__ import annotations

from typing import Any

import click

from reminders.cli.printing import counted, print_fields, print_json, print_table
from reminders.cli.session import session
from reminders.cli.values import json_option, limit_option
from reminders.domain.late_reasons import LATE_REASONS, Verdict
from reminders.domain.request import checked_text
from reminders.ledger.overdue import Late, LateGroup, LateUser
from reminders.ledger.overdue import late as look

VERDICTS: tuple[Verdict, ...] = ("us", "them", "wanted")
STEADY = 0.05
"""The part of what was late by which it may differ now without being told as growing or shrinking."""


@click.command(short_help="What is late, why, who is affected, whose doing it is, and whether it grows.")
@click.option("--tenant", help="Of this tenant alone.")
@click.option("--users", "by_user", is_flag=True, help="List the users it concerns, instead of the reasons.")
@limit_option(20, "groups, or users; the largest first")
@json_option
def late(*, tenant: str | None, by_user: bool, limit: int, as_json: bool) -> None:
    """Show what is past its due time and has not ended: how many reminders, of how many users, for how long, and why.

    "whose" is `us` (this installation), `them` (the destination) or `wanted` (somebody has asked for it: a pause, a cap, a
    drain, quiet hours). "new" counts what has come due within the time of the trend. What is counted is bounded: where
    more is late than is looked at, "at least" says so. What was given up is not late any more: `reminders dlq list`.
    """
    whose = None if tenant is None else checked_text("tenant_id", tenant)
    with session() as ledger:
        s = ledger.settings
        found = look(
            ledger.database, dispatcher=s.dispatcher, scan_every=s.scan_every, lease=s.lease, tenant=whose,
            by_user=by_user, shown=limit + 1,
        )  # fmt: skip
    if as_json:
        print_json(_as_json(found, limit))
    else:
        _print_for_people(found, limit)


def age_in_words(seconds: float) -> str:
    """`45 s`, `12 min`, `3.4 h`, `2.1 d`."""
    for size, unit in ((86400.0, "d"), (3600.0, "h")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds / 60:,.0f} min" if seconds >= 120 else f"{seconds:,.0f} s"


def trend(found: Late) -> str:
    """`growing`, `shrinking` or `steady`."""
    grown, before = found.came - found.went, found.before if found.before is not None else found.reminders
    if abs(grown) <= max(1.0, STEADY * before):
        return "steady"
    return "growing" if grown > 0 else "shrinking"


def by_verdict(found: Late) -> dict[Verdict, int]:
    """How many are late by whose doing."""
    counts = dict.fromkeys(VERDICTS, 0)
    for why, number in found.reasons.items():
        counts[LATE_REASONS[why].verdict] += number
    return counts


def _as_json(found: Late, limit: int) -> dict[str, Any]:
    listed: dict[str, Any] = {"groups": [_group_as_json(each) for each in found.groups[:limit]]}
    if found.listed_users:
        listed = {"listed_users": [_user_as_json(each) for each in found.listed_users[:limit]]}
    return {
        "at": found.at,
        "at_least": found.at_least,
        "late": found.reminders,
        "users": found.users,
        "oldest_age_seconds": round(found.oldest_age, 3),
        "whose": by_verdict(found),
        "reasons": found.reasons,
        "dead_letters_open": found.letters,
        "trend": {
            "is": trend(found), "seconds": round(found.window, 3), "before": found.before, "came": found.came, "went": found.went,
        },
        **listed,
        "more": len(found.groups) > limit or len(found.listed_users) > limit,
    }  # fmt: skip


def _group_as_json(group: LateGroup) -> dict[str, Any]:
    fields = {name: getattr(group, name) for name in LateGroup.__slots__ if name != "oldest_age"}
    whose = LATE_REASONS[group.why].verdict
    return {**fields, "oldest_age_seconds": round(group.oldest_age, 3), "whose": whose, "to_do": _step(group)}


def _step(group: LateGroup) -> str:
    return LATE_REASONS[group.why].step(
        tenant=group.tenant_id, reminder=group.oldest, destination=group.destination_id, hold=group.hold_id
    )


def _user_as_json(user: LateUser) -> dict[str, Any]:
    fields = {name: getattr(user, name) for name in LateUser.__slots__ if name != "oldest_age"}
    return {**fields, "oldest_age_seconds": round(user.oldest_age, 3)}


def _print_for_people(found: Late, limit: int) -> None:
    least = "at least " if found.at_least else ""
    if not found.reminders:
        print_fields([("late", "nothing"), ("trend", _trend_told(found) if found.went else None), *_given_up(found)])
        return
    longest = f", the oldest {age_in_words(found.oldest_age)}"
    print_fields(
        [
            ("late", f"{least}{counted(found.reminders, 'reminder')} of {counted(found.users, 'user')}{longest}"),
            ("whose doing", ", ".join(f"{name} {number:,}" for name, number in by_verdict(found).items())),
            ("trend", _trend_told(found)),
            *_given_up(found),
        ]
    )
    print()
    if found.listed_users:
        print_table(
            ("late", "oldest", "tenant", "user", "oldest reminder", "why"),
            [_user_row(each) for each in found.listed_users[:limit]],
        )
    else:
        headings = ("late", "users", "new", "oldest", "whose", "tenant", "channel", "why")
        print_table(headings, [_group_row(each) for each in found.groups[:limit]], spare=("channel", "new"))
        print()
        steps = dict.fromkeys((LATE_REASONS[each.why].words, _step(each)) for each in found.groups[:limit])
        print_table(("why", "next"), list(steps))
    if len(found.groups) > limit or len(found.listed_users) > limit:
        click.echo(f"Only the first {limit:,} are shown; --limit shows more", err=True)


def _given_up(found: Late) -> list[tuple[str, object]]:
    letters = counted(found.letters, "open dead letter")
    return [("given up", f"{letters}: `reminders dlq list`")] if found.letters else []


def _trend_told(found: Late) -> str:
    span = age_in_words(found.window)
    before = f"{found.before:,} were late {span} ago; " if found.before is not None else ""
    about = "about " if found.at_least else ""
    return f"{trend(found)}: {before}since then {about}{found.came:,} came due and wait, {found.went:,} that were late have ended"


def _group_row(group: LateGroup) -> tuple[object, ...]:
    reason = LATE_REASONS[group.why]
    of = f" ({group.of})" if group.of else ""
    where = f"; destination {group.destination_id}" if group.destination_id is not None else ""
    return (
        f"{group.reminders:,}", f"{group.users:,}", f"{group.came:,}", age_in_words(group.oldest_age), reason.verdict,
        group.tenant_id, group.channel, f"{reason.words}{of}{where}",
    )  # fmt: skip


def _user_row(user: LateUser) -> tuple[object, ...]:
    told = "; ".join(f"{LATE_REASONS[why].verdict}: {LATE_REASONS[why].words}" for why in user.whys)
    return f"{user.reminders:,}", age_in_words(user.oldest_age), user.tenant_id, user.user_id, user.oldest, told

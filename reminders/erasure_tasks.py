"""The Celery tasks by which operators erase and purge: refused, unless `REMINDERS_ALLOW_ERASE_TASKS` allows them.

Whoever may send a message may otherwise delete for good. Each says who (`actor`) and why (`reason`), and logs in one line what
it came to, with the token that stands for the user and never the user's id.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from reminders import bootstrap
from reminders.domain.durations import parse_duration
from reminders.domain.errors import InvalidInput, Refused
from reminders.ledger.retention_policies import LONGEST
from reminders.ledger.review import checked_words
from reminders.operate.erasure import erase
from reminders.operate.retention import not_within_window, purge
from reminders.operators_word import by_an_operator, refusal_logged
from reminders.settings import SHORTEST_RETENTION, Settings

logger = logging.getLogger(__name__)

_refusal_logged = partial(refusal_logged, logger)
SECONDS = 15.0
"""For which one task works; what is left is the next one's."""
AGAIN_AFTER = 10.0
"""Seconds until an erasure is taken up again that has to wait for an attempt under way."""
MOST_TURNS = 360
"""How often one is taken up again: for an hour at least."""


@by_an_operator(name="reminders.erase")
def erase_user(
    *,
    tenant: str,
    user: str,
    actor: str,
    reason: str,
    addresses: Sequence[str] = (),
    channel: str | None = None,
    turn: int = 1,
) -> dict[str, Any]:
    """Erase a user, with `addresses` that the ledger may not know any more; see `reminders erase`. Goes on by itself, a while at a time, until it is complete."""
    with _refusal_logged("erase", "erasure"):
        _allowed()
        named = _named(addresses, channel)
        word = {"actor": actor, "reason": reason}
        done = erase(bootstrap.database(), tenant, user, **word, **named, patience=0.0, seconds=SECONDS)
    touched = sum(done.touched.values())
    counts = (touched, done.complete, done.being_sent, done.files_in_use)
    logger.info("erasure.done user=%s touched=%d complete=%s being_sent=%d files_in_use=%d", done.user_token, *counts)
    if not done.complete and turn < MOST_TURNS:
        given = {"tenant": tenant, "user": user, "actor": actor, "reason": reason, **named, "turn": turn + 1}
        waits = bool(done.being_sent or done.files_in_use)
        erase_user.apply_async(kwargs=given, countdown=AGAIN_AFTER if waits else None)
    return {"user_token": done.user_token, "touched": done.touched, "complete": done.complete}


@by_an_operator(name="reminders.purge_older")
def purge_older(*, older_than: str, actor: str, reason: str) -> dict[str, Any]:
    """Purge reminders that ended longer ago than `older_than`; see `reminders purge`. Goes on by itself likewise."""
    with _refusal_logged("purge", "purge"):
        _allowed()
        who = checked_words("actor", actor)
        checked_words("reason", reason)
        age = _age(older_than)
        not_within_window("older_than", age, bootstrap.installation())
        done = purge(bootstrap.database(), age, seconds=SECONDS)
    logger.info("purge.asked purged=%d marked=%d complete=%s actor=%s", done.purged, done.marked, done.complete, who)
    if not done.complete:
        purge_older.apply_async(kwargs={"older_than": older_than, "actor": actor, "reason": reason})
    return {"purged": done.purged, "marked": done.marked, "complete": done.complete}


def _named(addresses: object, channel: str | None) -> dict[str, Any]:
    if isinstance(addresses, str) or not isinstance(addresses, Sequence):
        raise InvalidInput("addresses", "must be a list of addresses")
    if channel is not None and not addresses:
        raise InvalidInput("channel", "says of which channel `addresses` are: not without them")
    return {"addresses": list(addresses), **({} if channel is None else {"channel": channel})} if addresses else {}


def _allowed() -> None:
    settings: Settings = bootstrap.installation()
    if not settings.allow_erase_tasks:
        raise Refused(
            "erasing and purging by tasks is not allowed here: set REMINDERS_ALLOW_ERASE_TASKS=yes, or use the commands"
        )


def _age(text: object) -> float:
    try:
        seconds = parse_duration(text) if isinstance(text, str) else 0.0
    except ValueError as error:
        raise InvalidInput("older_than", str(error)) from None
    if not SHORTEST_RETENTION <= seconds <= LONGEST:
        raise InvalidInput("older_than", "must be text that says at least a day, as `90d`, and at most a hundred years")
    return seconds

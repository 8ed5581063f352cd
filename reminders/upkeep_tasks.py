"""The Celery tasks by which operators cancel reminders, close and open destinations and channels, and tick notices off.

Each says who (`actor`) and why (`reason`), runs the command's own code, and logs in one line what it came to, or what was
wrong with the request. Destinations are named by their ids alone: an address in a message would stand in the broker. Where
the ledger has no place for the reason, the line has it.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

from reminders import bootstrap
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.request import checked_text
from reminders.ledger import changing, destination_state, notices
from reminders.ledger.destinations import Destination, get
from reminders.ledger.pausing import read_ids
from reminders.ledger.review import checked_words
from reminders.operators_word import by_an_operator, refusal_logged
from reminders.providers import registry

logger = logging.getLogger(__name__)

_refusal_logged = partial(refusal_logged, logger)
MOST_CANCELLED = 1000
"""Reminders that one message may name."""


@by_an_operator(name="reminders.cancel")
def cancel(*, ids: Sequence[str], actor: str, reason: str) -> dict[str, Any]:
    """Cancel the reminders with these ids, each by itself; see `reminders cancel`, whose answers these are."""
    with _refusal_logged("cancel", "reminder"):
        who, why = _word(actor, reason)
        wanted = dict.fromkeys(read_ids(ids, "reminders; `reminders list` shows them"))
        if len(wanted) > MOST_CANCELLED:
            raise InvalidInput("ids", f"must be {MOST_CANCELLED} at most")
        answers = {str(each): _cancelled(each) for each in wanted}
    counts = dict(Counter(answers.values()))
    logger.info("cancel.asked count=%d actor=%s reason=%s: %s", len(answers), who, why, counts)
    return {"counts": counts, "answers": answers}


@by_an_operator(name="reminders.destination_disable")
def destination_disable(*, destination: str, actor: str, reason: str) -> dict[str, Any]:
    """Send nothing to the destination with this id any more; see `reminders destination disable`."""
    with _refusal_logged("disable", "destination"):
        who, why = _word(actor, reason)
        known = _destination(destination)
        found = destination_state.disable(bootstrap.database(), _place(known), why)
    logger.info("destination.disabled id=%s actor=%s", found.id, who)
    return {"id": str(found.id), "disabled": found.disabled_at is not None}


@by_an_operator(name="reminders.destination_enable")
def destination_enable(*, destination: str, actor: str, reason: str) -> dict[str, Any]:
    """Send to a disabled destination again; see `reminders destination enable`."""
    with _refusal_logged("enable", "destination"):
        who, why = _word(actor, reason)
        known = _destination(destination)
        found = destination_state.enable(bootstrap.database(), _place(known), why)
    logger.info("destination.enabled id=%s actor=%s", found.id, who)
    return {"id": str(found.id), "disabled": found.disabled_at is not None}


@by_an_operator(name="reminders.destination_release")
def destination_release(*, destination: str, actor: str, reason: str) -> dict[str, Any]:
    """End a destination's hold early, and reset its breaker; see `reminders destination release`."""
    with _refusal_logged("release", "destination"):
        who, why = _word(actor, reason)
        known = _destination(destination)
        woken, was_held = destination_state.release_destination(bootstrap.database(), known.id)
    logger.info("destination.released id=%s woken=%d actor=%s reason=%s", known.id, woken, who, why)
    return {"id": str(known.id), "was_held": was_held, "woken": woken}


@by_an_operator(name="reminders.channel_release")
def channel_release(*, tenant: str, channel: str, actor: str, reason: str) -> dict[str, Any]:
    """End the hold of a tenant's channel early; see `reminders tenant release`."""
    with _refusal_logged("release", "channel"):
        who, why = _word(actor, reason)
        whose = checked_text("tenant_id", tenant)
        if channel not in registry.channels():
            raise InvalidInput("channel", f"must be one of {', '.join(registry.channels())}")
        woken, was_held = destination_state.release_channel(bootstrap.database(), whose, channel)
    logger.info("channel.released tenant=%s channel=%s woken=%d actor=%s reason=%s", whose, channel, woken, who, why)
    return {"tenant_id": whose, "channel": channel, "was_held": was_held, "woken": woken}


@by_an_operator(name="reminders.notices_seen")
def notices_seen(
    *, actor: str, reason: str, ids: Sequence[str] | None = None, tenant: str | None = None, everything: bool = False
) -> dict[str, Any]:
    """Say that notices were seen, those with these ids, of a tenant, or all; see `reminders notice seen`."""
    with _refusal_logged("seen", "notice"):
        who, why = _word(actor, reason)
        if [ids is not None, tenant is not None, everything is True].count(True) != 1:
            raise InvalidInput("ids", "or tenant or `everything: true` must be given, and no two of them")
        wanted = None if ids is None else read_ids(ids, "notices; `reminders notice list` shows them")
        whose = None if tenant is None else checked_text("tenant_id", tenant)
        closed = notices.see(bootstrap.database(), ids=wanted, tenant=whose, actor=who)
    logger.info("notice.seen count=%d actor=%s reason=%s", closed, who, why)
    return {"seen": closed}


def _word(actor: object, reason: object) -> tuple[str, str]:
    return checked_words("actor", actor), checked_words("reason", reason)


def _cancelled(reminder_id: UUID) -> str:
    database = bootstrap.database()
    try:
        with database.transaction() as connection:
            return str(changing.cancel(connection, database.schema, reminder_id))
    except NotFound:
        return "not_found"
    except Refused:
        return "refused"


def _destination(text: object) -> Destination:
    # The text is not repeated: whoever does not know this rule writes an address.
    try:
        wanted = UUID(text) if isinstance(text, str) else None
    except ValueError:
        wanted = None
    if wanted is None:
        raise InvalidInput("destination", "must be the id of a destination; `reminders destination list` shows them")
    return get(bootstrap.database(), wanted)


def _place(known: Destination) -> tuple[str, str, str]:
    return known.tenant_id, known.channel, known.address

"""The Celery tasks by which operators decide: the commands of `reminders dlq`, `pause` and `resume`, over the broker.

Each says who (`actor`) and why (`reason`), names letters, reminders, filters or pauses as the command does, and logs in
one line what it came to, or what was wrong with the request.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from reminders import bootstrap
from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput
from reminders.domain.request import checked_flag
from reminders.ledger.closing_letters import Answer, discard, redrive, resolve
from reminders.ledger.pausing import Pause, read_ids, read_scope
from reminders.ledger.pausing import pause as hold
from reminders.ledger.pausing import resume as end
from reminders.ledger.review import FILTERS, LetterFilter, Resolution, checked_words, read_filter, read_rate
from reminders.ledger.scope_known import refuse_other_ids
from reminders.operators_word import by_an_operator, known, refusal_logged, scope_told

logger = logging.getLogger(__name__)

_refusal_logged = partial(refusal_logged, logger)


@by_an_operator(name="reminders.redrive_dead_letters")
def redrive_dead_letters(
    *,
    actor: str,
    reason: str,
    everything: bool = False,
    limit: int = 1000,
    checked: bool = False,
    ignore_expiry: bool = False,
    rate: str | None = None,
    dry_run: bool = False,
    **filters: Any,
) -> dict[str, Any]:
    """Send dead letters' reminders again; see `reminders dlq redrive`, whose options and filters these are."""
    with _refusal_logged("redrive", "review"):
        answer = redrive(
            bootstrap.database(),
            _chosen(filters, everything),
            actor=actor,
            reason=reason,
            limit=limit,
            checked=checked_flag("checked", checked),
            ignore_expiry=checked_flag("ignore_expiry", ignore_expiry),
            rate=None if rate is None else read_rate(rate),
            dry_run=checked_flag("dry_run", dry_run),
        )
    return _told("redriven", answer, actor, dry_run=dry_run)


@by_an_operator(name="reminders.discard_dead_letters")
def discard_dead_letters(
    *, actor: str, reason: str, everything: bool = False, limit: int = 1000, dry_run: bool = False, **filters: Any
) -> dict[str, Any]:
    """Give reminders up for good; see `reminders dlq discard`, whose options and filters these are."""
    with _refusal_logged("discard", "review"):
        wanted, dry = _chosen(filters, everything), checked_flag("dry_run", dry_run)
        answer = discard(bootstrap.database(), wanted, actor=actor, reason=reason, limit=limit, dry_run=dry)
    return _told("discarded", answer, actor, dry_run=dry_run)


@by_an_operator(name="reminders.resolve_dead_letters")
def resolve_dead_letters(
    *,
    resolution: Resolution,
    actor: str,
    reason: str,
    reference: str | None = None,
    note: str | None = None,
    everything: bool = False,
    limit: int = 1000,
    dry_run: bool = False,
    **filters: Any,
) -> dict[str, Any]:
    """Record whether reminders were `delivered` or `not_sent`; see `reminders dlq resolve`."""
    with _refusal_logged("resolve", "review"):
        answer = resolve(
            bootstrap.database(),
            _chosen(filters, everything),
            resolution,
            reference=reference,
            note=note,
            actor=actor,
            reason=reason,
            limit=limit,
            dry_run=checked_flag("dry_run", dry_run),
        )
    return _told("resolved", answer, actor, dry_run=dry_run)


@by_an_operator(name="reminders.pause")
def pause(*, actor: str, reason: str, everything: bool = False, **scope: Any) -> dict[str, Any]:
    """Begin nothing any more of what `tenant`, `channel`, `kind` and `destination` name; see `reminders pause`.

    The message waits in its queue behind what is under way there; the command does not.
    """
    with _refusal_logged("pause", "hold"):
        wanted = read_scope(**known(scope, _SCOPE), everything=everything)
        database = bootstrap.database()
        refuse_other_ids(database, wanted)
        said = hold(database, wanted, actor=actor, reason=reason)
    logger.info("hold.paused id=%s open_claims=%d actor=%s", said.pause.id, said.open_claims, actor)
    return {
        **said.pause.fields(),
        "created": said.created,
        "open_claims": said.open_claims,
        "claims_end_at": None if said.claims_end_at is None else instant_text(said.claims_end_at),
        "unknown": scope_told(logger, database, wanted, actor),
    }


@by_an_operator(name="reminders.resume")
def resume(*, ids: Sequence[str], actor: str, reason: str, rate: str | None = None) -> dict[str, Any]:
    """End the pauses with these ids, and let what they hold go, at `rate` if given; see `reminders resume`."""
    with _refusal_logged("resume", "hold"):
        per_second = None if rate is None else read_rate(rate)
        wanted = read_ids(ids)
        ended: list[Pause] = end(
            bootstrap.database(), wanted, actor=actor, reason=checked_words("reason", reason), rate=per_second
        )
    logger.info("hold.resumed count=%d held=%d actor=%s", len(ended), sum(each.held for each in ended), actor)
    return {"resumed": [each.fields() for each in ended]}


_SCOPE = ("tenant", "channel", "kind", "destination")


def _chosen(filters: dict[str, Any], everything: object) -> LetterFilter:
    wanted = read_filter(**known(filters, FILTERS))
    if not wanted.chooses() and everything is not True:
        raise InvalidInput("ids", "or a filter is needed; `everything: true` means all")
    return wanted


def _told(what: str, answer: Answer, actor: str, *, dry_run: bool) -> dict[str, Any]:
    logger.info(
        "review.closed how=%s count=%d confirmed_late=%d stay=%d dry_run=%s actor=%s",
        what,
        len(answer.done),
        len(answer.confirmed_late),
        answer.stay,
        dry_run,
        actor,
    )
    return answer.fields(what, dry_run=dry_run)

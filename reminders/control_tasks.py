"""The Celery tasks by which operators cap, drain, shadow and hand over: the commands of the same names, over the broker.

Each says who (`actor`) and why (`reason`), runs the command's own code, and logs in one line what it came to, or what was
wrong with the request.
"""
# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any
from uuid import UUID

from reminders import bootstrap
from reminders.domain.errors import InvalidInput, NotFound, Refused
from reminders.domain.pauses import PauseScope
from reminders.domain.request import checked_flag, checked_text
from reminders.domain.tenants import MODES, Mode
from reminders.ledger import rates
from reminders.ledger.cohorts import checked_cohort
from reminders.ledger.dispatchers import away
from reminders.ledger.draining import begin_drain, stop_drain
from reminders.ledger.pausing import read_ids, read_scope
from reminders.ledger.review import checked_words, read_rate
from reminders.ledger.scope_known import refuse_other_ids
from reminders.ledger.shadow_release import release
from reminders.ledger.tenant_moves import Moved, Wanted, hand_over, set_mode
from reminders.operators_word import by_an_operator, known, refusal_logged, scope_told
from reminders.settings import load

logger = logging.getLogger(__name__)

_refusal_logged = partial(refusal_logged, logger)
_CAPPED = ("tenant", "channel", "destination")
_DRAINED = ("tenant", "destination")
MOST_LISTED = 1_000_000


@by_an_operator(name="reminders.rate_set")
def rate_set(
    *,
    actor: str,
    reason: str,
    per_second: float | None = None,
    burst: int | None = None,
    concurrent: int | None = None,
    **scope: Any,
) -> dict[str, Any]:
    """Cap one of `tenant`, `channel` and `destination`; see `reminders rate set`, whose options these are."""
    with _refusal_logged("set", "rate"):
        cap = {"per_second": per_second, "burst": burst, "concurrent": concurrent}
        wanted, database = _capped(scope), bootstrap.database()
        refuse_other_ids(database, wanted)
        made = rates.set_rate(database, wanted, **_numbers(cap), actor=actor, reason=reason)
    logger.info("rate.set id=%s waiting=%d actor=%s", made.id, made.waiting, actor)
    return {**made.fields(), "unknown": scope_told(logger, database, wanted, actor)}


@by_an_operator(name="reminders.rate_remove")
def rate_remove(*, actor: str, reason: str, **scope: Any) -> dict[str, Any]:
    """Remove the cap of exactly this; see `reminders rate remove`."""
    with _refusal_logged("remove", "rate"):
        ended = rates.remove_rate(bootstrap.database(), _capped(scope), actor=actor, reason=reason)
    logger.info("rate.removed id=%s waiting=%d actor=%s", ended.id, ended.waiting, actor)
    return ended.fields()


@by_an_operator(name="reminders.rate_list")
def rate_list(*, actor: str, reason: str, removed: bool = False, limit: int = 100) -> dict[str, Any]:
    """List the caps in force or still waited for; see `reminders rate list`."""
    with _refusal_logged("list", "rate"):
        who = checked_words("actor", actor)
        checked_words("reason", reason)
        if type(limit) is not int or not 1 <= limit <= MOST_LISTED:
            raise InvalidInput("limit", f"must be a whole number from 1 to {MOST_LISTED:,}")
        found = rates.rates(bootstrap.database(), removed=removed is True, limit=limit)
    logger.info("rate.listed count=%d waiting=%d actor=%s", len(found), sum(each.waiting for each in found), who)
    return {"rates": [each.fields() for each in found]}


@by_an_operator(name="reminders.drain")
def drain(
    *, actor: str, reason: str, rate: str | None = None, stop: bool = False, everything: bool = False, **scope: Any
) -> dict[str, Any]:
    """Work off what is due at `rate`, or `stop`; see `reminders drain --no-watch`."""
    with _refusal_logged("drain", "hold"):
        known(scope, _DRAINED)
        if (rate is not None) == checked_flag("stop", stop):
            raise InvalidInput("rate", "or `stop: true` must be given, and not both")
        wanted, database = read_scope(**scope, everything=everything), bootstrap.database()
        refuse_other_ids(database, wanted)
        if rate is None:
            found, created = stop_drain(database, wanted, actor=actor, reason=reason), False
        else:
            found, created = begin_drain(database, wanted, rate=read_rate(rate), actor=actor, reason=reason)
    if rate is None:
        logger.info("hold.drain_stopped id=%s left=%d actor=%s", found.id, found.left, actor)
        missing = []
    else:
        missing = scope_told(logger, database, wanted, actor)
        logger.info("hold.draining id=%s left=%d created=%s actor=%s", found.id, found.left, created, actor)
    return {**found.fields(), "created": created, "unknown": missing}


@by_an_operator(name="reminders.tenant_mode")
def tenant_mode(
    *,
    mode: Mode,
    actor: str,
    reason: str,
    tenant: str | None = None,
    cohort: str | None = None,
    rate: str | None = None,
) -> dict[str, Any]:
    """Turn a tenant or a cohort off, to shadow or live; see `reminders tenant set --mode`.

    The message waits in its queue behind what is under way there; the command does not.
    """
    with _refusal_logged("mode", "tenant"):
        wanted = _wanted(tenant, cohort)
        if mode not in MODES:
            raise InvalidInput("mode", f"must be one of {', '.join(MODES)}")
        if rate is not None and mode == "off":
            raise InvalidInput("rate", "is for what goes out again: it goes with live or shadow")
        moved = set_mode(
            bootstrap.database(),
            wanted,
            mode,
            actor=actor,
            reason=reason,
            rate=None if rate is None else read_rate(rate),
            dispatcher=bootstrap.dispatcher_of(load()),
        )
    logger.info("tenant.mode_set mode=%s tenants=%d changed=%d open_claims=%d actor=%s", mode, *_counts(moved), actor)
    return {"mode": mode, **moved.fields()}


@by_an_operator(name="reminders.handover")
def handover(
    *,
    to: str,
    actor: str,
    reason: str,
    tenant: str | None = None,
    cohort: str | None = None,
    everything: bool = False,
) -> dict[str, Any]:
    """Give a tenant, a cohort or all tenants to another dispatcher; see `reminders handover`."""
    with _refusal_logged("handover", "tenant"):
        if everything is True and (tenant is not None or cohort is not None):
            raise InvalidInput("everything", "goes with neither tenant nor cohort")
        if not isinstance(to, str):
            raise InvalidInput("to", "must be text: the REMINDERS_DISPATCHER of another installation")
        settings = load()
        moved = hand_over(
            bootstrap.database(),
            Wanted() if everything is True else _wanted(tenant, cohort),
            to,
            actor=actor,
            reason=reason,
            dispatcher=bootstrap.dispatcher_of(settings),
        )
    logger.info("tenant.handed_over tenants=%d changed=%d open_claims=%d actor=%s", *_counts(moved), actor)
    running = not away(bootstrap.database(), [to], scan_every=settings.scan_every)
    return {"dispatcher": to, **moved.fields(), "woken": moved.woken, "running": running}


@by_an_operator(name="reminders.shadow_release")
def shadow_release(*, ids: Sequence[str], actor: str, reason: str) -> dict[str, Any]:
    """Let the shadowed reminders with these ids be sent after all; see `reminders shadow release`.

    Each by itself: what is refused keeps none of the others.
    """
    released: list[dict[str, Any]] = []
    refused: list[dict[str, str]] = []
    with _refusal_logged("release", "shadow"):
        for each in dict.fromkeys(read_ids(ids, "shadowed reminders; `reminders shadow list` shows them")):
            try:
                done = release(bootstrap.database(), each, actor=actor, reason=reason)
            except (NotFound, Refused) as error:
                refused.append({"id": str(each), "error": str(error)})
            else:
                released.append({name: _plain(value) for name, value in asdict(done).items()})
    logger.info("shadow.released count=%d refused=%d actor=%s", len(released), len(refused), actor)
    return {"released": released, "refused": refused}


def _capped(scope: dict[str, Any]) -> PauseScope:
    return read_scope(**known(scope, _CAPPED))


def _numbers(given: dict[str, Any]) -> dict[str, Any]:
    for name, value in given.items():
        allowed = (int, float) if name == "per_second" else (int,)
        if value is not None and type(value) not in allowed:
            raise InvalidInput(name, f"must be a {'number' if float in allowed else 'whole number'}")
    return given


def _wanted(tenant: str | None, cohort: str | None) -> Wanted:
    if (tenant is None) == (cohort is None):
        raise InvalidInput("tenant", "or cohort must be given, and not both")
    if cohort is not None:
        return Wanted(cohort=checked_cohort(cohort))
    return Wanted(tenant=checked_text("tenant_id", tenant))


def _counts(moved: Moved) -> tuple[int, int, int]:
    return len(moved.tenants), len(moved.changed), moved.open_claims


def _plain(value: object) -> object:
    return str(value) if isinstance(value, UUID) else value

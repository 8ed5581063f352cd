"""Beginning a run of reconciliation, or going on with one that was broken off."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal
from uuid import UUID

from reminders.domain.errors import InvalidInput, NotFound
from reminders.intake.patience import patiently
from reminders.intake.settlement.steps import Run
from reminders.intake.settlement.workshop import AlreadyRunning, LinesDone, LostRun, RunFile, Workshop
from reminders.ledger import settlement_groups, settlement_runs
from reminders.ledger.settlement_runs import FIRST_PAGE, Alive, NewRun

__all__ = ["LEASE", "AlreadyRunning", "LinesDone", "LostRun", "Run", "RunFile", "Workshop", "begin", "go_on"]

LEASE = timedelta(seconds=60)
"""How long after a page a run still belongs to who holds it."""


def begin(
    workshop: Workshop,
    subject: RunFile | Literal["missing", "audit"],
    *,
    actor: str,
    only_page: int | None = None,
    reminders: bool = True,
    lease: timedelta = LEASE,
) -> Run | AlreadyRunning:
    """A new run, or the one of this subject that was broken off, where it stands.

    `subject` is a file; or `missing`, to look only for orders of which nothing has come; or `audit`, to decide over all
    orders again. With `only_page` that page of the file is taken in and nothing else. Without `reminders` what is decided
    is on record and nobody is told. One that was broken off with other wishes, or under another configuration, is given
    up. Raises `InvalidInput` for a page the file does not have, `ServiceUnavailable`.
    """
    if only_page is not None and not (isinstance(subject, RunFile) and FIRST_PAGE <= only_page <= subject.pages):
        pages = subject.pages if isinstance(subject, RunFile) else 0
        raise InvalidInput("page", f"{only_page} is none of the {pages} pages of this file")
    new = _new_run(workshop, subject, actor=actor, only_page=only_page, reminders=reminders, lease=lease)

    def attempt() -> Run | AlreadyRunning:
        with workshop.database.transaction() as connection:
            schema = workshop.database.schema
            settlement_runs.take_turn(connection, schema, new.source)
            found = settlement_runs.alive(connection, schema, new.source, new.subject)
            if found is not None and found.held:
                return _already(found)
            if found is not None and _is_the_same(found, new):
                run_id, fence = found.id, settlement_runs.take_over(connection, schema, found.id, lease)
            else:
                if found is not None:
                    why = "was broken off, and begun anew with other wishes or another configuration"
                    settlement_runs.give_up(connection, schema, found.id, why)
                run_id, fence = settlement_runs.begin(connection, schema, new)
                if new.step == "decide" and new.kind != "audit":
                    settlement_groups.touch_missing(connection, schema, run_id, new.source)
            stand = settlement_runs.continue_if_ours(connection, schema, run_id, fence)
            assert stand is not None
        return Run(workshop, run_id, fence, stand)

    return patiently(attempt, workshop.patience, workshop.tell)


def go_on(workshop: Workshop, run_id: UUID, fence: int) -> Run:
    """The run as an earlier task of the same holder left it. Raises `LostRun`, `NotFound`, `ServiceUnavailable`."""

    def attempt() -> Run:
        with workshop.database.transaction() as connection:
            source = settlement_runs.source_of(connection, workshop.database.schema, run_id)
            if source != workshop.config.source:
                raise NotFound(f"there is no run {run_id} of source {workshop.config.source}")
            stand = settlement_runs.continue_if_ours(connection, workshop.database.schema, run_id, fence)
        if stand is None:
            raise LostRun(f"run {run_id} was taken over by another process, or has ended")
        return Run(workshop, run_id, fence, stand)

    return patiently(attempt, workshop.patience, workshop.tell)


def _new_run(
    workshop: Workshop,
    subject: RunFile | Literal["missing", "audit"],
    *,
    actor: str,
    only_page: int | None,
    reminders: bool,
    lease: timedelta,
) -> NewRun:
    source, config_hash = workshop.config.source, workshop.config_hash
    if isinstance(subject, RunFile):
        kind = "file" if only_page is None else "page"
        step = "lines" if subject.pages else "decide"
        return NewRun(
            source,
            kind,
            subject.sha256,
            subject.name,
            subject.pages,
            only_page,
            reminders,
            config_hash,
            actor,
            lease,
            step,
        )
    return NewRun(source, subject, subject, None, 0, None, reminders, config_hash, actor, lease, "decide")


def _is_the_same(found: Alive, new: NewRun) -> bool:
    return (found.only_page, found.reminders, found.config_hash) == (new.only_page, new.reminders, new.config_hash)


def _already(found: Alive) -> AlreadyRunning:
    return AlreadyRunning(
        found.id, found.started_at, found.step, found.next_page - FIRST_PAGE, found.pages, found.lease_until
    )

"""Decisions and their reminders into the ledger, a page in one transaction, in a few statements whatever its size.

Only bringing a reminder that was not sent yet to other content costs two statements each, for at most a page's decisions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import Conflict, InvalidInput, NotFound, Refused, SettingsError
from reminders.domain.request import ReminderRequest
from reminders.intake.patience import first_line
from reminders.intake.settlement.comparing import Item, differences
from reminders.intake.settlement.config import Reconciliation
from reminders.intake.settlement.telling import Places, Teller
from reminders.ledger import calendars, scheduling, settlement_decisions
from reminders.ledger.allowed_places import allowed_to
from reminders.ledger.savepoint import savepoint
from reminders.ledger.scheduling import ScheduledReminder
from reminders.ledger.settlement_decisions import FoundReminder, Outcome, Record

BATCH = 1000
"""Reminders scheduled in one round trip."""
BY_RUN = "cancelled"
"""Noted of a withdrawn decision whose reminder was live until then: it comes back if the decision does."""
_OUTCOMES: dict[str, Outcome] = {
    "create": "created", "keep": "unchanged", "correct": "corrected", "withdraw": "withdrawn", "tell": "unchanged",
    "cancel": "repaired",
}  # fmt: skip
_NOT_TO_BE_TOLD = frozenset({"no_rule", "too_old", "off"})
_ENDED_OTHERWISE = {
    "attempted": "has been attempted",
    "cancelling": "is being cancelled",
    "cancelled": "was cancelled",
    "purged": "has ended and was purged",
}


@dataclass(frozen=True, slots=True)
class Applied:
    """What became of one decision: how it is on record now, and for people what was done."""

    item: Item
    outcome: Outcome
    record: Record
    note: str | None


@dataclass(slots=True)
class _Draft:
    """A decision on its way into the ledger."""

    item: Item
    record: Record
    outcome: Outcome
    notes: list[str] = field(default_factory=list)
    request: ReminderRequest | None = None
    met: FoundReminder | None = None
    """What stood where its reminder was to be made, and is to be brought to it."""

    @property
    def standing(self) -> str | None:
        return None if self.item.before is None else self.item.before.standing

    @property
    def is_new(self) -> bool:
        """Whether the reminder asked for is another than the one there was, if there was one that left a trace."""
        before = self.item.before
        if self.request is None:
            return False
        return before is None or before.standing in {None, "gone"} or before.identity_key != self.request.identity_key

    @property
    def is_over(self) -> bool:
        """Whether the reminder there was is to be cancelled: nothing asks for it, or for another one instead."""
        if self.item.action in {"withdraw", "cancel"}:
            return self.standing not in {None, "gone", "purged"}
        if self.is_new:
            return self.standing in {"live", "attempted"}
        return self.standing == "live" and self.record.told == "refused" and self.item.action == "correct"

    @property
    def may_be_brought(self) -> bool:
        """What a person cancelled is not brought back."""
        before = self.item.before
        if self.met is not None:
            return True
        if before is None or self.request is None or self.is_new:
            return False
        by_run = before.told == "refused" or (before.withdrawn_at is not None and before.told_reason == BY_RUN)
        return before.standing == "live" or (before.standing == "cancelled" and by_run)


class Applying:
    """Writes what comparing found. One for each process; a page in the caller's transaction."""

    def __init__(self, schema: str, config: Reconciliation, teller: Teller) -> None:
        self._schema = schema
        self._config = config
        self._teller = teller

    def apply(
        self, connection: DriverConnection, run: UUID, items: Sequence[Item], *, now: datetime, reminders: bool
    ) -> list[Applied]:
        """Write all of it, on record under `run`. Without `reminders` new decisions are not told."""
        places = cache(partial(allowed_to, connection, self._schema))
        drafts = [_draft(item, now) for item in items]
        for draft in drafts:
            if self._is_told(draft, now, reminders):
                self._ask(draft, places)
        self._cancel(connection, [draft for draft in drafts if draft.is_over])
        self._insert(connection, [draft for draft in drafts if draft.is_new])
        self._bring(connection, [draft for draft in drafts if draft.request and (draft.met or not draft.is_new)])
        changed = [draft.record for draft in drafts if draft.item.action != "keep"]
        settlement_decisions.save(connection, self._schema, self._config.source, changed)
        done = [Applied(each.item, each.outcome, each.record, "; ".join(each.notes) or None) for each in drafts]
        notes = ((each.record.id, each.outcome, each.note) for each in done)
        settlement_decisions.note(connection, self._schema, run, notes)
        return done

    def _is_told(self, draft: _Draft, now: datetime, reminders: bool) -> bool:
        """Whether there is to be a reminder. What was not to be told when it was decided is not told when corrected."""
        if draft.item.action in {"correct", "tell"}:
            return draft.record.told not in _NOT_TO_BE_TOLD
        if draft.item.action != "create":
            return False
        if draft.item.decision.name not in self._config.rules:
            draft.record = replace(draft.record, told="no_rule")
        elif not reminders:
            draft.record = replace(draft.record, told="off")
        elif now - draft.item.dated > self._config.max_age:
            draft.record = replace(draft.record, told="too_old")
        else:
            return True
        return False

    def _ask(self, draft: _Draft, places: Places) -> None:
        # What cannot be scheduled leaves its decision standing, and is tried again by the next run.
        item = draft.item
        rule = self._config.rules.get(item.decision.name)
        try:
            if rule is None:
                raise InvalidInput("rules", f"there is none for {item.decision.name} any more")
            draft.request = self._teller.request(item.decision, item.order, rule, draft.record.decided_at, places)
        except (InvalidInput, SettingsError) as error:
            _refuse(draft, first_line(error))

    def _cancel(self, connection: DriverConnection, drafts: Sequence[_Draft]) -> None:
        reminders = [draft.record.reminder_id for draft in drafts if draft.record.reminder_id is not None]
        answers = settlement_decisions.cancel_many(connection, self._schema, reminders)
        for draft in drafts:
            answer = answers.get(draft.record.reminder_id, "gone") if draft.record.reminder_id else "gone"
            if answer == BY_RUN and draft.standing == "cancelled":
                answer = "was cancelled before"
            if draft.item.action in {"withdraw", "cancel"}:
                draft.record = replace(draft.record, told_reason=answer)
            draft.notes.append(f"its reminder: {answer}")

    def _insert(self, connection: DriverConnection, drafts: list[_Draft]) -> None:
        # In the order of identity over all round trips: two transactions that schedule the same ones cannot deadlock.
        drafts.sort(key=lambda draft: draft.request.identity_key if draft.request else b"")
        requests = [draft.request for draft in drafts if draft.request is not None]
        answers = [
            answer
            for start in range(0, len(requests), BATCH)
            for answer in self._answers(connection, requests[start : start + BATCH])
        ]
        others = [request for request, answer in zip(requests, answers, strict=True) if not _is_made(answer)]
        found = settlement_decisions.found(connection, self._schema, others)
        for draft, request, answer in zip(drafts, requests, answers, strict=True):
            met = found.get(request.identity_key)
            if isinstance(answer, ScheduledReminder) and _is_made(answer):
                _scheduled(draft, request, answer.id)
            elif met is None or met.says == "other":
                _refuse(draft, str(answer))
            else:
                _meet(draft, request, met)

    def _answers(
        self, connection: DriverConnection, requests: Sequence[ReminderRequest]
    ) -> Iterator[ScheduledReminder | Conflict | str]:
        """One row that only Postgres refuses must not stop the others of its page."""
        try:
            with savepoint(connection):
                found = scheduling.insert(connection, self._schema, requests, self._teller.deduplicates)
        except scheduling.ROW_REFUSED as error:
            if len(requests) == 1:
                yield f"is refused by Postgres: {first_line(error)}"
                return
            middle = len(requests) // 2
            yield from self._answers(connection, requests[:middle])
            yield from self._answers(connection, requests[middle:])
        else:
            yield from found

    def _bring(self, connection: DriverConnection, drafts: Sequence[_Draft]) -> None:
        asked = [draft for draft in drafts if draft.may_be_brought and draft.record.reminder_id is not None]
        reminders = [draft.record.reminder_id for draft in asked if draft.record.reminder_id is not None]
        standing = settlement_decisions.locked(connection, self._schema, reminders)
        for draft in drafts:
            reminder, request = draft.record.reminder_id, draft.request
            now = standing.get(reminder) if reminder is not None else None
            expected = draft.standing if draft.met is None else draft.met.standing
            if reminder is None or request is None or now is None or now != expected:
                _leave(draft, _ENDED_OTHERWISE.get(now or expected or "", f"is {now or expected}"))
                continue
            try:
                calendars.bring(connection, self._schema, reminder, request)
            except (Refused, NotFound, InvalidInput) as error:
                _leave(draft, f"could not be brought to it ({first_line(error)})")
                continue
            draft.record = replace(draft.record, told="scheduled", told_reason=None)
            draft.notes.append("its reminder was brought to it")
            if draft.item.action == "tell":
                draft.outcome = "repaired"


def _draft(item: Item, now: datetime) -> _Draft:
    before = item.before
    if before is None:
        return _Draft(item, Record(item.id, item.decision, now), "created")
    record = replace(before, decision=item.decision)
    draft = _Draft(item, record, _OUTCOMES[item.action])
    match item.action:
        case "create":
            # Its reminder's time counts from now again.
            draft.record = replace(record, decided_at=now, corrected_at=None, withdrawn_at=None, told_reason=None)
            draft.notes.append("follows again")
        case "correct":
            draft.record = replace(record, corrected_at=now)
            draft.notes.append(differences(before.decision, item.decision))
        case "withdraw":
            draft.record = replace(record, withdrawn_at=now)
            draft.notes.append("no longer follows")
        case "cancel":
            draft.notes.append("had been withdrawn")
    return draft


def _scheduled(draft: _Draft, request: ReminderRequest, reminder: UUID) -> None:
    draft.record = replace(
        draft.record, told="scheduled", told_reason=None, reminder_id=reminder, identity_key=request.identity_key
    )
    if draft.item.action == "tell":
        draft.outcome = "repaired"
        draft.notes.append("its reminder was missing and is scheduled")
    elif draft.item.action == "correct":
        draft.notes.append("another reminder is scheduled for it")


def _is_made(answer: ScheduledReminder | Conflict | str) -> bool:
    return isinstance(answer, ScheduledReminder) and answer.created


def _meet(draft: _Draft, request: ReminderRequest, met: FoundReminder) -> None:
    """What was told before its decision was forgotten is not told again; what a run cancelled for another one comes back.

    What a person cancelled does not.
    """
    _scheduled(draft, request, met.id)
    if met.standing == "cancelled" and draft.item.before is not None and not met.withdrawn:
        _leave(draft, _ENDED_OTHERWISE["cancelled"])
    elif (met.standing == "cancelled" and draft.item.before is not None) or (
        met.standing == "live" and met.says == "ours"
    ):
        draft.met = met
    elif met.says != "same":
        _leave(draft, _ENDED_OTHERWISE.get(met.standing, f"is {met.standing}"))


def _refuse(draft: _Draft, why: str) -> None:
    draft.request = None
    draft.record = replace(draft.record, told="refused", told_reason=why)
    draft.notes.append(f"not told: {why}")


def _leave(draft: _Draft, why: str) -> None:
    draft.record = replace(draft.record, told="left", told_reason=why)
    draft.notes.append(f"its reminder {why} and was left as it is")

"""A reminder's history told to a person: what happened, and why it stands where it does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reminders.calendar.instants import instant_text
from reminders.ledger.history import History, Letter
from reminders.ledger.quarantining import LOWEST_EPOCH
from reminders.ledger.reading import Attempt


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    at: datetime
    what: str
    detail: str


def timeline(history: History) -> list[Event]:
    """Everything on record about the reminder, oldest first."""
    reminder, standing = history.reminder, history.standing
    how = "quarantined" if reminder.version >= LOWEST_EPOCH else "moved"
    moved = f"; {how} since, now version {reminder.version}" if reminder.version > 1 else ""
    events = [Event(reminder.created_at, "scheduled", f"due {_at(reminder.due_at)}{moved}")]
    events += [Event(attempt.at, "attempt", _attempt_told(attempt)) for attempt in history.attempts]
    if standing.delivery_status == "sending" and standing.claimed_at is not None:
        events.append(Event(standing.claimed_at, "claimed", _claim_told(history)))
    if standing.held_at is not None:
        events.append(Event(standing.held_at, "held", f"by pause {standing.pause_id}: {standing.pause_reason}"))
    if standing.cancel_requested_at is not None:
        events.append(Event(standing.cancel_requested_at, "cancel requested", "no attempt follows"))
    if standing.confirmed_late_at is not None:
        events.append(
            Event(standing.confirmed_late_at, "confirmed late", "an attempt reported success after its claim")
        )
    for letter in history.letters:
        events.append(Event(letter.opened_at, "dead letter", f"{letter.kind}: {_error(letter)}"))
        if letter.closed_at is not None:
            events.append(Event(letter.closed_at, letter.state, f"by {letter.actor}: {letter.action_reason}"))
    if reminder.finished_at is not None:
        events.append(Event(reminder.finished_at, reminder.status, standing.suppressed_reason or ""))
    # Sorting keeps the order of what happened at the same instant.
    return sorted(events, key=lambda event: event.at)


def why(history: History) -> str:
    """One line: why the reminder is in its state, and what comes next."""
    reminder, standing = history.reminder, history.standing
    wake = _at(reminder.wake_at) if reminder.wake_at is not None else ""
    late = reminder.wake_at is not None and reminder.wake_at <= history.seen_at
    if standing.refused_reason is not None and reminder.status != "sending":
        return f"it will not be sent: {standing.refused_reason}; it ends as suppressed when it comes due"
    match reminder.status:
        case "pending":
            return _why_pending(history, late=late, wake=wake)
        case "leased":
            return "a scan holds it and is about to publish it" if not late else "its scan ended; the next one takes it"
        case "published":
            if late:
                return "its message was not taken in time; the next scan with room sends another"
            return f"its message waits on queue {standing.route}; if no worker takes it by {wake}, it is sent again"
        case "sending":
            ends = f"{_claim_told(history)}; whatever happens, it is looked at then"
            return (
                f"{ends}; a cancel is requested, so nothing follows this attempt" if reminder.cancel_requested else ends
            )
        case "held":
            return _why_held(history)
        case "delivered":
            return _why_delivered(history)
        case "dead":
            return _why_dead(history)
        case "cancelled":
            return (
                "it was cancelled; nothing is sent"
                if not history.attempts
                else "it was cancelled; nothing more is sent"
            )
        case "expired":
            return f"it was not sent before it expired ({_at(reminder.expires_at or reminder.due_at)})"
        case "suppressed":
            return f"it was not sent: {standing.suppressed_reason} ({standing.suppressed_by}); only a reschedule revives it"
        case "shadowed":
            return (
                "its tenant was in shadow: it was decided, and not sent; `reminders shadow release` sends it after all"
            )
        case other:
            return f"it is {other}"


def _why_pending(history: History, *, late: bool, wake: str) -> str:
    if history.standing.refused_reason is not None:
        return (
            f"it will not be sent: {history.standing.refused_reason}; it ends as suppressed when it comes due ({wake})"
        )
    if history.standing.quiet_until is not None:
        return f"its user has quiet hours; it is looked at again {wake}"
    if history.standing.waits_for is not None:
        return f"it waits for its turn under {history.standing.waits_for}; it is looked at again {wake}"
    held_until = history.standing.held_until
    if held_until is not None and held_until > history.seen_at and history.reminder.due_at <= history.seen_at:
        return (
            f"nothing is sent there before {_at(held_until)} ({history.standing.hold_reason}); it is looked at {wake}"
        )
    if history.standing.given_back:
        then = "it is taken again now" if late else f"it is taken again {wake}"
        return f"a worker took it and could not send it: `reminders doctor`, or the workers' log, says why; {then}"
    of_this_key = [attempt for attempt in history.attempts if attempt.delivery_key == history.reminder.delivery_key]
    if of_this_key:
        last = of_this_key[-1]
        ended = f"attempt {last.number} ended in {last.outcome} ({_error(last)})"
        return f"{ended}; the next one is due now" if late else f"{ended}; the next one is due {wake}"
    return f"it is due since {wake} and waits for a scan with room" if late else f"it is not due before {wake}"


def _why_held(history: History) -> str:
    standing = history.standing
    said = f"pause {standing.pause_id} by {standing.pause_actor} holds it: {standing.pause_reason}"
    if standing.tenant_off and standing.pause_ended_at is None:
        back = f"`reminders tenant set {history.reminder.tenant_id} --mode live` sends it"
        return f"its tenant is off, by {standing.pause_actor}: {standing.pause_reason}; {back}"
    if standing.drain_stopped_at is not None:
        return f"{said}; that drain was stopped {_at(standing.drain_stopped_at)}: `reminders resume {standing.pause_id}` lets it go"
    if standing.pause_ended_at is None:
        return f"{said}; `reminders resume {standing.pause_id}` ends that"
    return f"{said}; that ended {_at(standing.pause_ended_at)}, and a scan lets it go in its turn"


def _why_delivered(history: History) -> str:
    told = [attempt for attempt in history.attempts if attempt.outcome == "delivered"]
    if not told:
        return "an attempt reported success"
    last = told[-1]
    code = f" with {last.status_code}" if last.status_code is not None else ""
    return f"attempt {last.number} was confirmed{code}"


def _why_dead(history: History) -> str:
    last = history.letters[-1] if history.letters else None
    if last is None or last.state != "open":
        return f"its dead letter is {last.state} by {last.actor}: {last.action_reason}" if last else "it is dead"
    if last.kind == "unknown":
        advice = "find out at the receiver whether it was sent, then `reminders dlq redrive --checked` if it was not"
    elif last.kind == "pipeline":
        advice = "this is our own fault: see the workers' log, then `reminders dlq redrive`"
    else:
        advice = "when the destination is in order, `reminders dlq redrive`"
    return f"{last.kind}: {_error(last)}; {advice}"


def _attempt_told(attempt: Attempt) -> str:
    code = f" {attempt.status_code}" if attempt.status_code is not None else ""
    took = f" after {attempt.duration_ms} ms" if attempt.duration_ms is not None else ""
    error = f" ({_error(attempt)})" if attempt.error_class or attempt.reason else ""
    return f"{attempt.number}: {attempt.outcome}{code}{took}{error}; {attempt.decision}"


def _claim_told(history: History) -> str:
    standing = history.standing
    until = _at(standing.claimed_until) if standing.claimed_until is not None else "its end"
    return f"worker {standing.worker} holds claim {standing.claim_number} until {until}"


def _error(told: Attempt | Letter) -> str:
    return ": ".join(part for part in (told.error_class, told.reason) if part) or "no reason given"


def _at(instant: datetime) -> str:
    return instant_text(instant.replace(microsecond=0))

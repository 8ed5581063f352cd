"""What a provider answered, in a form that everything after it can rely on.

Providers are other people's code as well. What an outcome says is kept; of its fields only what has the documented type
is, so that no wild value can keep an outcome from being decided on and recorded.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from reminders.domain.look_ups import Absent, Found, LookUp, Undecided
from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown


def well_formed(outcome: Outcome) -> Outcome:
    """The same outcome with fields of the documented types; equal to the one given if it is well formed.

    A success stays one whatever its fields are. A `Blocked` without a usable scope or time was not sent: a `Retry`.
    """
    code = _code(outcome)
    error_class, reason = _text(outcome, "error_class"), _text(outcome, "reason")
    blameless = _flag(outcome, "blameless")
    match outcome:
        case Delivered():
            return Delivered(_reference(outcome), code, reason, error_class)
        case Retry():
            after = getattr(outcome, "after", None)
            after = after if isinstance(after, timedelta) else None
            return Retry(error_class, reason, code, after, blameless, _flag(outcome, "timed_out"))
        case Rejected():
            gone, our_own = _flag(outcome, "gone"), _flag(outcome, "may_be_our_own")
            return Rejected(error_class, reason, code, gone=gone, may_be_our_own=our_own, blameless=blameless)
        case Unknown():
            return Unknown(error_class, reason, code, _flag(outcome, "timed_out"), blameless)
        case Blocked():
            scope, pause = getattr(outcome, "scope", None), getattr(outcome, "after", None)
            if scope in ("destination", "provider") and isinstance(pause, timedelta):
                return Blocked(scope, pause, error_class, reason, code, _flag(outcome, "passing"))
            return Retry(error_class, reason, code)


def well_formed_answer(answer: LookUp) -> LookUp:
    """The same for what a look-up came to. What was found stays found."""
    code = _code(answer)
    match answer:
        case Found():
            return Found(_reference(answer), code)
        case Absent():
            return Absent(_text(answer, "reason"), code)
        case Undecided():
            error_class, reason = _text(answer, "error_class"), _text(answer, "reason")
            return Undecided(error_class, reason, code, _flag(answer, "timed_out"), _flag(answer, "final"))


# Missing fields, too: an instance need not have been initialised.


def _text(value: Any, name: str) -> str:
    found = getattr(value, name, "")
    return found if isinstance(found, str) else f"({type(found).__name__} in place of text)"


def _reference(value: Any) -> str | None:
    found = getattr(value, "reference", None)
    if isinstance(found, int) and not isinstance(found, bool):
        # Gateways number their messages; more digits than these Python refuses to write out.
        return str(found) if abs(found) < 10**100 else None
    return found if isinstance(found, str) and found else None


def _code(value: Any) -> int | None:
    found = getattr(value, "status_code", None)
    return int(found) if isinstance(found, int) and not isinstance(found, bool) else None


def _flag(value: Any, name: str) -> bool:
    return getattr(value, name, False) is True

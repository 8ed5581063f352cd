"""Reminders: what every user must be told and when; told, never lost, never with a second effect.

Application code needs only this module; importing it imports no Celery. The map of the package:

    api.py        what stands here, inside the caller's own transaction; consent.py, the same about users; series.py,
                  about what recurs
    domain/       pure values and rules
    pipeline/     one file per stage: schedule, plan, scan, publish, deliver, finalize, repair
    ledger/       all SQL
    providers/    one file per channel          broker/   Redis through kombu
    testing/      the contract kit for authors of providers
    calendar/     zones, recurrence, quiet hours   intake/   files: CSV, JSON Lines, calendars, settlements
    receiver/     what receivers of webhooks use   operate/  drills, retention
    tasks.py      the Celery tasks              cli/      the `reminders` command
"""

from typing import TYPE_CHECKING, Any

from reminders.domain.errors import Conflict, InvalidInput, NotFound, Refused, RemindersError

if TYPE_CHECKING:
    from reminders.api import (
        cancel,
        cancel_where,
        get,
        reschedule,
        schedule,
        schedule_many,
        snooze,
        verify_unsubscribe,
    )
    from reminders.consent import set_preference, set_recipient, suppress, unsuppress
    from reminders.series import (
        cancel_series,
        edit_series,
        get_series,
        move_occurrence,
        pause_series,
        restore_occurrence,
        resume_series,
        schedule_series,
        skip_occurrence,
    )

_FROM_API = frozenset(
    {"cancel", "cancel_where", "get", "reschedule", "schedule", "schedule_many", "snooze", "verify_unsubscribe"}
)
_FROM_CONSENT = frozenset({"set_preference", "set_recipient", "suppress", "unsuppress"})
_FROM_SERIES = frozenset(
    {
        "cancel_series",
        "edit_series",
        "get_series",
        "move_occurrence",
        "pause_series",
        "restore_occurrence",
        "resume_series",
        "schedule_series",
        "skip_occurrence",
    }
)


def __getattr__(name: str) -> Any:
    """The API, loaded when it is first used: `reminders --help` and the supervising parents need no SQLAlchemy."""
    if name in _FROM_API:
        from reminders import api  # noqa: PLC0415 - the point of it

        return getattr(api, name)
    if name in _FROM_CONSENT:
        from reminders import consent  # noqa: PLC0415 - the same

        return getattr(consent, name)
    if name in _FROM_SERIES:
        from reminders import series  # noqa: PLC0415 - the same

        return getattr(series, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Conflict",
    "InvalidInput",
    "NotFound",
    "Refused",
    "RemindersError",
    "cancel",
    "cancel_series",
    "cancel_where",
    "edit_series",
    "get",
    "get_series",
    "move_occurrence",
    "pause_series",
    "reschedule",
    "restore_occurrence",
    "resume_series",
    "schedule",
    "schedule_many",
    "schedule_series",
    "set_preference",
    "set_recipient",
    "skip_occurrence",
    "snooze",
    "suppress",
    "unsuppress",
    "verify_unsubscribe",
]

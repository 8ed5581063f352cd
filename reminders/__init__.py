"""Reminders: what every user must be told and when; told, never lost, never with a second effect.

Application code needs only this module; importing it imports no Celery. The map of the package:

    api.py        what stands here, inside the caller's own transaction; consent.py, the same about users
    domain/       pure values and rules
    pipeline/     one file per stage: schedule, scan, publish, deliver, finalize, repair
    ledger/       all SQL
    providers/    one file per channel          broker/   Redis through kombu
    testing/      the contract kit for authors of providers
    calendar/     zones and wall times          intake/   files of reminders
    tasks.py      the Celery tasks              cli/      the `reminders` command
"""

from typing import TYPE_CHECKING, Any

from reminders.domain.errors import Conflict, InvalidInput, NotFound, Refused, RemindersError

if TYPE_CHECKING:
    from reminders.api import cancel, get, reschedule, schedule, schedule_many, verify_unsubscribe
    from reminders.consent import set_preference, set_recipient, suppress, unsuppress

_FROM_API = frozenset({"cancel", "get", "reschedule", "schedule", "schedule_many", "verify_unsubscribe"})
_FROM_CONSENT = frozenset({"set_preference", "set_recipient", "suppress", "unsuppress"})


def __getattr__(name: str) -> Any:
    """The API, loaded when it is first used: `reminders --help` and the supervising parents need no SQLAlchemy."""
    if name in _FROM_API:
        from reminders import api  # noqa: PLC0415 - the point of it

        return getattr(api, name)
    if name in _FROM_CONSENT:
        from reminders import consent  # noqa: PLC0415 - the same

        return getattr(consent, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Conflict",
    "InvalidInput",
    "NotFound",
    "Refused",
    "RemindersError",
    "cancel",
    "get",
    "reschedule",
    "schedule",
    "schedule_many",
    "set_preference",
    "set_recipient",
    "suppress",
    "unsuppress",
    "verify_unsubscribe",
]

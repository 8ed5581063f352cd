"""Reminders: what every user must be told and when; told, never lost, never with a second effect.

Application code needs only this module; importing it imports no Celery. The map of the package:

    api.py        what stands here, inside the caller's own transaction
    domain/       pure values and rules
    pipeline/     one file per stage: schedule, scan, publish, deliver, finalize, repair
    ledger/       all SQL
    providers/    one file per channel          broker/   Redis through kombu
    calendar/     zones and wall times          intake/   files of reminders
    tasks.py      the Celery tasks              cli/      the `reminders` command
"""

from reminders.api import cancel, get, reschedule, schedule, schedule_many
from reminders.domain.errors import Conflict, InvalidInput, NotFound, Refused, RemindersError

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
]

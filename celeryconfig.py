"""The options of `reminders.celery`, for `celery --config celeryconfig`. The installed package does not need it."""

from reminders.celery_options import options
from reminders.settings import load

globals().update(options(load()))

"""The Celery app. Importing it connects to nothing and reads no setting; using it does both."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import click
from celery import Celery, signals

from reminders.broker.shutdown import shutting_down
from reminders.broker.watch import watch
from reminders.celery_options import SCAN_TASK, options
from reminders.domain.errors import SettingsError
from reminders.flower_guard import guard_flower
from reminders.settings import Settings, load

logger = logging.getLogger(__name__)

app = Celery("reminders", set_as_current=False, amqp="reminders.broker.transport:AMQP", include=["reminders.tasks"])


class _Options(Mapping[str, Any]):
    """Reads the settings when Celery first asks, and again after a failure.

    (`app.add_defaults` forgets what failed once, and the app then looks for RabbitMQ on this machine.)
    """

    @cached_property
    def _read(self) -> dict[str, Any]:
        return options(load())

    def __getitem__(self, name: str) -> Any:
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


app.config_from_object(_Options())


def wake_scan(settings: Settings) -> None:
    """Put one wake-up on the scan's queue. Logs a broker that is away; beat sends the next one."""
    try:
        app.send_task(SCAN_TASK, expires=settings.scan_every)
    except app.connection_for_write().recoverable_connection_errors as error:
        logger.warning("Could not wake the scan (%s); beat will", error)


def _on_worker_init(sender: Any, **_: Any) -> None:
    if sender.app is app:
        settings = load()
        watch(sender, settings, lambda: wake_scan(settings))


def _on_worker_shutting_down(**_: Any) -> None:
    shutting_down.set()


def _on_beat_init(sender: Any, **_: Any) -> None:
    if sender.app is app:
        wake_scan(load())


def _quiet_celery(**_: Any) -> None:
    # Two lines a task that say less than the ledger and cost more than the claim.
    for name in ("celery.worker.strategy", "celery.app.trace"):
        logging.getLogger(name).setLevel(logging.WARNING)


def _on_import_modules(sender: Any, **_: Any) -> None:
    # Flower has no signal of its own; this one comes before it listens. It also comes in every other command.
    context = click.get_current_context(silent=True)
    if sender is app and context is not None and context.info_name == "flower":
        try:
            guard_flower(app, load(), os.environ)
        except SettingsError as error:
            raise SystemExit(str(error)) from error  # Celery's signals log and pass over any other exception


# Weak references would let the handlers go.
signals.import_modules.connect(_on_import_modules, weak=False)
signals.worker_init.connect(_on_worker_init, weak=False)
signals.worker_shutting_down.connect(_on_worker_shutting_down, weak=False)
signals.beat_init.connect(_on_beat_init, weak=False)
signals.after_setup_logger.connect(_quiet_celery, weak=False)

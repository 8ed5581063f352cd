"""The Celery app. Importing it connects to nothing and reads no setting; using it does both."""

from __future__ import annotations

import gc
import logging
import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import click
from celery import Celery, signals
from celery.bin.base import CLIContext
from celery.utils.log import ColorFormatter
from kombu.exceptions import OperationalError
from kombu.utils.url import sanitize_url

from reminders.broker.foreign import count_foreign_messages
from reminders.broker.handing_back import HandBack
from reminders.broker.link import BrokerAway, Link
from reminders.broker.log_pace import pace_logs
from reminders.broker.shutdown import StopOnce, note_shutdown, shutting_down
from reminders.broker.slow_calls import SlowCalls
from reminders.broker.watch import watch
from reminders.celery_options import DELIVERY_QUEUES, SCAN_TASK, WOKEN_BY_WATCH, options, tell_if_unverified
from reminders.domain.errors import RemindersError, ServiceUnavailable, SettingsError
from reminders.flower_guard import guard_flower
from reminders.flower_port import listen_where_free
from reminders.log_lines import formatter_of, own_name, set_levels, set_up_log
from reminders.settings import Settings, load
from reminders.signalled import set_from_handler

logger = logging.getLogger(__name__)

ONE_SHOT = frozenset({"call", "purge"})
"""Commands of `celery` that would answer a broker that is away with a traceback. The others say it, or wait for it."""

app = Celery(
    "reminders",
    set_as_current=False,
    amqp="reminders.broker.transport:AMQP",
    task_cls="reminders.task_faults:FaultShyTask",
    include=[
        "reminders.tasks",
        "reminders.management_tasks",
        "reminders.control_tasks",
        "reminders.upkeep_tasks",
        "reminders.erasure_tasks",
        "reminders.reconcile_tasks",
    ],
)


class _Options(Mapping[str, Any]):
    """Reads the settings when Celery first asks, and again after a failure.

    (`app.add_defaults` forgets what failed once, and the app then looks for RabbitMQ on this machine.)
    """

    settings = Settings()
    """What was read, once it was."""

    @cached_property
    def _read(self) -> dict[str, Any]:
        command = _celery_command()
        try:
            settings = self.settings = load()
            found = options(settings)
            if command in ONE_SHOT:
                _require_broker(settings, found["broker_url"])
        except RemindersError as error:
            if command is None:
                raise
            raise SystemExit(str(error)) from error
        return found

    def __getitem__(self, name: str) -> Any:
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read)

    def __len__(self) -> int:
        return len(self._read)


_options = _Options()
app.config_from_object(_options)
app.steps["worker"].update((StopOnce, HandBack, SlowCalls))


def wake_scan(settings: Settings, headers: Mapping[str, object] | None = None) -> None:
    """Put one wake-up on the scan's queue. Logs a broker that is away; beat sends the next one."""
    try:
        app.send_task(SCAN_TASK, expires=settings.scan_every, headers=headers)
    except (OperationalError, *app.connection_for_write().recoverable_connection_errors) as error:
        logger.warning("scan.not_woken: the broker is away, beat will: %s", error)


def _celery_command() -> str | None:
    """The name of the `celery` command that this process runs; None in any other program."""
    context = click.get_current_context(silent=True)
    return context.info_name if context is not None and isinstance(context.obj, CLIContext) else None


def _on_worker_init(sender: Any, **_: Any) -> None:
    if sender.app is not app:
        return
    pace_logs()
    tell_if_unverified(app.conf.broker_use_ssl)
    from reminders import bootstrap, readiness  # noqa: PLC0415 - beat and Flower need no ledger

    try:
        readiness.check_worker(tuple(app.amqp.queues.consume_from))
    except RemindersError as error:
        raise SystemExit(str(error)) from error  # Celery's signals log and pass over any other exception
    if any(queue in DELIVERY_QUEUES for queue in app.amqp.queues.consume_from):
        note_shutdown(bootstrap.record_shutdown, bootstrap.DATABASE_FAULTS)
    count_foreign_messages()
    settings = load()
    watch(sender, settings, lambda: wake_scan(settings, {WOKEN_BY_WATCH: True}), bootstrap.scan_looked_at)
    # What imports have made stays for good: no collection need look through it again, not the last one at the end either. Now, for
    # a connection to the broker that is frozen too is never collected, and each one that is lost would stay.
    gc.collect()
    gc.freeze()


def _on_worker_shutting_down(**_: Any) -> None:
    set_from_handler(shutting_down)


def _on_beat_init(sender: Any, **_: Any) -> None:
    if sender.app is app:
        pace_logs()
        tell_if_unverified(app.conf.broker_use_ssl)
        wake_scan(load())


def _on_log_set_up(logger: logging.Logger, loglevel: int | None = None, **_: Any) -> None:
    for handler in logger.handlers:
        # Those of Celery's making: a host application keeps its own.
        if isinstance(handler.formatter, ColorFormatter):
            handler.setFormatter(formatter_of(_options.settings, own_name(os.environ, _celery_command() or "celery")))
    if logger is logging.getLogger():
        set_levels(_options.settings, logger, loglevel or logging.INFO)


def _on_import_modules(sender: Any, **_: Any) -> None:
    if sender is not app:
        return
    command = _celery_command()
    if command == "beat":
        app.conf.include = ()  # it sends tasks by their names, and needs neither them nor a ledger: 35 MB
    # Flower has no signal of its own; this one comes before it listens.
    if command == "flower":
        try:
            guard_flower(app, settings := load(), os.environ)
        except SettingsError as error:
            raise SystemExit(str(error)) from error  # as above
        name = own_name(os.environ, "flower")
        for handler in logging.getLogger().handlers:  # those of Flower's own making
            handler.setFormatter(formatter_of(settings, name))
        if not logging.getLogger().handlers:
            set_up_log(settings, name)
        tell_if_unverified(app.conf.broker_use_ssl)
        listen_where_free(os.environ)


def _require_broker(settings: Settings, url: str) -> None:
    link = Link(settings)
    try:
        with link.channel():
            pass
    except BrokerAway as error:
        raise ServiceUnavailable(
            f"Redis does not answer at {sanitize_url(url)}: {error}\nCheck REDIS_URL and that the server is up"
        ) from error
    finally:
        link.close()


# Weak references would let the handlers go.
signals.import_modules.connect(_on_import_modules, weak=False)
signals.worker_init.connect(_on_worker_init, weak=False)
signals.worker_shutting_down.connect(_on_worker_shutting_down, weak=False)
signals.beat_init.connect(_on_beat_init, weak=False)
signals.after_setup_logger.connect(_on_log_set_up, weak=False)
signals.after_setup_task_logger.connect(_on_log_set_up, weak=False)

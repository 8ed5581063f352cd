"""What a supervised Celery process runs: the `celery` command, tied to its parent (see `reminders.supervise`)."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import MutableMapping
from threading import Event, Thread

from reminders.domain.errors import SettingsError
from reminders.settings import Settings, load

LIFELINE = "REMINDERS_X_LIFELINE"
"""Names the descriptor that ends with the parent, and the seconds of grace."""


def main() -> None:
    """Run `celery` with this process's arguments."""
    hold_on(os.environ)
    if "flower" in sys.argv:
        guard_flower(load(), os.environ)
    sys.argv[0] = "celery"
    # Celery warns root because it could unpickle messages; we accept JSON only.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    # And of a choice that the options make on purpose.
    warnings.filterwarnings("ignore", message=r"\s*In Celery 5\.1 we introduced an optional breaking change")
    from celery.__main__ import main as celery  # noqa: PLC0415 - the lifeline comes first, Celery's import takes a while

    celery()


def hold_on(environ: MutableMapping[str, str]) -> None:
    """Stop this process when its parent is gone: SIGTERM to itself, and after the grace the hard end."""
    text = environ.pop(LIFELINE, "")
    if text:
        descriptor, grace = text.split()
        os.set_inheritable(int(descriptor), False)
        Thread(target=_wait_for_end, args=(int(descriptor), float(grace)), name="lifeline", daemon=True).start()


def _wait_for_end(descriptor: int, grace: float) -> None:
    os.read(descriptor, 1)  # nobody writes: it returns when the writing end is closed
    os.kill(os.getpid(), signal.SIGTERM)
    Event().wait(grace)
    os._exit(1)


def guard_flower(settings: Settings, environ: MutableMapping[str, str]) -> None:
    """Give Flower its user and password where neither the process list nor a comma in the password shows or splits it.

    Raises `SettingsError` without `REMINDERS_FLOWER_AUTH`: Flower can run any task and shut workers down.
    """
    auth = flower_auth(settings)
    for name in ("FLOWER_BASIC_AUTH", "FLOWER_AUTH", "FLOWER_UNAUTHENTICATED_API"):
        environ.pop(name, None)
    from flower.options import default_options  # noqa: PLC0415 - only this process line has Flower
    from flower.views.monitor import Metrics  # noqa: PLC0415
    from tornado.web import authenticated  # noqa: PLC0415

    from reminders.celery import app  # noqa: PLC0415

    default_options.basic_auth = [auth]
    # The one page with contents that Flower 2.2 leaves open.
    Metrics.get = authenticated(Metrics.get)
    # Flower doubles its pause after every failed attempt without a limit: let kombu wait for the broker instead.
    app.conf.broker_transport_options.update(connect_retries_timeout=None, interval_max=5)


def flower_auth(settings: Settings) -> str:
    """`user:password` for Flower. Raises `SettingsError` when it is not set or Flower could not compare it."""
    if settings.flower_auth is None:
        raise SettingsError(
            "Flower can run any task and stop workers, so it does not start without a password\n"
            "Set REMINDERS_FLOWER_AUTH=user:password"
        )
    auth = settings.flower_auth.reveal()
    if not auth.isascii():
        raise SettingsError("REMINDERS_FLOWER_AUTH holds characters that Flower cannot compare\nUse ASCII only")
    return auth


if __name__ == "__main__":
    main()

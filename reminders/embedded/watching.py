"""Servers that die while somebody needs them are started again, on the same port and data."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reminders.domain.errors import ServiceUnavailable
from reminders.embedded.services import Services, attach, running

logger = logging.getLogger(__name__)

LOOK_EVERY = 2.0
"""Seconds between two looks."""


@contextmanager
def kept_running(home: Path, *, postgres: bool, redis: bool) -> Iterator[None]:
    """For the block, start those servers of `home` again that die. To be used inside `running`, which stops them."""
    if not postgres and not redis:
        yield
        return
    ended = threading.Event()
    arguments = (home, postgres, redis, ended)
    watcher = threading.Thread(target=_watch, args=arguments, name="embedded servers", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _watch(home: Path, postgres: bool, redis: bool, ended: threading.Event) -> None:
    told = ""
    while not ended.wait(LOOK_EVERY):
        try:
            gone = _gone(attach(home), postgres, redis)
            if gone and not ended.is_set():
                logger.warning(
                    "embedded.silent: the embedded %s does not answer; starting it again if it is dead", gone
                )
                # Our own `running` around this keeps what this one starts.
                with running(home, postgres=postgres, redis=redis):
                    logger.info("embedded.answers: the embedded %s answers", gone)
            told = ""
        except ServiceUnavailable as error:
            if str(error) != told:
                told = str(error)
                logger.warning("embedded.not_started: %s", told)


def _gone(found: Services | None, postgres: bool, redis: bool) -> str:
    return " and ".join(
        name
        for name, wanted, url in (
            ("Postgres", postgres, found and found.database_url),
            ("Redis", redis, found and found.redis_url),
        )
        if wanted and not url
    )

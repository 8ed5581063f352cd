"""Rendering in a fresh process: with another hash seed, another clock, another zone; and what an import brings with it.

This file is also the program that runs there, by its path, so that nothing of the kit is imported in it.
"""

from __future__ import annotations

import datetime as dt
import os
import pickle
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from operator import attrgetter
from typing import Any

UNWANTED = frozenset({"celery", "kombu"})
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """What the other process found: a body for each delivery, None where there was none, and unwanted modules."""

    bodies: list[bytes | None]
    unwanted: list[str]


def render_elsewhere(
    factory: Callable[..., Any],
    environ: Mapping[str, str],
    deliveries: Sequence[Any],
    *,
    hash_seed: int = 0,
    zone: str = "UTC",
    later: float = 0.0,
) -> Elsewhere:
    """Make the provider in a fresh process and render there. `later` is how far ahead its clock is, in seconds."""
    order = (factory.__module__, factory.__qualname__, dict(environ), later, pickle.dumps(list(deliveries)))
    done = subprocess.run(  # noqa: S603 (this interpreter, this file)
        [sys.executable, "-P", __file__],
        input=pickle.dumps(order),
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "TZ": zone, "PYTHONPATH": os.pathsep.join(sys.path)},
        timeout=_PATIENCE,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{factory.__module__} failed in a process of its own:\n{done.stderr.decode()}")
    bodies, unwanted = pickle.loads(done.stdout)  # noqa: S301 (from the process above)
    return Elsewhere(bodies, unwanted)


def _set_clock_ahead(seconds: float) -> None:
    ahead = dt.timedelta(seconds=seconds)
    now, now_ns = time.time, time.time_ns
    local, utc, text = time.localtime, time.gmtime, time.strftime
    day, instant = dt.date, dt.datetime  # the real ones, for when the names mean the others

    # Values that C code makes are of the real types, and must pass for the replaced ones.
    class Kind(type):
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, instant if issubclass(cls, instant) else day)

    class Day(dt.date, metaclass=Kind):
        @classmethod
        def today(cls) -> Any:
            return (instant.now() + ahead).date()

    class Instant(dt.datetime, metaclass=Kind):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> Any:
            return instant.now(tz) + ahead

        @classmethod
        def today(cls) -> Any:
            return cls.now()

        @classmethod
        def utcnow(cls) -> Any:
            return instant.now(dt.UTC).replace(tzinfo=None) + ahead

    replaced: dict[Any, dict[str, Any]] = {
        time: {
            "time": lambda: now() + seconds,
            "time_ns": lambda: now_ns() + int(seconds * 1_000_000_000),
            "localtime": lambda at=None: local(now() + seconds if at is None else at),
            "gmtime": lambda at=None: utc(now() + seconds if at is None else at),
            "strftime": lambda form, at=None: text(form, local(now() + seconds) if at is None else at),
        },
        dt: {"date": Day, "datetime": Instant},
    }
    for module, names in replaced.items():
        for name, value in names.items():
            setattr(module, name, value)


def _body(provider: Any, delivery: Any) -> bytes | None:
    try:
        body = provider.render(delivery)
    except Exception:  # noqa: BLE001 (another check's)
        return None
    return bytes(body) if isinstance(body, bytes | bytearray) else None


def _main() -> None:
    module, name, environ, later, deliveries = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 (from our parent)
    answers, sys.stdout = sys.stdout.buffer, sys.stderr
    if later:
        _set_clock_ahead(later)
    factory = attrgetter(name)(import_module(module))
    unwanted = sorted(UNWANTED & sys.modules.keys())
    bodies: list[bytes | None] = []
    if pending := pickle.loads(deliveries):  # noqa: S301 (the same)
        provider = factory(import_module("reminders.settings").load(environ))
        bodies = [_body(provider, each) for each in pending]
    answers.write(pickle.dumps((bodies, unwanted)))


if __name__ == "__main__":
    _main()

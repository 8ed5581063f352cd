"""What is installed: Python, the libraries, the zone data."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion, Version

from reminders.calendar.zones import known_zones
from reminders.operate.doctor.check import Check, listed

DISTRIBUTION = "reminders"
TESTED_PYTHON = ((3, 11),)
"""Versions of Python with which this release was tested."""
_PACKAGE = Path(__file__).resolve().parents[2]
_LOCKS = (_PACKAGE / "_tested.lock", _PACKAGE.parent / "requirements.lock")
"""Where the versions stand that this release was tested with: in the installed package, or in a source checkout."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What is here: `libraries` by name with their versions, those that this release `requires`, those `tested`."""

    python: tuple[int, int] = sys.version_info[:2]
    libraries: Mapping[str, str] = field(default_factory=dict)
    requires: Mapping[str, Requirement] = field(default_factory=dict)
    tested: Mapping[str, str] = field(default_factory=dict)
    zones: frozenset[str] = field(default_factory=known_zones)
    """Of this host's `tzdata`."""
    zones_of_ledger: frozenset[str] | None = None
    """Of all hosts that the ledger was told by; None where it could not be asked."""


def read_installed(zones_of_ledger: frozenset[str] | None) -> Installed:
    """Look at this process's own environment."""
    requires = _requires()
    libraries = {name: found for name in requires if (found := _version(name)) is not None}
    return Installed(libraries=libraries, requires=requires, tested=_tested(requires), zones_of_ledger=zones_of_ledger)


def _requires() -> dict[str, Requirement]:
    try:
        texts = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        return {}
    wanted = [Requirement(text) for text in texts]
    return {each.name: each for each in wanted if each.marker is None}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _tested(names: Mapping[str, object]) -> dict[str, str]:
    lock = next((path for path in _LOCKS if path.is_file()), None)
    if lock is None:
        return {}
    pinned = dict(re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)", lock.read_text(encoding="utf-8"), re.MULTILINE))
    return {name: pinned[name] for name in names if name in pinned}


def _python(installed: Installed) -> str | None:
    found = installed.python
    return None if found in TESTED_PYTHON else f"Python {found[0]}.{found[1]}"


def _refused(installed: Installed) -> str | None:
    wrong = []
    for name, wanted in installed.requires.items():
        found = installed.libraries.get(name)
        if found is None:
            wrong.append(f"{name} is not installed")
        elif not wanted.specifier.contains(found, prereleases=True):
            wrong.append(f"{name} {found}, not {wanted.specifier}")
    return listed(wrong) if wrong else None


def _untested(installed: Installed) -> str | None:
    others = [
        f"{name} {found} (tested with {installed.tested[name]})"
        for name, found in installed.libraries.items()
        if name in installed.tested
        and not _same(found, installed.tested[name])
        and installed.requires[name].specifier.contains(found, prereleases=True)
    ]
    return listed(others) if others else None


def _same(one: str, other: str) -> bool:
    try:
        return Version(one) == Version(other)
    except InvalidVersion:
        return one == other


def _zones_missing(installed: Installed) -> str | None:
    missing = sorted((installed.zones_of_ledger or frozenset()) - installed.zones)
    return f"tzdata {_version('tzdata')} here lacks {listed(missing)}" if missing else None


def _zones_untold(installed: Installed) -> str | None:
    if installed.zones_of_ledger is None:
        return None
    untold = sorted(installed.zones - installed.zones_of_ledger)
    return f"the ledger was not told of {listed(untold)}" if untold else None


INSTALLED: tuple[Check[Installed], ...] = (
    Check(
        "python_untested",
        "note",
        f"Python is {' or '.join(f'{a}.{b}' for a, b in TESTED_PYTHON)}, with which this release was tested.",
        "Run the tests with it, or use one that was tested.",
        _python,
    ),
    Check(
        "library_unsupported",
        "warning",
        "Every library is of a version that this release asks for.",
        "`pip install --upgrade reminders` installs what it asks for.",
        _refused,
    ),
    Check(
        "library_untested",
        "note",
        "Every library is of the version with which this release was tested.",
        "Install from `requirements.lock`, or go on: newer bug fixes are mostly harmless.",
        _untested,
    ),
    Check(
        "zones_missing",
        "warning",
        "Every zone that another host has told the ledger of is in this host's `tzdata` too.",
        "Install the same version of `tzdata` on all hosts.",
        _zones_missing,
    ),
    Check(
        "zones_untold",
        "note",
        "The ledger knows every zone of this host's `tzdata`, so that SQL's `schedule` takes it.",
        "Run `reminders migrate`, or restart a worker: both tell it.",
        _zones_untold,
    ),
)
"""Checks of what is installed."""

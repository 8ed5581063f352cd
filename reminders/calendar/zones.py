"""Civil time to instants, in one place, with the pinned `tzdata`.

The rule (DESIGN section 7): a wall time that a spring change skips is read with the offset in force before the gap,
so 02:30 fires at 03:30; one that an autumn change repeats means the first of the two.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

from reminders.domain.errors import InvalidInput


@cache
def known_zones() -> frozenset[str]:
    """Every zone name of the pinned `tzdata` release that is a place or an offset.

    `Factory` is neither: it stands for a machine whose zone nobody has set yet.
    """
    return frozenset(resources.files("tzdata").joinpath("zones").read_text().split()) - {"Factory"}


@cache
def _usual_mistakes() -> dict[str, str]:
    """Names in lower case, whole and without their continent, and what they mean. Not every near name: a file may hold a million."""
    whole = {name.lower(): name for name in sorted(known_zones())}
    cities = {name.rpartition("/")[2].lower(): name for name in sorted(known_zones()) if name.count("/") == 1}
    return {**cities, **whole}


@cache
def _load(name: str) -> ZoneInfo:
    # Not `ZoneInfo(name)`: that prefers the machine's own files, which differ from host to host, and switching its
    # search path off would change the application we are imported into.
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def load_zone(name: str) -> ZoneInfo:
    """The zone called `name` in the IANA database. Raises `InvalidInput` for field `zone`."""
    if name not in known_zones():
        meant = _usual_mistakes().get(name[:64].strip().replace(" ", "_").lower())
        hint = f"; did you mean {meant}?" if meant else ", such as Europe/Berlin"
        raise InvalidInput("zone", f"{name[:64]!r} is no IANA zone name{hint}")
    return _load(name)


def to_instant(wall: datetime, zone: str) -> datetime:
    """The UTC instant of a naive wall time in a zone, by the rule above."""
    return wall.replace(tzinfo=load_zone(zone), fold=0).astimezone(UTC)

"""A series as it was asked for: from what a caller wrote to checked values with their keys."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from reminders.calendar.recurrence import Recurrence
from reminders.calendar.rules import Rule, parse_rule
from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput
from reminders.domain.identity import destination_id, digest, uuid7
from reminders.domain.request import FIRST_YEAR, LAST_YEAR, canonical_data, checked_flag, checked_text
from reminders.domain.series import CATCH_UPS, CatchUp
from reminders.pipeline.provider import Provider

MOST_TIMES = 1000
"""Times that may be added to a rule, or left out of it."""
LEAST_LATENESS, MOST_LATENESS = 60.0, 300 * 86400.0
"""Seconds between which a lateness lies."""

read_rule = lru_cache(maxsize=4096)(parse_rule)


@dataclass(frozen=True, slots=True)
class SeriesRequest:
    """One series to schedule. Times are naive wall times in `zone`; `data` is canonical JSON text; lateness in seconds."""

    id: UUID
    tenant_id: str
    user_id: str
    kind: str
    channel: str
    destination: str = field(repr=False)
    destination_id: UUID
    deduplicates: bool
    reference: str | None
    slot: str
    data: str = field(repr=False)
    start: datetime
    rule: str | None
    extra: tuple[datetime, ...]
    left_out: tuple[datetime, ...]
    zone: str
    follows_user: bool
    catch_up: CatchUp
    max_lateness: float | None
    identity_key: bytes
    request_hash: bytes

    def recurrence(self, zone: str | None = None) -> Recurrence:
        """When it fires, in its own zone or in that of its user."""
        return recurrence_of(self.start, zone or self.zone, self.rule, self.extra, self.left_out)


def recurrence_of(
    start: datetime, zone: str, rule: str | None, extra: Sequence[datetime], left_out: Sequence[datetime]
) -> Recurrence:
    """When a series fires whose rule is given as text. Raises `InvalidInput`."""
    read: Rule | None = None if rule is None else read_rule(rule)
    return Recurrence(start, zone, read, tuple(extra), tuple(left_out))


def to_series_request(
    providers: Callable[[str], Provider],
    *,
    tenant_id: str,
    user_id: str,
    kind: str,
    channel: str,
    destination: str,
    start: datetime,
    zone: str,
    rule: str | None = None,
    extra: Sequence[datetime] = (),
    left_out: Sequence[datetime] = (),
    follows_user: bool = False,
    reference: str | None = None,
    slot: str | None = None,
    data: Mapping[str, Any] | None = None,
    catch_up: CatchUp = "latest",
    max_lateness: float | None = None,
) -> SeriesRequest:
    """Check everything and derive the keys; see `reminders.schedule_series`. Raises `InvalidInput` naming the field."""
    tenant_id, user_id, kind = (
        checked_text(name, value) for name, value in (("tenant_id", tenant_id), ("user_id", user_id), ("kind", kind))
    )
    if not isinstance(channel, str):
        raise InvalidInput("channel", f"must be text, not {type(channel).__name__}")
    provider = providers(channel)
    destination = checked_text("destination", destination)
    provider.check_destination(destination)
    reference = None if reference is None else checked_text("reference", reference)
    slot = "" if slot is None or slot == "" else checked_text("slot", slot)
    canonical = canonical_data(data)
    checked_when(start, zone, rule, extra, left_out).check("rule" if rule is not None else "start")
    if catch_up not in CATCH_UPS:
        raise InvalidInput("catch_up", f"{str(catch_up)[:20]!r} is none of {', '.join(CATCH_UPS)}")
    checked_flag("follows_user", follows_user)
    max_lateness = None if max_lateness is None else checked_lateness(max_lateness)
    times = (_texts(extra), _texts(left_out))
    return SeriesRequest(
        id=uuid7(),
        tenant_id=tenant_id,
        user_id=user_id,
        kind=kind,
        channel=channel,
        destination=destination,
        destination_id=destination_id(tenant_id, channel, destination),
        deduplicates=provider.deduplicates,
        reference=reference,
        slot=slot,
        data=canonical,
        start=start,
        rule=rule,
        extra=tuple(sorted(set(extra))),
        left_out=tuple(sorted(set(left_out))),
        zone=zone,
        follows_user=follows_user,
        catch_up=catch_up,
        max_lateness=max_lateness,
        # Without a reference, what recurs takes its place.
        identity_key=digest(
            "series", tenant_id, user_id, reference, kind, channel, slot,
            *(() if reference is not None else (start.isoformat(), rule)),
        ),
        request_hash=digest(
            "series request", destination, start.isoformat(), rule, zone, *times, canonical, catch_up, str(follows_user),
            None if max_lateness is None else repr(max_lateness),
        ),
    )  # fmt: skip


def checked_when(
    start: datetime, zone: str, rule: str | None, extra: Sequence[datetime] = (), left_out: Sequence[datetime] = ()
) -> Recurrence:
    """When a series fires, its parts checked one by one. Raises `InvalidInput` naming the field."""
    if rule is not None and not isinstance(rule, str):
        raise InvalidInput("rule", f"must be text, not {type(rule).__name__}")
    if not isinstance(zone, str):
        raise InvalidInput("zone", "must be the name of an IANA zone, such as Europe/Berlin")
    load_zone(zone)
    _check_wall("start", start)
    for name, times in (("extra", extra), ("left_out", left_out)):
        if isinstance(times, str | bytes | Mapping) or not isinstance(times, Collection):
            raise InvalidInput(name, f"must be a list of datetimes, not {type(times).__name__}")
        if len(times) > MOST_TIMES:
            raise InvalidInput(name, f"has {len(times):,} times; at most {MOST_TIMES:,} are allowed")
        for time in times:
            _check_wall(name, time)
    return recurrence_of(start, zone, rule, extra, left_out)


def checked_lateness(value: object, field: str = "max_lateness") -> float:
    """Seconds, as they may be set for series, kinds and tenants. Raises `InvalidInput`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(field, f"must be seconds, not {type(value).__name__}")
    if not LEAST_LATENESS <= value <= MOST_LATENESS:
        raise InvalidInput(field, f"is {value:g} s; from a minute to 300 days is allowed")
    return float(value)


def _check_wall(field: str, value: object) -> None:
    if not isinstance(value, datetime):
        raise InvalidInput(field, f"must be a datetime, not {type(value).__name__}")
    if value.tzinfo is not None:
        raise InvalidInput(field, "is a wall time of the zone; leave the offset out")
    if value.microsecond:
        raise InvalidInput(field, "has a fraction of a second; whole seconds are allowed")
    if not FIRST_YEAR <= value.year <= LAST_YEAR:
        raise InvalidInput(field, f"is in the year {value.year}; years {FIRST_YEAR} to {LAST_YEAR} are allowed")


def _texts(times: Sequence[datetime]) -> str:
    return ",".join(sorted({time.isoformat() for time in times}))

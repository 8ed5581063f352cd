"""Shares: how much each lane may have of the room, while more is due than fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from reminders.domain.lanes import destination_of, tenant_of


@dataclass(frozen=True, slots=True)
class InFlight:
    """Messages on their way and open claims: of each lane, and of the destinations that were asked for."""

    by_lane: Mapping[str, int]
    by_destination: Mapping[UUID, int]


def destination_share(in_flight: int) -> int:
    """What one destination may hold of the in-flight limit while others have due work: a tenth."""
    return max(1, in_flight // 10)


def takes(lanes: Sequence[str], holding: InFlight, limit: int, in_flight: int) -> list[tuple[str, int]]:
    """How many each of `lanes` may lease now, in their order; those that may not are left out.

    Every lane gets the same part of `limit`. A tenant with all its lanes holds at most half of `in_flight` while other
    tenants have due work, and a destination with a lane of its own at most a tenth.
    """
    share = max(1, -(-limit // len(lanes)))
    left = dict.fromkeys(map(tenant_of, lanes), max(1, in_flight // 2))
    if len(left) == 1:
        left = dict.fromkeys(left, in_flight)
    for lane, number in holding.by_lane.items():
        if tenant_of(lane) in left:
            left[tenant_of(lane)] -= number
    found = []
    for lane in lanes:
        tenant, destination = tenant_of(lane), destination_of(lane)
        take = min(share, left[tenant])
        if destination is not None:
            take = min(take, destination_share(in_flight) - holding.by_destination.get(destination, 0))
        if take > 0:
            found.append((lane, take))
            left[tenant] -= take
    return found


def last_within(takes: Sequence[tuple[str, int]], limit: int) -> str:
    """The lane at which a lease of `limit` ends, if each gives what it may."""
    last = ""
    for lane, take in takes:
        last, limit = lane, limit - take
        if limit <= 0:
            break
    return last


def belongs_to_one_destination(lanes: Sequence[str]) -> bool:
    """Whether there is nobody to share the room with."""
    return len(lanes) == 1 and destination_of(lanes[0]) is not None

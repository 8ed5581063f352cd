"""Scan: find what is due, lease it, publish it into real room, and hold the minute.

A tick of beat only wakes the scan. What is due is decided by the ledger's clock and index; any number of scans may
run at once.
"""

from __future__ import annotations

import logging
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event
from uuid import UUID

from reminders.domain.identity import uuid7
from reminders.domain.lanes import destination_of, own_lane
from reminders.pipeline.look import Look
from reminders.pipeline.ports import Gauge, Leased, Message, Publisher, ScanLedger
from reminders.pipeline.publish import publish
from reminders.pipeline.repair import RepairPolicy, repair
from reminders.pipeline.shares import belongs_to_one_destination, destination_share, last_within, takes
from reminders.pipeline.tally import GIVEN_UP, events
from reminders.pipeline.trail import follow_leased

logger = logging.getLogger(__name__)

LONGEST_PAUSE = 1.0
"""Seconds between two looks at the most: reminders scheduled meanwhile are seen within it."""
SHORTEST_PAUSE = 0.05
"""Seconds between two looks at the least, so that a steady trickle is taken in handfuls."""
PAUSE_WHEN_FULL = 0.025
PAUSE_AFTER_FAULT = 1.0
REPAIR_AFTER_FAULT = 6.0
"""Seconds after the database was away before lapsed claims are repaired: workers that hold their outcomes come first."""
LANES_GOOD_FOR = 1.0
"""Seconds for which the list of lanes with due work is used; finding it costs a probe per lane."""
SET_ASIDE_REACH = 2000
"""Rows at the head of a lane that one pass may give to lanes of their destinations' own."""
RELEASE_EVERY = PLAN_EVERY = 1.0
"""Seconds between two looks for what an ended pause holds, and for series to plan, unless there was a whole batch of them."""
PLAN_BATCH = 200
MOST_MET = 100_000
"""Tenants that one scanner remembers to have met; to ask again costs a statement."""
LOST_AFTER = 2.0
"""Seconds for which a published row counts as in flight even if the broker does not show its message."""


@dataclass(frozen=True, slots=True)
class ScanPolicy:
    """Seconds and counts from the settings."""

    batch: int
    in_flight: int
    lease: float
    redeliver: float
    repair: RepairPolicy
    slow: int = 0
    """How many slow calls do not count against `in_flight`."""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass did."""

    leased: int
    published: int
    full: bool
    """Work is due that found no room."""
    seconds_to_next: float | None


@dataclass
class Scan:
    """One scanner's memory between looks; everything that matters is in the ledger."""

    ledger: ScanLedger
    publisher: Publisher
    gauge: Gauge
    policy: ScanPolicy
    faults: tuple[type[Exception], ...] = ()
    """Errors that mean the database is away: the scan waits and looks again."""
    news: Callable[[], None] = lambda: None  # tells a person what should be told
    _lanes: list[str] = field(default_factory=list)
    _lanes_found_at: float = float("-inf")
    _turn_ended_at: str = ""
    _excess_before: int = 0
    _excess_checked_at: float = float("-inf")
    _repair_from: float = float("-inf")
    _release_from: float = float("-inf")
    _plan_from: float = float("-inf")
    _met: frozenset[str] = frozenset()
    looked_at: float = field(default_factory=time.monotonic)
    """When the last pass began, by the monotonic clock: who watches the scanner can tell that it hangs."""

    def hold(self, seconds: float, stop: Event) -> int:
        """Keep looking for `seconds`, or until `stop` is set; return how many messages went out."""
        end = time.monotonic() + seconds
        sent = 0
        while not stop.is_set() and time.monotonic() < end:
            try:
                done = self.once()
            except self.faults as error:
                logger.warning("scan.database_away error=%s: %s", type(error).__name__, str(error).partition("\n")[0])
                self._repair_from = time.monotonic() + REPAIR_AFTER_FAULT
                stop.wait(PAUSE_AFTER_FAULT)
                continue
            sent += done.published
            stop.wait(min(_pause(done), max(0.0, end - time.monotonic())))
        return sent

    def once(self) -> Pass:
        """One pass: repair what lapsed, then lease and publish as much as there is room for."""
        limit = self.policy.batch
        self.looked_at = time.monotonic()
        if self.looked_at >= self._release_from:
            self._release_held(limit)
        if self.looked_at >= self._plan_from:
            self._plan_series()
        self.news()
        look = self.ledger.look(limit + 1)
        if look.lapsed and self.looked_at >= self._repair_from:
            repair(self.ledger, self.policy.repair, limit)
            look = self.ledger.look(limit + 1)
        if look.given_up:
            self._end_given_up(limit)
            look = self.ledger.look(limit + 1)
        if look.limited:
            look = self._hurried(look, limit)
        room = self._room(look)
        if room is None or not (look.due or look.crowded_out):
            return Pass(0, 0, full=False, seconds_to_next=look.seconds_to_next)
        if room <= 0:
            return Pass(0, 0, full=True, seconds_to_next=look.seconds_to_next)
        limit = min(limit, room)
        token = uuid7()
        # Few threads serve destinations that time out, ten seconds each: beyond a quarter of what may be in flight, they
        # would only take the room of fresh reminders.
        retry_room = max(0, max(1, self.policy.in_flight // 4) - look.retrying)
        leased, waiting = self._lease(look, limit, token, with_retries=retry_room > 0)
        # Crash here: rows `leased`; the lease's end wakes them. Their tenants may be new; a claim knows them all the same.
        crowded = 0 < self.policy.slow <= 2 * look.slow
        asked = leased and (look.limited or crowded)
        may_go = self.ledger.within_limits(leased, token, crowded=crowded) if asked else leased
        messages = self._within_retry_share(may_go, retry_room, token)
        if not messages:
            return Pass(len(leased), 0, full=waiting or len(may_go) < len(leased), seconds_to_next=look.seconds_to_next)
        sent = publish(
            self.ledger, self.publisher, messages, token, redeliver=self.policy.redeliver, lease=self.policy.lease
        )
        # A broker that refuses is not full: hammering it with lease after lease would only age the leases.
        more = sent == len(messages) and (look.due > len(leased) or look.crowded_out)
        return Pass(len(leased), sent, full=more, seconds_to_next=look.seconds_to_next)

    def _room(self, look: Look) -> int | None:
        """How many more messages may go out; None while the broker cannot be asked."""
        on_broker = self.gauge.in_flight()
        in_ledger = look.published + look.sending - min(look.slow, self.policy.slow)
        if on_broker is None:
            return None
        # A message in a living worker's hands is one whose row is `sending`, but for moments; what else is unacknowledged
        # was dropped with a connection or a worker, and comes back only at the visibility timeout.
        self._notice_lost_messages(look.published - on_broker.queued)
        # What workers hold is in the ledger's count, where a killed worker's share ends with its claims; among the
        # unacknowledged it would take room for as long as the visibility timeout.
        return self.policy.in_flight - max(on_broker.queued, in_ledger)

    def _notice_lost_messages(self, excess: int) -> None:
        """Wake published rows whose messages the broker no longer has.

        A flush, a restart that lost its tail or a worker killed with messages in hand leave rows `published` without a
        message. One comparison may fall between a commit and a message; two in a row, a while apart, do not.
        """
        now = time.monotonic()
        if now - self._excess_checked_at < LOST_AFTER / 4:
            return
        lost = min(excess, self._excess_before)
        self._excess_before, self._excess_checked_at = max(0, excess), now
        if lost <= 0:
            return
        woken = self.ledger.wake_lost_messages(lost, LOST_AFTER)
        if woken:
            logger.warning("scan.messages_lost count=%d: published, but no longer on the broker; sent again", woken)

    def _hurried(self, look: Look, limit: int) -> Look:
        """The look anew, if caps had turns to give to what waits; and the next one when they may have others."""
        woken, seconds = self.ledger.hurry(limit)
        # Crash here: rows due now instead of later.
        found = self.ledger.look(limit + 1) if woken else look
        pauses = [each for each in (seconds, found.seconds_to_next) if each is not None]
        return replace(found, seconds_to_next=min(pauses, default=None))

    def _release_held(self, limit: int) -> None:
        found = self.ledger.release_held(limit)
        # Crash here: released as a whole, or still held and found again.
        self._release_from = self.looked_at + (RELEASE_EVERY if found < limit else 0.0)

    def _plan_series(self) -> None:
        found = self.ledger.plan_due(PLAN_BATCH)
        # Crash here: what comes next is made, or is not and its series are found again. At most half of the time goes into
        # it: what is made is not due yet.
        now = time.monotonic()
        self._plan_from = now + (PLAN_EVERY if found < PLAN_BATCH else now - self.looked_at)

    def _end_given_up(self, limit: int) -> None:
        ended = Counter(self.ledger.end_given_up(limit))
        # Crash here: committed as a whole, or not at all and found again.
        if ended:
            events.put_back({f"{GIVEN_UP}{status}": number for status, number in ended.items()})
            logger.info("scan.given_up count=%d: it is too late to send them: %s", ended.total(), dict(ended))

    def _lease(self, look: Look, limit: int, token: UUID, *, with_retries: bool) -> tuple[list[Message], bool]:
        """Lease what goes out now; and say whether there may be other due work, behind what is held or has its share."""
        if look.due + look.others > limit:
            lanes = self._lanes_in_turn()
            if look.crowded_out and not lanes:
                return [], False
            if look.crowded_out or (lanes and not belongs_to_one_destination(lanes)):
                return self._lease_in_shares(lanes, limit, token, with_retries=with_retries)
        leased = self.ledger.lease(limit, self.policy.lease, token, with_retries=with_retries)
        self._meet(leased)
        return leased.messages, leased.put_off > 0

    def _meet(self, leased: Leased) -> None:
        """Let the ledger know whose rows these are, before a message goes out."""
        follow_leased(leased.messages)
        if new := leased.tenants - self._met:
            self.ledger.register_tenants(new)
            self._met = new if len(self._met) > MOST_MET else self._met | new

    def _lease_in_shares(
        self, lanes: list[str], limit: int, token: UUID, *, with_retries: bool
    ) -> tuple[list[Message], bool]:
        holding = self.ledger.in_flight([each for each in map(destination_of, lanes) if each is not None])
        cap = destination_share(self.policy.in_flight)
        while lanes:
            if belongs_to_one_destination(lanes):
                leased = self._lease_from([(lanes[0], limit)], limit, token, with_retries=with_retries)
                return leased.messages, leased.put_off > 0
            shares = takes(lanes, holding, limit, self.policy.in_flight)
            if not shares:
                return [], True
            leased = self._lease_from(shares, limit, token, cap=cap, with_retries=with_retries)
            self._turn_ended_at = last_within(shares, limit)
            messages = leased.messages
            found = [each for each in leased.passed_over if destination_of(each[0]) is None]
            if found:
                self._set_aside(found, alone=len(lanes) == 1, with_retries=with_retries)
                if belongs_to_one_destination(self._lanes) and len(messages) < limit:
                    rest = limit - len(messages)
                    more = self._lease_from([(self._lanes[0], rest)], rest, token, with_retries=with_retries)
                    messages += more.messages
            # The list is up to a second old: these are served, and the others need not leave them any room.
            self._lanes = [lane for lane in self._lanes if lane not in leased.empty]
            if messages or leased.passed_over or leased.put_off:
                return messages, True
            lanes = [lane for lane in lanes if lane not in leased.empty]
        self._lanes_found_at = float("-inf")
        return [], False

    def _set_aside(self, passed_over: list[tuple[str, UUID]], *, alone: bool, with_retries: bool) -> None:
        """Give destinations beyond their share lanes of their own: then nobody else waits behind their rows."""
        self.ledger.set_aside(passed_over, SET_ASIDE_REACH, with_retries=with_retries)
        # Crash here: rows in another lane, due as before. Lanes are only a matter of whose turn it is.
        if alone:
            self._lanes, self._lanes_found_at = sorted(self.ledger.lanes_with_due_work()), time.monotonic()
        else:
            self._lanes = sorted({*self._lanes, *(own_lane(lane, destination) for lane, destination in passed_over)})

    def _lease_from(
        self, shares: list[tuple[str, int]], limit: int, token: UUID, *, cap: int | None = None, with_retries: bool
    ) -> Leased:
        leased = self.ledger.lease_from_lanes(
            shares, limit, self.policy.lease, token, cap=cap, with_retries=with_retries
        )
        self._meet(leased)
        return leased

    def _within_retry_share(self, leased: list[Message], room: int, token: UUID) -> list[Message]:
        """Leave out retries beyond their room; their leases end soon."""
        retries = [message for message in leased if message.route == "retry"]
        beyond = {message.reminder_id for message in retries[room:]}
        if beyond:
            self.ledger.shorten_lease_if_leased(list(beyond), token, LONGEST_PAUSE)
        return [message for message in leased if message.reminder_id not in beyond]

    def _lanes_in_turn(self) -> list[str]:
        """Lanes with due work, beginning after the one at which the turn before this one ended."""
        now = time.monotonic()
        if now - self._lanes_found_at > LANES_GOOD_FOR:
            self._lanes, self._lanes_found_at = sorted(self.ledger.lanes_with_due_work()), now
        start = bisect_right(self._lanes, self._turn_ended_at)
        return self._lanes[start:] + self._lanes[:start]


def _pause(done: Pass) -> float:
    if done.full:
        return PAUSE_WHEN_FULL
    if done.seconds_to_next is None:
        return LONGEST_PAUSE
    return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, done.seconds_to_next))

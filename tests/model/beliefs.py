"""What somebody who sees only the answers, the calls and the clock must conclude. Knows nothing of how the product works."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from model.model_receiver import WINDOW
from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Unknown
from reminders.domain.retry_policy import OnUnknown
from reminders.ledger.failing import DISABLE_AFTER
from reminders.pipeline.ports import Claim, Report

READINGS = timedelta(milliseconds=50)
"""By how much Postgres's readings of the clock, a microsecond each, may be ahead of the machine's."""


@dataclass(frozen=True)
class Place:
    """A destination."""

    tenant: str
    address: str


@dataclass
class Pause:
    """An operator's word that nothing is to be begun: for a tenant, one of its places, a kind, or everything."""

    id: UUID
    tenant: str | None
    address: str | None
    kind: str | None
    active: bool = True

    def covers(self, reminder: Reminder) -> bool:
        place = reminder.place
        fits = self.tenant in {None, place.tenant} and self.address in {None, place.address}
        return fits and self.kind in {None, reminder.asked["kind"]}


@dataclass
class Turn:
    """One claim: the right to one call."""

    number: int
    claimed_at: datetime
    until: datetime
    on_unknown: OnUnknown
    """What must follow if nobody learns what came of it."""
    asks: bool = False
    """It may only ask whether an earlier one took effect."""
    body: bytes | None = None
    answer: Outcome | None = None
    """What the receiver answered, whether or not anybody learnt of it."""
    ended: str | None = None
    """How it was ended by its holder, and so committed; None while it is open or if nobody ever ended it."""
    unknown: bool = False
    """Its end said that nobody knows whether it took effect."""


@dataclass
class Sent:
    """What is known of one delivery key."""

    key: str
    turns: list[Turn] = field(default_factory=list)
    delivered: bool = False
    """The ledger has been told, by whoever knew, that it took effect."""
    settled: int = 0
    """Turns that a person's word, or the far side's, has settled."""

    def turn(self, number: int) -> Turn:
        return self.turns[number - 1]

    def uncertain_since(self, now: datetime) -> datetime | None:
        """The first attempt of which nobody knows whether it took effect; those whose holder never ended them count."""
        times = [
            turn.claimed_at
            for turn in self.turns[self.settled :]
            if turn.unknown or (turn.ended is None and turn.until <= now)
        ]
        return min(times, default=None)


@dataclass
class Reminder:
    """One reminder, as whoever scheduled it knows it."""

    id: UUID
    place: Place
    asked: dict[str, Any]
    key: str
    over_after: datetime
    """It was live, or somebody decided about it, not earlier than this."""
    version: int = 1
    expires_at: datetime | None = None
    answer: str | None = None
    """What `cancel` answered, as long as it binds."""
    ended: str | None = None
    """The end the ledger has shown; a person's word lifts it."""
    held: bool = False
    """An application's transaction holds it."""
    purged: bool = False
    keys: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keys.append(self.key)


@dataclass
class Beliefs:
    """All of it, and every breach of a guarantee that was seen."""

    reminders: list[Reminder] = field(default_factory=list)
    sent: dict[str, Sent] = field(default_factory=dict)
    deduplicates: dict[Place, bool] = field(default_factory=dict)
    stricter: dict[str, OnUnknown] = field(default_factory=dict)
    """What tenants want to follow where a place's promise would allow more."""
    asked_to_wait: dict[Place | str, datetime] = field(default_factory=dict)
    """Until when a place wants to be left alone; or a tenant's places all together, which refuse its credentials."""
    gone: set[Place] = field(default_factory=set)
    """Places to which nothing is to be sent any more, until an operator says otherwise."""
    failing: dict[Place, datetime] = field(default_factory=dict)
    """Since when every call to a place has failed."""
    pauses: list[Pause] = field(default_factory=list)
    """Those that are over too: the ledger may still hold by them."""
    breaches: list[str] = field(default_factory=list)

    def breach(self, guarantee: str, what: str) -> None:
        self.breaches.append(f"{guarantee}: {what}")

    def of(self, reminder_id: UUID) -> Reminder:
        return next(each for each in self.reminders if each.id == reminder_id)

    def known(self, key: str) -> Sent:
        return self.sent.setdefault(key, Sent(key))

    def uncertain(self, reminder: Reminder, now: datetime) -> bool:
        """Whether the reminder's present key may have been sent, as far as anybody knows."""
        sent = self.known(reminder.key)
        return not sent.delivered and sent.uncertain_since(now) is not None

    def on_unknown(self, reminder: Reminder, *, looks_up: bool) -> OnUnknown:
        """What must follow if nobody learns what comes of an attempt that is begun now; who asks once asks on."""
        wanted = self.stricter.get(reminder.place.tenant)
        if wanted == "review":
            return "review"
        if self.deduplicates[reminder.place] and wanted is None:
            return "repeat"
        turns = self.known(reminder.key).turns
        return "look_up" if looks_up or (turns and turns[-1].on_unknown == "look_up") else "review"

    def claimed(self, claim: Claim, now: datetime, seconds: float, *, looks_up: bool) -> None:
        """A claim has been committed, by a worker that can look keys up or cannot: it must have been allowed."""
        key = claim.delivery.delivery_key
        reminder, sent = self.of(claim.delivery.reminder_id), self.known(key)
        for turn in sent.turns:
            if turn.ended is None and turn.until > now:
                self.breach("G3", f"claim {claim.claim_number} on {key} while claim {turn.number} is open")
        if claim.claim_number != len(sent.turns) + 1:
            self.breach("G3", f"claim {claim.claim_number} on {key} after {len(sent.turns)}")
        if reminder.answer is not None:
            self.breach("G5", f"claim on {key} after cancel had answered {reminder.answer}")
        if key != reminder.key:
            self.breach("G5", f"claim on {key}, and the reminder has been moved to {reminder.key}")
        if reminder.ended is not None:
            self.breach("states", f"claim on {key}, and the reminder had ended {reminder.ended}")
        if sent.delivered:
            self.breach("G4", f"claim on {key}, and it was known to be delivered")
        if reminder.expires_at is not None and reminder.expires_at <= now:
            self.breach("states", f"claim on {key} after its expiry")
        if any(each.active and each.covers(reminder) for each in self.pauses):
            self.breach("states", f"claim on {key}, and a pause covers it")
        for who in (reminder.place, reminder.place.tenant):
            if self.asked_to_wait.get(who, now) > now:
                self.breach("states", f"claim on {key}, and {who} is to be left alone until {self.asked_to_wait[who]}")
        if reminder.place in self.gone:
            self.breach("states", f"claim on {key}, and its place is gone")
        on_unknown = self.on_unknown(reminder, looks_up=looks_up)
        since = sent.uncertain_since(now)
        if claim.on_unknown != on_unknown:
            self.breach("G4", f"claim on {key}: if it is unknown, {claim.on_unknown} follows, and not {on_unknown}")
        if claim.asks != (since is not None and on_unknown == "look_up"):
            self.breach("G4", f"claim on {key}: it {'asks' if claim.asks else 'sends'}, unknown since {since}")
        if since is not None and on_unknown == "review":
            self.breach("G4", f"claim on {key}: an attempt is unknown, and that is for review")
        for turn in sent.turns[sent.settled :]:
            if turn.on_unknown == "review" and (turn.unknown or turn.ended is None):
                self.breach(
                    "G4", f"claim on {key}: attempt {turn.number} is unknown, and was one for review when it began"
                )
        if since is not None and on_unknown == "repeat" and now - since >= timedelta(seconds=WINDOW):
            self.breach("G4", f"claim on {key}: unknown since {since}, beyond what its place remembers")
        sent.turns.append(Turn(claim.claim_number, now, now + timedelta(seconds=seconds), on_unknown, claim.asks))

    def called(self, claim_number: int, key: str, body: bytes, answer: Outcome) -> None:
        """A provider is called: every attempt that is on record bore the same body."""
        sent = self.known(key)
        if not 1 <= claim_number <= len(sent.turns):
            self.breach("G3", f"call {claim_number} on {key} without a claim")
            return
        turn = sent.turn(claim_number)
        if turn.asks:
            self.breach("G4", f"call {claim_number} on {key}, and its claim may only ask")
        if turn.body is not None or turn.ended is not None:
            self.breach("G3", f"a second call under claim {claim_number} on {key}, or after its end")
        if any(each.body != body for each in sent.turns if each.body is not None and each.ended is not None):
            self.breach("G4", f"call {claim_number} on {key} bears another body")
        turn.body, turn.answer = body, answer

    def finalized(self, claim: Claim, report: Report, move: str) -> None:
        """The end of a claim was committed by its holder."""
        sent = self.known(claim.delivery.delivery_key)
        turn = sent.turn(claim.claim_number)
        if turn.ended is not None:
            self.breach("G3", f"claim {turn.number} on {sent.key} ended twice: {turn.ended}, {move}")
        turn.ended = move
        outcome = report.outcome
        turn.unknown = isinstance(outcome, Unknown)
        if move in {"delivered", "confirmed"}:
            sent.delivered = True
        ends = {"buried", "cancelled", "confirmed"}
        expected = {"Delivered": {"delivered"}, "Rejected": ends, "Blocked": {"waiting", *ends}}
        allowed = expected.get(type(outcome).__name__, {"parked", *ends})
        if move not in allowed:
            self.breach("states", f"{outcome} on {sent.key} was committed as {move}")
        if move == "parked" and turn.unknown and turn.on_unknown == "review":
            self.breach("G4", f"unknown attempt {turn.number} on {sent.key} is for review, and is to be repeated")
        if report.certain:
            sent.settled = len(sent.turns)

    def said(self, claim: Claim, report: Report, now: datetime) -> None:
        """What an outcome that was committed says of its place: a pause is never shorter than one asked for before, and who
        has failed for days on end is as good as gone."""
        place, outcome = self.of(claim.delivery.reminder_id).place, report.outcome
        if isinstance(outcome, Delivered):
            self.failing.pop(place, None)
        elif isinstance(outcome, Blocked):
            who, until = place if outcome.scope == "destination" else place.tenant, now + outcome.after
            self.asked_to_wait[who] = max(until, self.asked_to_wait.get(who, until))
        elif isinstance(outcome, Rejected) and outcome.gone:
            self.gone.add(place)
        elif not (outcome.blameless or report.looked_up or place in self.gone):
            since = self.failing.setdefault(place, now)
            if now - since >= timedelta(seconds=DISABLE_AFTER):
                self.gone.add(place)

    def recovered(self, claim: Claim) -> None:
        """A success was committed, whichever attempt's it is."""
        self.failing.pop(self.of(claim.delivery.reminder_id).place, None)

    def lapsed(self, claim: Claim, now: datetime) -> None:
        """The holder was told that its claim no longer stands: it had ended, or its time had."""
        turn = self.known(claim.delivery.delivery_key).turn(claim.claim_number)
        if turn.ended is None and turn.until > now + READINGS:
            self.breach("states", f"claim {turn.number} on {claim.delivery.delivery_key} lapsed before its end")

    def given_back(self, claim: Claim) -> None:
        turn = self.known(claim.delivery.delivery_key).turn(claim.claim_number)
        if turn.body is not None or turn.ended is not None:
            self.breach("G3", f"claim {turn.number} on {claim.delivery.delivery_key} given back after its call or end")
        turn.ended = "given back"

    def word(self, reminder: Reminder, *, delivered: bool) -> None:
        """A person has found out whether it was sent."""
        sent = self.known(reminder.key)
        sent.settled, sent.delivered = len(sent.turns), delivered

    def keys(self) -> Iterator[tuple[Reminder, Sent]]:
        for reminder in self.reminders:
            for key in reminder.keys:
                yield reminder, self.known(key)

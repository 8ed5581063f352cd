"""What has changed in a calendar since its last import: new, moved or changed, gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID

from reminders.domain.errors import InvalidInput, RemindersError
from reminders.domain.identity import delivery_key, derived_id, digest, identity_key, uuid7
from reminders.domain.request import ReminderRequest
from reminders.intake.ical.asking import Asked, Ringing, Wishes
from reminders.intake.ical.events import Event
from reminders.intake.ical.revising import Revising
from reminders.intake.records import Reject
from reminders.ledger.calendar_revisions import Component, Revision
from reminders.ledger.calendars import Entry

_OF_ONE_EVENT = frozenset({"due_at", "zone", "reference", "slot", "data"})
"""Fields that a calendar fills in; a fault in any other is the command's."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose reminders a calendar's are, and its name. `told` if the command named it, not the calendar itself."""

    tenant_id: str
    user_id: str
    kind: str
    channel: str
    destination: str = field(repr=False)
    name: str = ""
    told: bool = False

    @property
    def about(self) -> tuple[str, str, str, str]:
        return self.tenant_id, self.user_id, self.kind, self.channel

    @property
    def calendar_id(self) -> UUID:
        """The same for every import under this name; nothing of the name can be read from it."""
        return derived_id("calendar", *self.about, self.name)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A reminder that a calendar asks for. `entry_key` is its identity as long as it has rung only once."""

    event: Event
    request: ReminderRequest
    entry_key: bytes
    uid_key: bytes
    recurrence_id: str

    @property
    def line(self) -> int:
        return self.event.line

    def entry(self, reminder_id: UUID) -> Entry:
        """What is noted of it once it is that reminder."""
        return Entry(
            self.entry_key, self.uid_key, self.recurrence_id, self.event.sequence, self.request.request_hash,
            self.request.due_at, reminder_id,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Known:
    """What earlier imports of a calendar made, by its key, and how new what they told of each component is."""

    entries: Mapping[bytes, Entry]
    revisions: Mapping[Component, Revision]


@dataclass(slots=True)
class Changes:
    """`changed` pairs what was imported before with what is asked for now; `told` are revisions to note."""

    existing: int = 0
    outdated: int = 0
    told: list[tuple[Component, Revision]] = field(default_factory=list)
    new: list[Wanted] = field(default_factory=list)
    changed: list[tuple[Entry, Wanted]] = field(default_factory=list)
    gone: list[Entry] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)


def compare(
    asked: Asked, known: Known, owner: Owner, wishes: Wishes, to_request: Callable[..., ReminderRequest]
) -> Changes:
    """What is to be done. `to_request` takes the keyword arguments of `schedule`. Raises `InvalidInput` for what the command gave, `RemindersError` for what looks like another calendar."""
    in_file = {_uid_key(uid): uid for uid in asked.series}
    entries = known.entries
    _check_same_calendar(asked, entries, in_file, owner, wishes)
    uid_keys = {uid: key for key, uid in in_file.items()}
    revising = Revising(asked, known.revisions, entries.values(), uid_keys)
    changes = Changes(told=revising.told())
    met: set[bytes] = set()
    for wanted in _wanted(asked, owner, changes, to_request):
        if revising.is_outdated(wanted.event.uid, wanted.recurrence_id, wanted.event):
            changes.outdated += 1
            continue
        entry = entries.get(wanted.entry_key)
        met.add(wanted.entry_key)
        if entry is None:
            changes.new.append(wanted)
        elif not entry.ended and entry.content_hash == wanted.request.request_hash:
            changes.existing += 1
        else:
            changes.changed.append((entry, wanted))
    broken = {_uid_key(uid) for uid in asked.broken}
    for entry in entries.values():
        if entry.entry_key in met or entry.ended or entry.uid_key in broken:
            continue
        if entry.due_at < wishes.oldest:
            # Over, and not looked at: its event may be as it was.
            continue
        uid = in_file.get(entry.uid_key)
        if uid is None:
            is_gone = asked.whole and not asked.partial
        else:
            teller = asked.series[uid].about(entry.recurrence_id)
            is_gone = not asked.partial or (
                teller is not None and not revising.is_outdated(uid, entry.recurrence_id, teller)
            )
        if is_gone:
            changes.gone.append(entry)
    return changes


def again(wanted: Wanted) -> ReminderRequest:
    """The request for an alarm that has rung and was moved to a later time, where it rings once more: as another reminder."""
    request = wanted.request
    slot = f"{request.slot}~{request.due_at:%Y%m%dT%H%M%SZ}"
    identity = identity_key(
        tenant_id=request.tenant_id,
        user_id=request.user_id,
        reference=request.reference,
        kind=request.kind,
        channel=request.channel,
        slot=slot,
        due_at=request.due_at,
    )
    return replace(request, id=uuid7(), slot=slot, identity_key=identity, delivery_key=delivery_key(identity, 1))


def furthest(known: Mapping[bytes, Entry], until: datetime) -> datetime:
    """How far to look, so that what an earlier import with a longer horizon made is looked at too."""
    made = (entry.due_at + timedelta(seconds=1) for entry in known.values() if entry.recurrence_id and not entry.ended)
    return max(until, max(made, default=until))


def _wanted(
    asked: Asked, owner: Owner, changes: Changes, to_request: Callable[..., ReminderRequest]
) -> Iterator[Wanted]:
    for ringing in asked.ringings:
        event = ringing.turn.event
        try:
            request = _request(ringing, owner, to_request)
        except InvalidInput as error:
            if error.field not in _OF_ONE_EVENT:
                raise
            asked.broken.add(event.uid)
            changes.rejects.append(Reject(event.line, error.field, error.reason))
            continue
        yield Wanted(event, request, request.identity_key, _uid_key(event.uid), ringing.recurrence_id)


def _request(ringing: Ringing, owner: Owner, to_request: Callable[..., ReminderRequest]) -> ReminderRequest:
    # Which turn it is stands in the slot, so that a reminder's identity follows from what its row shows.
    turn = f"@{ringing.recurrence_id}" if ringing.recurrence_id else ""
    return to_request(
        tenant_id=owner.tenant_id,
        user_id=owner.user_id,
        kind=owner.kind,
        channel=owner.channel,
        destination=owner.destination,
        due_at=ringing.due_at,
        zone=ringing.zone,
        reference=ringing.turn.event.uid,
        slot=ringing.slot + turn,
        data=ringing.data(),
    )


def _check_same_calendar(
    asked: Asked, known: Mapping[bytes, Entry], in_file: Mapping[bytes, str], owner: Owner, wishes: Wishes
) -> None:
    if owner.told or asked.partial or not asked.whole:
        return
    coming = [entry for entry in known.values() if not entry.ended and entry.due_at > wishes.now]
    if coming and not any(entry.uid_key in in_file for entry in known.values()):
        raise RemindersError(
            f"Not one event of the {len(coming):,} reminders that were imported for this user, kind and channel before is in this "
            "file; nothing was written\nIf it is another calendar, give it a name with --calendar NAME; if all its events were "
            f"replaced, say so with --calendar {owner.name!r}"
        )


def _uid_key(uid: str) -> bytes:
    return digest("uid", uid)

"""Which parts of a message about single events are older than what was imported (RFC 5546 section 2.1.5)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from reminders.intake.ical.asking import Asked
from reminders.intake.ical.events import Event
from reminders.ledger.calendar_revisions import Component, Revision
from reminders.ledger.calendars import Entry

_STAMP = re.compile(r"\d{8}T\d{6}Z", re.ASCII)


class Revising:
    """What is known of a calendar's components, and what the file at hand says of them."""

    def __init__(
        self,
        asked: Asked,
        known: Mapping[Component, Revision],
        entries: Iterable[Entry],
        uid_keys: Mapping[str, bytes],
    ) -> None:
        """`uid_keys` has those of the file."""
        self._asked = asked
        self._known = known
        self._uid_keys = uid_keys
        wanted = set(uid_keys.values())
        self._later: dict[bytes, list[Component]] = {}
        for component in known:
            if component.and_future and component.uid_key in wanted:
                self._later.setdefault(component.uid_key, []).append(component)
        self._made: dict[Component, Revision] = {}
        # Releases that knew no revisions have noted the sequence with what they made.
        for entry in entries:
            turn = Component(entry.uid_key, entry.recurrence_id)
            before = self._made.get(turn)
            if entry.uid_key in wanted and (before is None or before.sequence < entry.sequence):
                self._made[turn] = Revision(entry.sequence)

    def is_outdated(self, uid: str, recurrence_id: str, event: Event) -> bool:
        """Whether something newer than `event`, that a message has for that turn, was imported. Whole calendars stand as they are."""
        return self._asked.partial and any(
            self._revision(event).is_older_than(each) for each in self._of_turn(uid, recurrence_id, event)
        )

    def told(self) -> list[tuple[Component, Revision]]:
        """What the file tells of its components that is newer than what is known of them."""
        found = []
        for uid, revised in self._asked.series.items():
            for recurrence_id, event in revised.components():
                component = Component(self._uid_keys[uid], recurrence_id, event.and_future)
                revision, before = self._revision(event), self._known.get(component)
                # Where nothing is known, any message is new; and most events of a calendar have never been revised.
                worth = self._asked.partial or revision.sequence > 0
                if worth and (before is None or before.is_older_than(revision)):
                    found.append((component, revision))
        return found

    def _of_turn(self, uid: str, recurrence_id: str, event: Event) -> list[Revision]:
        key = self._uid_keys[uid]
        about = [Component(key, recurrence_id)]
        about += [each for each in self._later.get(key, ()) if each.recurrence_id <= recurrence_id]
        master = self._asked.series[uid].master
        if event.which is None or master is None or self.is_outdated(uid, "", master):
            # Beside the event as a whole, its turns are as new as that one is, whatever their own numbers.
            about.append(Component(key))
        found = [self._known[each] for each in about if each in self._known]
        made = self._made.get(about[0])
        return found if made is None else [*found, made]

    def _revision(self, event: Event) -> Revision:
        # A whole calendar's stamp often says when it was exported, not when its event was revised.
        stamp = event.stamp if self._asked.partial and _STAMP.fullmatch(event.stamp) else ""
        return Revision(event.sequence, stamp, event.cancelled or self._asked.cancels)

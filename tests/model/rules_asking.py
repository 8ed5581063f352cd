"""What applications ask: schedule, again, cancel, by id or by reference, reschedule, snooze, and transactions that stay open meanwhile."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

import reminders
from model.beliefs import Reminder
from model.model_stage import PLACES
from model.rules import MachineRules, number
from reminders.domain.errors import Conflict, InvalidInput, Refused

MOST_REMINDERS = 3
MOST_TRANSACTIONS = 2
DUE_IN = st.sampled_from([-60, 0, 3, 20, 4000])
KINDS = ("note", "alarm")
"""In turn."""
EXPIRES_IN = st.sampled_from([None, None, None, 10, 100, 20_000, 700_000])
"""Seconds after the due time."""


class AskingRules(MachineRules):
    @initialize(place=st.sampled_from(PLACES))
    def schedule_first(self, place):
        self._schedule(place, -60, None)

    @rule(place=st.sampled_from(PLACES), due_in=DUE_IN, expires_in=EXPIRES_IN)
    @precondition(lambda self: len(self.kept()) < MOST_REMINDERS)
    def schedule(self, place, due_in, expires_in):
        self._schedule(place, due_in, expires_in)

    @rule(
        pick=number,
        what=st.sampled_from(["again", "other", "cancel", "cancel where", "reschedule", "snooze"]),
        due_in=DUE_IN,
        expires_in=EXPIRES_IN,
    )
    @precondition(lambda self: self.free())
    def ask(self, pick, what, due_in, expires_in):
        """Of a reminder that no open transaction has changed: who schedules its identity waits for that one's end."""
        reminder = self.one_free(pick)
        if what in {"again", "other"}:
            self._schedule_again(reminder, same=what == "again")
            return
        with self.stage.caller() as connection:
            then = self._change(connection, reminder, what, due_in, expires_in)
        then()

    @rule(pick=number, what=st.sampled_from(["look", "cancel", "cancel where", "reschedule", "snooze"]), due_in=DUE_IN)
    @precondition(lambda self: self.free() and len(self.stage.transactions) < MOST_TRANSACTIONS)
    def begin_and_hold(self, pick, what, due_in):
        """An application does something with a reminder and does not commit yet."""
        self.hold(self.one_free(pick), what, due_in)

    def hold(self, reminder, what, due_in):
        begun = self.stage.begin(reminder)
        if what != "look":
            begun.then = self._change(begun.connection, reminder, what, due_in, None)
        else:
            with begun.connection.cursor() as cursor:
                for table in ("due", "reminders"):
                    cursor.execute(f"SELECT FROM reminders.{table} WHERE id = %s FOR UPDATE", (str(reminder.id),))

    @rule(pick=number, commit=st.booleans())
    @precondition(lambda self: self.stage.transactions)
    def end_transaction(self, pick, commit):
        self.stage.end(self.stage.transactions[pick % len(self.stage.transactions)], commit=commit)

    def _schedule(self, place, due_in, expires_in):
        due_at = self.clock.now + timedelta(seconds=due_in)
        expires_at = None if expires_in is None else due_at + timedelta(seconds=expires_in)
        asked: dict[str, Any] = {
            "tenant_id": place.tenant,
            "user_id": "u",
            "kind": KINDS[len(self.beliefs.reminders) % len(KINDS)],
            "channel": "log",
            "destination": place.address,
            "due_at": due_at,
            "reference": f"r{len(self.beliefs.reminders)}",
            "data": {"n": 1},
            "expires_at": expires_at,
        }
        with self.stage.caller() as connection:
            made = reminders.schedule(connection, **asked)
        assert (made.created, made.status, made.version) == (True, "pending", 1)
        known = Reminder(made.id, place, asked, made.delivery_key, self.clock.now, expires_at=expires_at)
        self.beliefs.reminders.append(known)

    def _schedule_again(self, reminder, *, same):
        """The same request finds the row as it stands; other content is a conflict. Neither changes anything."""
        before = self.row(reminder)
        with self.stage.caller() as connection:
            if same:
                found = reminders.schedule(connection, **reminder.asked)
                assert (found.id, found.created, found.delivery_key) == (reminder.id, False, reminder.key)
            else:
                try:
                    reminders.schedule(connection, **{**reminder.asked, "data": {"n": 2}})
                except Conflict:
                    pass
                else:
                    raise AssertionError("other content under the same identity is no conflict")
        assert self.row(reminder) == before

    def _change(self, connection, reminder, what, due_in, expires_in):
        """Ask, check the answer against what is believed, and return what its commit makes true."""
        match what:
            case "cancel" | "cancel where":
                return self._cancel(connection, reminder, by_reference=what == "cancel where")
            case "reschedule":
                return self._reschedule(connection, reminder, due_in, expires_in)
            case _:
                return self._snooze(connection, reminder, due_in)

    def _cancel(self, connection, reminder, *, by_reference=False):
        status, uncertain = self.row(reminder)[0], self.uncertain(reminder)
        known_delivered = self.beliefs.known(reminder.key).delivered
        if by_reference:
            asked = {name: reminder.asked[name] for name in ("tenant_id", "reference")}
            found = reminders.cancel_where(connection, **asked)
            answer = next((each for each in found.counts if reminder.id in getattr(found, each)), None)
            if answer is None:
                if status != "cancelled" and reminder.answer is None:
                    self.beliefs.breach("G5", f"cancel_where passed over {reminder.key}, which is {status}")
                return partial(int)
        else:
            answer = reminders.cancel(connection, reminder.id)
        if status == "cancelled":
            expected = "cancelled"
        elif known_delivered or status == "delivered":
            expected = "too_late"
        elif status == "sending":
            expected = "requested"
        else:
            expected = "maybe_sent" if uncertain else "cancelled"
        if answer != expected:
            self.beliefs.breach("G5", f"cancel answered {answer}, not {expected}: {reminder.key} was {status}")
        return partial(self._cancelled, reminder, answer)

    def _cancelled(self, reminder, answer):
        if answer != "too_late":
            reminder.answer = answer
        if answer == "cancelled":
            reminder.ended = "cancelled"

    def _reschedule(self, connection, reminder, due_in, expires_in):
        due_at = self.clock.now + timedelta(seconds=due_in)
        expires_at = None if expires_in is None else due_at + timedelta(seconds=expires_in)
        status, uncertain = self.row(reminder)[0], self.uncertain(reminder)
        barred = uncertain or status in {"sending", "delivered"} or self.beliefs.known(reminder.key).delivered
        try:
            moved = reminders.reschedule(connection, reminder.id, due_at=due_at, expires_at=expires_at)
        except Refused:
            if not barred:
                self.beliefs.breach("G5", f"reschedule refused, and {reminder.key} is {status}")
            return partial(int)
        if barred:
            self.beliefs.breach("G4", f"reschedule moved {reminder.key}, which is {status}, uncertain: {uncertain}")
        stands = reminders.get(connection, reminder.id)
        return partial(self._moved, reminder, moved, stands.expires_at)

    def _snooze(self, connection, reminder, due_in):
        until = self.clock.now + timedelta(seconds=due_in)
        status, uncertain = self.row(reminder)[0], self.uncertain(reminder)
        barred = (
            uncertain
            or status not in {"pending", "leased", "published", "held"}
            or self.beliefs.known(reminder.key).delivered
        )
        stands = reminders.get(connection, reminder.id)
        too_late = stands.expires_at is not None and until >= stands.expires_at
        try:
            moved = reminders.snooze(connection, reminder.id, until=until)
        except Refused:
            if not barred:
                self.beliefs.breach("G5", f"snooze refused, and {reminder.key} is {status}")
            return partial(int)
        except InvalidInput:
            assert due_in <= 0 or until <= stands.due_at or too_late
            return partial(int)
        if barred:
            self.beliefs.breach("G4", f"snooze moved {reminder.key}, which is {status}, uncertain: {uncertain}")
        assert due_in > 0
        assert not too_late
        return partial(self._moved, reminder, moved, stands.expires_at)

    def _moved(self, reminder, moved, expires_at):
        if moved.version == reminder.version:
            return
        reminder.key, reminder.version, reminder.expires_at = moved.delivery_key, moved.version, expires_at
        reminder.keys.append(moved.delivery_key)
        reminder.answer = reminder.ended = None

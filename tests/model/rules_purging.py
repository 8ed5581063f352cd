"""Purging: what ended long ago goes in two passes, its keys stay, and who asks for it again is answered."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import reminders
from model.model_stage import Open
from model.rules import number, rarely
from model.rules_asking import MOST_TRANSACTIONS, AskingRules
from reminders.domain.errors import Conflict, NotFound
from reminders.operate.retention import purge

RETENTION = 8 * 86400.0
"""Seconds; never below what receivers remember."""
ASKED = st.sampled_from(["again", "again", "other", "cancel", "reschedule", "get"])
_KEPT = "SELECT id::text FROM reminders.reminders"
_MARKED = "SELECT reminder_id::text, purge_id::text FROM reminders.keys_seen WHERE purged_at IS NULL"
_UNDER_REVIEW = "SELECT reminder_id::text FROM reminders.dead_letters WHERE state = 'open'"


class PurgingRules(AskingRules):
    def __init__(self) -> None:
        super().__init__()
        self._marks: dict[str, tuple[str, list[Open]]] = {}
        """For each reminder that is marked: the pass that did it, and what was open then."""

    @rule(
        after=st.sampled_from([0.0, 0.6 * RETENTION, RETENTION + 1, RETENTION + 1, RETENTION + 1]),
        runs=st.sampled_from([1, 2, 2]),
        around=rarely,
        what=ASKED,
    )
    @precondition(lambda self: any(each.ended is not None for each in self.kept()))
    def purge(self, after, runs, around, what):
        """Beyond the retention of all that has ended, or before it; perhaps around a transaction that stays open; and
        somebody asks for what has gone."""
        ended = [each for each in self.kept() if each.ended is not None]
        live_now = [each for each in self.kept() if each.ended is None]
        began = self.clock.now
        self.clock.forward(after)
        if around and self.free() and len(self.stage.transactions) < MOST_TRANSACTIONS:
            self.hold(self.free()[-1], "look", 0)
        for _ in range(runs):
            self._purge()
        for each in live_now:
            if each.purged:
                self.beliefs.breach("G1", f"{each.key} was purged, and had not ended at {began}")
        for each in ended:
            if each.purged:
                self._ask_for(each, what)
        if after > RETENTION and runs == 2 and not self.stage.transactions:
            under_review = {row[0] for row in self.stage.sql(_UNDER_REVIEW)}
            stays = [each.key for each in ended if not each.purged and str(each.id) not in under_review]
            assert stays == [], f"two runs beyond the retention left {stays}"

    @rule(pick=number, what=ASKED)
    @precondition(lambda self: self._purged())
    def ask_for_what_was_purged(self, pick, what):
        self._ask_for(self._purged()[pick % len(self._purged())], what)

    def _ask_for(self, reminder, what):
        """The same request finds how it ended, other content is a conflict, and its id is known no more."""
        refusal = Conflict if what == "other" else NotFound
        with self.stage.caller() as connection:
            if what == "again":
                found = reminders.schedule(connection, **reminder.asked)
                told = (found.created, found.id, found.delivery_key, found.version, found.status)
                assert told == (False, reminder.id, reminder.key, reminder.version, reminder.ended)
                return
            try:
                if what == "other":
                    reminders.schedule(connection, **{**reminder.asked, "data": {"n": 2}})
                elif what == "cancel":
                    reminders.cancel(connection, reminder.id)
                elif what == "reschedule":
                    reminders.reschedule(connection, reminder.id, due_at=self.clock.now)
                else:
                    reminders.get(connection, reminder.id)
            except refusal:
                return
        raise AssertionError(f"{what} of a purged reminder was answered")

    def _purged(self):
        return [each for each in self.beliefs.reminders if each.purged]

    def _purge(self):
        """One run, and what it may have deleted: what was marked, while nothing is open that was open then."""
        under_review = {row[0] for row in self.stage.sql(_UNDER_REVIEW)}
        before = self.kept()
        done = purge(self.stage.database, RETENTION, now=self.clock.now, patience=0.0)
        kept = {row[0] for row in self.stage.sql(_KEPT)}
        gone = [each for each in before if str(each.id) not in kept]
        assert (done.purged, done.complete) == (len(gone), True)
        for each in gone:
            if each.ended is None or str(each.id) in under_review:
                self.beliefs.breach("G1", f"{each.key} was purged, and somebody has still to deal with it")
            if (self.clock.now - each.over_after).total_seconds() < RETENTION:
                self.beliefs.breach("G1", f"{each.key} was purged, and was not over at {each.over_after}")
            mark = self._marks.get(str(each.id))
            if mark is None:
                self.beliefs.breach("G1", f"{each.key} was purged by the run that should have marked it")
            elif any(transaction in self.stage.transactions for transaction in mark[1]):
                self.beliefs.breach("G1", f"{each.key} was purged, and a transaction from before its mark is open")
            each.purged = True
        for id_, marked_by in self.stage.sql(_MARKED):
            if id_ not in self._marks or self._marks[id_][0] != marked_by:
                self._marks[id_] = (marked_by, list(self.stage.transactions))

"""What operators say: about dead letters, always truthfully, and about destinations."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.rules import MachineRules, number
from reminders.ledger.closing_letters import discard, redrive, resolve
from reminders.ledger.review import LetterFilter
from reminders.ledger.tenant_policies import set_policy

WORD = {"actor": "ada", "reason": "looked"}


class OperatingRules(MachineRules):
    @rule(
        pick=number,
        what=st.sampled_from(["redrive", "redrive", "discard", "resolve"]),
        ask_first=st.booleans(),
        ignore_expiry=st.booleans(),
    )
    @precondition(lambda self: self._ended())
    def review(self, pick, what, ask_first, ignore_expiry):
        """Of what has ended, which is what letters are about."""
        ended = self._ended()
        reminder = ended[pick % len(ended)]
        if what == "redrive":
            self._redrive(reminder, ask_first, ignore_expiry)
        elif what == "resolve":
            self._resolve(reminder)
        else:
            self.discard(reminder)

    @rule(
        what=st.sampled_from(["place", "place", "tenant", "looks up", "new format", "garbled", "mended"]),
        pick=number,
        stricter=st.sampled_from(["look_up", "look_up", "review", "default"]),
    )
    @precondition(lambda self: self.kept())
    def change(self, what, pick, stricter):
        """A place begins or ceases to apply a key once, and an operator says so; or its tenant wants something stricter to
        follow what is unknown. Or workers of a new release can look keys up, or pin another body format, and what was begun under the old one keeps it; or the release, against its contract, renders old
        formats differently, until it is mended."""
        place = self.one(pick).place
        if what == "place":
            self.stage.deduplicates(place, not self.beliefs.deduplicates[place])
        elif what == "tenant":
            self.tenant_wants(place.tenant, stricter)
        elif what == "looks up":
            self.stage.looks_up = True
        elif what == "new format":
            self.stage.body_format += 1
        else:
            self.stage.garbled = what == "garbled"
            self.stage.ever_garbled |= self.stage.garbled

    def discard(self, reminder):
        done = discard(self.stage.database, self._of(reminder), **WORD)
        self._settled(done.confirmed_late)
        if done.done:
            reminder.over_after = self.clock.now

    def tenant_wants(self, tenant, stricter):
        """What is to follow where a place's promise would allow more."""
        set_policy(self.stage.database, tenant, "log", on_unknown=stricter)
        self.beliefs.stricter.pop(tenant, None)
        if stricter != "default":
            self.beliefs.stricter[tenant] = stricter

    def _ended(self):
        return [each for each in self.kept() if each.ended is not None]

    def _redrive(self, reminder, ask_first, ignore_expiry):
        """Having asked the receiver, or without: then nothing uncertain may be sent again."""
        checked = ask_first and self.stage.receiver.effects(reminder.key) == 0
        uncertain = self.uncertain(reminder)
        done = redrive(self.stage.database, self._of(reminder), **WORD, checked=checked, ignore_expiry=ignore_expiry)
        self._settled(done.confirmed_late)
        if not done.done:
            return
        if uncertain and not checked:
            self.beliefs.breach("G4", f"redrive took {reminder.key}, which is uncertain, without anybody's word")
        if reminder.answer is not None:
            self.beliefs.breach("G5", f"redrive took {reminder.key}, and cancel had answered {reminder.answer}")
        if checked:
            self.beliefs.word(reminder, delivered=False)
        reminder.ended = None
        if ignore_expiry:
            reminder.expires_at = None

    def _resolve(self, reminder):
        """As the receiver says."""
        arrived = self.stage.receiver.effects(reminder.key) > 0
        given = {"reference": "asked", **WORD} if arrived else WORD
        done = resolve(self.stage.database, self._of(reminder), "delivered" if arrived else "not_sent", **given)
        self._settled(done.confirmed_late)
        if done.done:
            self.beliefs.word(reminder, delivered=arrived)
            reminder.ended, reminder.over_after = self.row(reminder)[0], self.clock.now

    def _of(self, reminder):
        return LetterFilter(ids=[reminder.id])

    def _settled(self, reminder_ids):
        for each in reminder_ids:
            reminder = self.beliefs.of(each)
            if not self.beliefs.known(reminder.key).delivered:
                self.beliefs.breach("states", f"{reminder.key} was settled as delivered, and nobody has said so")
            reminder.ended, reminder.over_after = "delivered", self.clock.now

"""Pauses: operators hold everything, a tenant, one of its places, a kind or the channel, at the moments that matter, and let go again."""

from __future__ import annotations

from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from model.beliefs import Pause
from model.model_scanner import ModelScanner
from model.model_stage import CLAIM
from model.model_worker import ModelWorker
from model.rules import number
from model.rules_delivering import ANSWER, MOST_WORKERS, DeliveringRules
from reminders.domain.pauses import PauseScope
from reminders.ledger.pausing import pause, resume

MOST_PAUSES = 2
_PLACE = "SELECT destination_id::text FROM reminders.reminders WHERE id = %s"
SCOPE = st.sampled_from(["all", "tenant", "place", "place", "kind", "channel", "tenant's kind"])


class PausingRules(DeliveringRules):
    @rule(pick=number, scope=SCOPE)
    @precondition(lambda self: self.kept() and len(self._active()) < MOST_PAUSES)
    def pause(self, pick, scope):
        self._pause(self.one(pick), scope)

    @rule(scope=SCOPE, where=st.sampled_from(["published", "published", "called"]), dies=st.booleans(), answer=ANSWER)
    @precondition(lambda self: len(self.workers) < MOST_WORKERS and not self._active())
    def pause_what_is_out(self, scope, where, dies, answer):
        """Just before its claim, which must fail; or during its call, which may still be reported, or end in a repair."""
        if where == "called":
            worker = self.stop("called", answer)
            if worker is None:
                return
            self._pause(self.beliefs.of(worker.message.reminder_id), scope)
            if not dies:
                self._go_on(worker, through=True)
                return
            self._kill(worker)
            self.clock.forward(CLAIM + 1)
            ModelScanner(self.stage).once()
            return
        self.clock.forward(self.stage.seconds_to_next_wake())
        ModelScanner(self.stage).once()
        if self.stage.broker.queued:
            worker = ModelWorker(self.stage, self.stage.broker.take(0), answer, None)
            self._pause(self.beliefs.of(worker.message.reminder_id), scope)
            self.carry(worker)

    @rule(pick=number, rate=st.sampled_from([None, None, 0.04]), look=st.booleans())
    @precondition(lambda self: self.beliefs.pauses)
    def resume(self, pick, rate, look):
        """One that is active, if there is one; else the rate of one that has ended is changed."""
        among = self._active() or self.beliefs.pauses
        self._resume(among[pick % len(among)], rate)
        if look:
            ModelScanner(self.stage).once()

    def resume_all(self):
        for each in self.beliefs.pauses:
            self._resume(each, None)

    def _active(self):
        return [each for each in self.beliefs.pauses if each.active]

    def _pause(self, reminder, scope):
        """Answered, it is in force, and claims that were open before are counted."""
        place, kind = reminder.place, reminder.asked["kind"]
        id_ = UUID(self.stage.sql(_PLACE, str(reminder.id))[0][0])
        asked = {
            "all": PauseScope(),
            "tenant": PauseScope(tenant_id=place.tenant),
            "place": PauseScope(tenant_id=place.tenant, destination_id=id_),
            "kind": PauseScope(kind=kind),
            "channel": PauseScope(channel="log"),
            "tenant's kind": PauseScope(tenant_id=place.tenant, channel="log", kind=kind),
        }[scope]
        done = pause(self.stage.database, asked, actor="ada", reason="storm", wait=0.0)
        standing = next((each for each in self.beliefs.pauses if each.id == done.pause.id), None)
        assert done.created == (standing is None)
        if standing is None:
            address = place.address if scope == "place" else None
            standing = Pause(done.pause.id, asked.tenant_id, address, asked.kind)
            self.beliefs.pauses.append(standing)
        assert standing.active, "a pause that had ended was taken for a new one"
        sending = [each for each in self.kept() if standing.covers(each) and self.row(each)[0] == "sending"]
        assert done.open_claims == len(sending), f"{done.open_claims} open claims, not {len(sending)}"

    def _resume(self, standing, rate):
        (done,) = resume(self.stage.database, [standing.id], actor="ada", rate=rate)
        assert (done.id, done.rate, done.ended_at is None) == (standing.id, rate, False)
        standing.active = False

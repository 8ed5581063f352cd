"""Users who were erased, whatever had become of their reminders."""

from __future__ import annotations

from integration.audit.aging import AGAIN, LOST, NO
from reminders.domain.outcomes import Delivered
from reminders.operate.erasure import erase

USER = "user-e"


def erased(w, *outcomes, **wanted):
    made = w.ended(*(outcomes or (Delivered("far-1"),)), user_id=USER, **wanted)
    assert erase(w.database, "tenant-a", USER, actor="dpo", reason="asked", patience=0.0).complete
    return made


def erased_twice(w):
    erased(w)
    erased(w, NO)


ERASURE_STORIES = {
    "erased": erased,
    "erased while parked": lambda w: erased(w, AGAIN),
    "erased after a refusal": lambda w: erased(w, NO),
    "erased while uncertain": lambda w: erased(w, LOST),
    "erased while unknown": lambda w: erased(w, LOST, deduplicates=False),
    "erased twice": erased_twice,
}

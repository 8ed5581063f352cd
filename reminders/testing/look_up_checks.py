"""Checks of `look_up`, for providers whose far side can be asked for a key."""

from __future__ import annotations

import pytest

from reminders.domain.look_ups import Absent, Found, LookUp, Undecided
from reminders.testing.far_side import FarSide
from reminders.testing.rules import broken
from reminders.testing.scenes import KEEP_WAITING, LOOK_UPS, Scene
from reminders.testing.subject import Subject

TELLS_NOTHING = (
    Scene.IS_BUSY,
    Scene.FAILS,
    Scene.REFUSES_OUR_CREDENTIALS,
    Scene.REFUSES_CONNECTIONS,
    Scene.DOES_NOT_ACCEPT,
    Scene.BREAKS_BEFORE_READING,
    Scene.BREAKS_AFTER_READING,
    Scene.DOES_NOT_ANSWER,
    Scene.DRIPS,
    Scene.NEVER_ENDS,
    Scene.TALKS_NONSENSE,
)
_ANSWERS: dict[Scene, tuple[type, ...]] = {
    Scene.KNOWS_THE_KEY: (Found,),
    Scene.DOES_NOT_KNOW_THE_KEY: (Absent, Undecided),
    # Its head has been read: whether that is an answer, the provider may judge.
    Scene.NEVER_ENDS: (Found, Undecided),
}


class LookUpChecks(Subject):
    """See `ProviderContract`."""

    @pytest.mark.parametrize("scene", (*LOOK_UPS, *TELLS_NOTHING), ids=str)
    def test_look_up(self, far_side: FarSide, scene: Scene) -> None:
        provider = self._play(far_side, scene)
        deadline = self.deadline if scene in KEEP_WAITING else None
        called = self._look_up(provider, self._delivery(far_side, provider, attempt=2), deadline)
        when = f"where the far side {scene.value.replace('-', ' ')}"
        if called.hung:
            broken("deadline", f"{when}, `look_up` had not returned after {called.seconds:.1f} s")
        if called.error is not None:
            broken("look-up", f"{when}, it raised {called.error!r}")
        if not isinstance(called.value, LookUp):
            broken("look-up", f"{when}, it returned {called.value!r}, which is no answer")
        wanted = _ANSWERS.get(scene, (Undecided,))
        if not isinstance(called.value, wanted):
            names = " or ".join(each.__name__ for each in wanted)
            broken("look-up", f"{when}, it must be {names}, and is {called.value!r}")

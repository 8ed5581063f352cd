"""What a far side can do with a call, and what the call's outcome may then be."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown


class Scene(StrEnum):
    """One way in which a far side behaves until it is told another."""

    ACCEPTS = "accepts"
    REFUSES = "refuses"
    """It refuses this message for good, and repeats in a long answer, with NUL and broken bytes, what it was sent."""
    IS_GONE = "is-gone"
    IS_BUSY = "is-busy"
    FAILS = "fails"
    """It has a fault of its own, and does not say whether the message took effect."""
    REFUSES_OUR_CREDENTIALS = "refuses-our-credentials"
    REFUSES_CONNECTIONS = "refuses-connections"
    DOES_NOT_ACCEPT = "does-not-accept"
    """An attempt to connect is not answered."""
    BREAKS_BEFORE_READING = "breaks-before-reading"
    BREAKS_AFTER_READING = "breaks-after-reading"
    DOES_NOT_ANSWER = "does-not-answer"
    DRIPS = "drips"
    """Its answer comes byte by byte and gets nowhere; each byte arrives long before any time-out."""
    NEVER_ENDS = "never-ends"
    """It accepts, and then its answer goes on for ever."""
    TALKS_NONSENSE = "talks-nonsense"
    KNOWS_THE_KEY = "knows-the-key"
    """Asked for a key, it has it."""
    DOES_NOT_KNOW_THE_KEY = "does-not-know-the-key"


ANSWERS = (
    Scene.REFUSES,
    Scene.IS_GONE,
    Scene.IS_BUSY,
    Scene.FAILS,
    Scene.REFUSES_OUR_CREDENTIALS,
)
"""What only some protocols have words for: these a contract may leave out, with a reason."""

KEEP_WAITING = (Scene.DOES_NOT_ACCEPT, Scene.DOES_NOT_ANSWER, Scene.DRIPS, Scene.NEVER_ENDS)
"""What only the deadline ends."""

LOOK_UPS = (Scene.KNOWS_THE_KEY, Scene.DOES_NOT_KNOW_THE_KEY)

OUTCOMES: dict[Scene, tuple[str, Callable[[object], bool]]] = {
    Scene.ACCEPTS: ("Delivered", lambda o: isinstance(o, Delivered)),
    Scene.REFUSES: ("Rejected without `gone`", lambda o: isinstance(o, Rejected) and not o.gone),
    Scene.IS_GONE: ("Rejected with `gone`", lambda o: isinstance(o, Rejected) and o.gone),
    Scene.IS_BUSY: ("Retry or Blocked", lambda o: isinstance(o, Retry | Blocked)),
    Scene.FAILS: ("Unknown", lambda o: isinstance(o, Unknown)),
    Scene.REFUSES_OUR_CREDENTIALS: (
        "Blocked with scope `provider`",
        lambda o: isinstance(o, Blocked) and o.scope == "provider",
    ),
    Scene.REFUSES_CONNECTIONS: ("Retry", lambda o: isinstance(o, Retry)),
    Scene.DOES_NOT_ACCEPT: ("Retry", lambda o: isinstance(o, Retry)),
    Scene.BREAKS_BEFORE_READING: ("Retry or Unknown", lambda o: isinstance(o, Retry | Unknown)),
    Scene.BREAKS_AFTER_READING: ("Unknown", lambda o: isinstance(o, Unknown)),
    Scene.DOES_NOT_ANSWER: ("Unknown", lambda o: isinstance(o, Unknown)),
    Scene.DRIPS: ("Unknown", lambda o: isinstance(o, Unknown)),
    Scene.NEVER_ENDS: ("Delivered or Unknown", lambda o: isinstance(o, Delivered | Unknown)),
    Scene.TALKS_NONSENSE: ("Unknown", lambda o: isinstance(o, Unknown)),
}
"""What a call comes to, in words and as a test of its outcome."""

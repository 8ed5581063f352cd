"""One synthetic reminder through the whole path, to a reference receiver of its own, with one forced retry.

It disturbs nobody: its tenant is its own, it comes once, and when it has ended every row of it is deleted. One that is still
live when patience ends is cancelled.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from threading import Event
from typing import Any, Protocol

from reminders.domain.errors import Conflict, Refused
from reminders.ledger.allowed_places import allowed_to
from reminders.ledger.changing import cancel
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.scheduling import ScheduledReminder, insert
from reminders.ledger.synthetic import Followed, follow, forget_if_ended, left, set_up
from reminders.operate.doctor.stalled import why_stalled
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

TENANT = "reminders-doctor"
USER = KIND = "synthetic"
"""By these the rows of a synthetic reminder are known."""
STAGES = ("scheduled", "leased", "published", "claimed", "called", "retried", "delivered")
SCRIPT = "/fail-once"
"""The path of the reference receiver that refuses the first call of a key."""
RETRY_DELAY = 2.0
"""Seconds between the two attempts, whatever the installation waits."""
LEFT_BEHIND = 1800.0
"""Seconds after which rows of the tenant are those of a doctor that was killed: none has patience for so long."""
ENDS_WITHIN = 5.0
"""Seconds that a call which is under way has to end before the rows are left where they are."""
_LOOK_EVERY = 0.05
_PASSED = {"leased": ("leased",), "published": ("leased", "published"), "sending": ("leased", "published", "claimed")}
"""What a reminder has behind it in a state."""
_LIVE = frozenset({"pending", "leased", "published", "sending", "held"})


@dataclass(slots=True)
class Passage:
    """How far it came. `stages` has the seconds from its scheduling at which each stage was seen to be passed.

    `why` says what kept it, and what to look at; None if it arrived as one logical send. `kept` says that its rows are
    still there.
    """

    reminder_id: str
    delivery_key: str
    stages: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    effects: int = 0
    why: str | None = None
    kept: bool = False
    on_stage: Callable[[str, float], None] = lambda _stage, _seconds: None

    def pass_(self, stage: str, seconds: float) -> None:
        """Note that a stage is passed, once."""
        if stage not in self.stages:
            self.stages[stage] = round(seconds, 3)
            self.on_stage(stage, self.stages[stage])

    @property
    def arrived(self) -> bool:
        return self.why is None

    @property
    def stalled_at(self) -> str | None:
        """The first stage that it did not pass."""
        return next((stage for stage in STAGES if stage not in self.stages), None)

    def fields(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "arrived": self.arrived,
            "reminder_id": self.reminder_id,
            "delivery_key": self.delivery_key,
            "stages": {stage: self.stages.get(stage) for stage in STAGES},
            "stalled_at": None if self.arrived else self.stalled_at,
            "why": self.why,
            "calls": self.calls,
            "effects": self.effects,
            "kept": self.kept,
        }


class Receiving(Protocol):
    """The receiver of one synthetic reminder, and what it has seen so far."""

    @property
    def url(self) -> str:
        """By which workers reach it; with `SCRIPT` behind it, the first call of a key is refused."""

    def calls(self) -> int:
        """How many came."""

    def signed(self) -> Sequence[float]:
        """When those with a good signature came, by `time.monotonic`."""

    def refused(self) -> str | None:
        """Why the first one was refused whose signature was not good; None if all were."""

    def effects(self, key: str) -> int:
        """How many logical sends a delivery key has come to."""


def send(
    settings: Settings,
    database: Database,
    receiver: Receiving,
    *,
    within: float,
    on_stage: Callable[[str, float], None],
    served: Callable[[], Sequence[str]],
) -> Passage:
    """Send one to `receiver` and follow it for `within` seconds at most; `on_stage` hears of each stage it passes.

    `served` tells the queues that live workers consume. Raises `InvalidInput` for an address that may not be called, and
    `Refused` where the tenant is not to be sent to.
    """
    mode, owner = set_up(database, TENANT, dispatcher=settings.dispatcher, retry_delays=[RETRY_DELAY])
    if mode != "live" or owner != settings.dispatcher:
        raise Refused(
            f"Tenant {TENANT} is {mode}, and of dispatcher {owner}: nothing would be sent from here\n"
            f"Make it live (`reminders tenant set {TENANT} --mode live`), or run the doctor with the settings of {owner}"
        )
    for each in left(database, TENANT, USER, LEFT_BEHIND):
        forget_if_ended(database, each, TENANT)
    # Before its row is there for all to see: on a busy machine it may be called before this process gets on.
    began = time.monotonic()
    reminder = _schedule(settings, database, receiver.url + SCRIPT)
    passage = Passage(str(reminder.id), reminder.delivery_key, on_stage=on_stage)
    try:
        seen = _follow(database, reminder, passage, receiver, began=began, within=within)
        passage.calls, passage.effects = receiver.calls(), receiver.effects(reminder.delivery_key)
        if passage.stalled_at is not None or passage.effects != 1:
            passage.why = why_stalled(
                passage.stalled_at, seen, refused=receiver.refused(), served=served(), effects=passage.effects
            )
    finally:
        passage.kept = not _clear(database, reminder)
    return passage


def _schedule(settings: Settings, database: Database, url: str) -> ScheduledReminder:
    provider = registry.load("webhook", settings)
    with database.transaction() as connection:
        request = to_request(
            lambda _: provider,
            partial(allowed_to, connection, settings.schema),
            tenant_id=TENANT,
            user_id=USER,
            kind=KIND,
            channel="webhook",
            destination=url,
            due_at=datetime.now(UTC),
            reference=f"synthetic/{secrets.token_hex(8)}",
        )
        (answer,) = insert(connection, settings.schema, [request], {"webhook": True})
    if isinstance(answer, Conflict):
        raise answer
    return answer


def _follow(
    database: Database,
    reminder: ScheduledReminder,
    passage: Passage,
    receiver: Receiving,
    *,
    began: float,
    within: float,
) -> Followed:
    pace = Event()
    seen = Followed("pending", 0, None, [])
    passage.pass_("scheduled", 0.0)
    while time.monotonic() - began < within:
        with suppress(*DATABASE_AWAY):  # the next look may find it back
            seen = follow(database, reminder.id)
        now = time.monotonic() - began
        signed = [at - began for at in receiver.signed()]
        for stage in _PASSED["sending"] if seen.claims or signed else _PASSED.get(seen.status, ()):
            passage.pass_(stage, min([now, *signed]))
        for stage, at in zip(("called", "retried"), signed, strict=False):
            passage.pass_(stage, at)
        if seen.status not in _LIVE:
            if seen.status == "delivered":
                passage.pass_("delivered", now)
            break
        pace.wait(_LOOK_EVERY)
    return seen


def _clear(database: Database, reminder: ScheduledReminder) -> bool:
    """Cancel what is live and delete what has ended; False if rows stay. A call under way has a few seconds to end."""
    try:
        with database.transaction() as connection:
            cancel(connection, database.schema, reminder.id)
        end = time.monotonic() + ENDS_WITHIN
        while not forget_if_ended(database, reminder.id, TENANT):
            if time.monotonic() > end:
                return False
            Event().wait(_LOOK_EVERY)
    except DATABASE_AWAY:
        return False
    return True

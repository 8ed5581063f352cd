"""A ledger as it comes out of a backup: quarantined step by step, without the look at who is connected."""

from __future__ import annotations

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from integration.ledger.world import ScriptedProvider, World
from reminders.domain.pauses import PauseScope
from reminders.ledger.audit import AuditPolicy, audit
from reminders.ledger.pausing import pause, resume
from reminders.ledger.quarantining import Quarantine, begin, cut, end, quarantines, step

SAID = {"actor": "ada", "reason": "restored"}
WINDOW = 7 * 86400.0
BODY = sha256(ScriptedProvider().body).digest()
POLICY = AuditPolicy(8, 72 * 3600.0, 7 * 86400.0, 256)


def begun(world: World, since: datetime | None = None, *, letters: bool = True) -> Quarantine:
    """One whose verdicts are as of now."""
    paused = pause(world.database, PauseScope(), actor="quarantine", reason="restored").pause
    found = begin(
        world.database, since=since or world.now - timedelta(hours=1), pause_id=paused.id, letters=letters, said=SAID
    )
    cut(world.database, found)
    return quarantines(world.database, 1)[0]


def stepped(world: World, found: Quarantine, *, window: float = WINDOW, size: int = 500) -> bool:
    return step(world.database, found, window=window, formats={"log": 1}, size=size)


def ended(world: World, found: Quarantine) -> Quarantine:
    resume(world.database, [found.pause_id], actor="quarantine")
    end(world.database, found)
    return quarantines(world.database, 1)[0]


def quarantined(world: World, since: datetime | None = None, *, letters: bool = True, **given: Any) -> Quarantine:
    found = begun(world, since, letters=letters)
    while stepped(world, found, **given):
        pass
    return ended(world, found)


def told(found: Quarantine) -> dict[str, int]:
    """The verdicts that fell, with how many."""
    return {verdict: number for verdict, number in found.counts.items() if number}


def tried(world, outcome, **wanted):
    made = world.schedule(**wanted)
    world.finalize(world.opened(made), outcome, body_hash=BODY)
    return made


def uncertain_since(world, made):
    return world.column("notification_deliveries", "uncertain_since", made.id)


def version(world, made):
    return world.column("reminders", "version", made.id)


def key(world, made):
    return world.column("reminders", "delivery_key", made.id)


def violations(world):
    found = audit(world.database, POLICY, since=None, limit=9)
    return [(each.check.name, each.shown) for each in found.results if each.count]


def delivered(world, made, at=0.0):
    """By the next scan and a worker."""
    provider = ScriptedProvider()
    for message in world.published(world.lapse(at)):
        world.deliver(provider, now=world.lapse(at))(message.reminder_id, message.delivery_key)
    return provider.calls

"""Pausing and resuming, in tests."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from reminders.domain.pauses import PauseScope
from reminders.ledger.pausing import Pause, pause, resume
from reminders.ledger.releasing import release_held

WORD = {"actor": "ada", "reason": "receiver is moving"}


def paused(world: Any, *, wait: float = 10.0, **scope: Any) -> UUID:
    """Pause what the scope names, or everything."""
    return pause(world.database, PauseScope(**scope), **WORD, wait=wait).pause.id


def resumed(world: Any, *ids: UUID, rate: float | None = None) -> list[Pause]:
    return resume(world.database, ids, actor="bo", rate=rate)


def held(world: Any, made: Any, at: float = 0.0, **scope: Any) -> UUID:
    """Pause, and let a scan come by: the reminder is held. The pause's id."""
    by = paused(world, **(scope or {"tenant_id": "tenant-a"}))
    world.published(world.lapse(at))
    assert str(world.column("due", "hold_id", made.id)) == str(by)
    return by


def release(world: Any, at: float = 0.0, limit: int = 500, *, now: datetime | None = None) -> int:
    """What a scan's sweep lets go, `at` seconds from now."""
    return release_held(world.database, limit, (now or world.lapse(0)) + timedelta(seconds=at))

"""Changing tenants' modes and dispatchers, in tests."""

from __future__ import annotations

from typing import Any

from reminders.ledger.tenant_moves import Moved, Wanted, hand_over, set_mode
from reminders.ledger.tenant_registry import Dispatcher

WORD = {"actor": "ada", "reason": "rehearsal"}
MAIN, GREEN = Dispatcher("main"), Dispatcher("green")


def moded(world: Any, mode: str, tenant: str = "tenant-a", **more: Any) -> Moved:
    """Set one tenant's mode."""
    return set_mode(world.database, Wanted(tenant=tenant), mode, **{**WORD, **more})


def handed(world: Any, to: str = "green", tenant: str | None = "tenant-a", **more: Any) -> Moved:
    """Hand one tenant over, or all."""
    return hand_over(world.database, Wanted(tenant=tenant), to, **{**WORD, **more})


def shadow_rows(world: Any, *columns: str) -> list[tuple[Any, ...]]:
    """What the ledger of shadows has, oldest first."""
    return world.sql(f"SELECT {', '.join(columns)} FROM reminders.shadow_deliveries ORDER BY decided_at, delivery_key")

"""What a pause covers."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True)
class PauseScope:
    """Reminders that a pause holds: those that fit everything it names. One that names nothing holds all."""

    tenant_id: str | None = None
    channel: str | None = None
    kind: str | None = None
    destination_id: UUID | None = None

    def names_something(self) -> bool:
        return self != PauseScope()

    def words(self) -> str:
        """`tenant shop, channel webhook`, or `everything`."""
        named = {
            "tenant": self.tenant_id,
            "channel": self.channel,
            "kind": self.kind,
            "destination": self.destination_id,
        }
        return ", ".join(f"{name} {value}" for name, value in named.items() if value is not None) or "everything"

"""Whom a suppression is about."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from reminders.domain.errors import InvalidInput
from reminders.domain.identity import destination_id as id_of
from reminders.domain.request import checked_text

EVERY = ""
"""Stands for every channel, or every kind."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Whom a suppression is about: a tenant's user, or one destination; over a channel and of a kind, or `EVERY`.

    A destination is of one channel by itself, so its `channel` is `EVERY`.
    """

    tenant_id: str
    user_id: str | None
    destination_id: UUID | None
    channel: str
    kind: str

    def values(self) -> dict[str, str | None]:
        place = None if self.destination_id is None else str(self.destination_id)
        return {"tenant": self.tenant_id, "user": self.user_id, "destination": place, "channel": self.channel, "kind": self.kind}  # fmt: skip

    @property
    def way(self) -> str:
        return "destination" if self.user_id is None else "user"

    def words(self) -> str:
        """`user ada of shop, kind newsletter`. No address."""
        who = f"destination {self.destination_id}" if self.user_id is None else f"user {self.user_id}"
        parts = [
            f"{who} of {self.tenant_id}",
            self.channel and f"channel {self.channel}",
            self.kind and f"kind {self.kind}",
        ]
        return ", ".join(part for part in parts if part)


def read_scope(
    *,
    tenant_id: object,
    user_id: object = None,
    destination: object = None,
    destination_id: object = None,
    channel: object = None,
    kind: object = None,
) -> Scope:
    """Whom a caller names: by `user_id`, by `destination` (an address) with its channel, or by `destination_id`.

    Raises `InvalidInput`.
    """
    if [user_id, destination, destination_id].count(None) != 2:
        raise InvalidInput("user_id", "name exactly one of a user, an address and a destination's id")
    tenant = checked_text("tenant_id", tenant_id)
    over = EVERY if channel is None else checked_text("channel", channel)
    of = EVERY if kind is None else checked_text("kind", kind)
    if user_id is not None:
        return Scope(tenant, checked_text("user_id", user_id), None, over, of)
    if destination is None:
        return Scope(tenant, None, _place(destination_id), EVERY, of)
    if over == EVERY:
        raise InvalidInput("channel", "is needed with an address: it is one channel's")
    return Scope(tenant, None, id_of(tenant, over, checked_text("destination", destination)), EVERY, of)


def _place(given: object) -> UUID:
    try:
        return given if isinstance(given, UUID) else UUID(str(given))
    except ValueError:
        raise InvalidInput("destination_id", "is no id; `reminders destination list` shows them") from None

"""What a channel's provider is, as protocols. Ours are built so, and another package's must be.

A provider is found by its entry point of the group `reminders.providers`, which names a factory that takes the settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, Protocol, runtime_checkable

from reminders.domain.allowed_places import AllowedPlaces
from reminders.domain.delivery import Delivery
from reminders.domain.look_ups import LookUp
from reminders.domain.outcomes import Outcome


class Provider(Protocol):
    """One channel's way out."""

    channel: str
    deduplicates: bool
    """Whether destinations of this channel are expected to apply one delivery key once (can be set per destination)."""
    body_format: int
    """The rendering rule that a first claim pins; `render` must keep supporting every earlier number."""

    def ready(self) -> None:
        """Raise `SettingsError` unless this process can send; asked when a worker starts."""

    def check_destination(self, destination: str) -> None:
        """Raise `InvalidInput("destination", ...)` unless the channel can deliver there.

        Where only the present settings stand in the way, `NotHere`: it can be suppressed. Where only the host does, since
        it is not public, `NotPublic`: the tenant may be allowed it.
        """

    def render(self, delivery: Delivery) -> bytes:
        """The body for every attempt at this delivery: a pure function of it, without `attempt` and the clock."""

    def send(self, delivery: Delivery, body: bytes, deadline: float) -> Outcome:
        """Make the one call. Returns within `deadline` seconds whatever the far side does, and never raises."""


@runtime_checkable
class GuardsPlaces(Protocol):
    """What a provider has besides, if it refuses hosts that are not public and a tenant may be allowed some."""

    def go_by(self, allowed_to: Callable[[str], AllowedPlaces]) -> None:
        """Ask `allowed_to` for what a tenant is allowed, and only where it would refuse. It may raise `ServiceUnavailable`."""


@runtime_checkable
class LooksUp(Protocol):
    """What a provider has besides, if its far side can be asked whether it knows a delivery key."""

    looks_up: bool
    """Whether it can be asked, with the settings at hand."""
    settle: float
    """Seconds after the claim of the attempt in doubt before which its answer would mean nothing; nobody asks earlier."""

    def look_up(self, delivery: Delivery, deadline: float) -> LookUp:
        """Ask for the delivery's key. Returns within `deadline` seconds whatever the far side does, and never raises.

        `Absent` only if no earlier attempt at the key took effect, and none that is still under way will.
        """


def wrong_for_look_ups(provider: object) -> str | None:
    """What keeps a provider with `look_up` from being asked; None if nothing does."""
    looks_up, settle = getattr(provider, "looks_up", None), getattr(provider, "settle", None)
    if not isinstance(looks_up, bool):
        return f"it has look_up, and looks_up is {looks_up!r}, not a bool"
    if isinstance(settle, bool) or not isinstance(settle, int | float) or not 0 <= settle < float("inf"):
        return f"it has look_up, and settle is {settle!r}, not a number of seconds"
    return None


@runtime_checkable
class Signs(Protocol):
    """What a provider has besides, if it signs what it sends so that a destination can have secrets of its own."""

    signs: bool
    """Whether it signs with every one of `Delivery.secrets` where there are any."""


def can_sign(provider: Provider) -> bool:
    """Whether secrets of its own are of use to a destination of this channel."""
    return isinstance(provider, Signs) and provider.signs


_PARTS = frozenset({"subject", "text", "html"})


@runtime_checkable
class Templated(Protocol):
    """What a provider has besides, if its messages are written by templates (docs/templates.md)."""

    template_parts: Mapping[str, Literal["required", "optional"]]
    """Which parts a template of the channel has, among `subject`, `text` and `html`. Empty if it has no templates."""


def template_parts(provider: Provider) -> Mapping[str, Literal["required", "optional"]]:
    """The parts that the channel's templates have; none for a channel that has no templates."""
    return provider.template_parts if isinstance(provider, Templated) else {}


def wrong_for_templates(provider: object) -> str | None:
    """What keeps a provider with `template_parts` from having templates; None if nothing does."""
    parts = getattr(provider, "template_parts", None)
    if (
        not isinstance(parts, Mapping)
        or not set(parts) <= _PARTS
        or not set(parts.values()) <= {"required", "optional"}
    ):
        return (
            f"template_parts must say of subject, text and html, or some of them, required or optional, not {parts!r}"
        )
    return None


def can_look_up(provider: Provider) -> LooksUp | None:
    """The provider as one that looks keys up, if it does."""
    return provider if isinstance(provider, LooksUp) and provider.looks_up else None

"""The installed channels: every entry point of the group `reminders.providers`, ours and other packages' alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points

from reminders.domain.errors import InvalidInput, SettingsError
from reminders.pipeline.provider import Provider
from reminders.settings import Settings

GROUP = "reminders.providers"


def channels() -> tuple[str, ...]:
    """The names of the installed channels, sorted. Loads none of them."""
    return tuple(sorted(_installed()))


@lru_cache(maxsize=32)
def load(name: str, settings: Settings) -> Provider:
    """The provider of channel `name`, one per settings, so that its connections are shared.

    Raises `InvalidInput("channel", ...)` for a channel that is not installed, and `SettingsError` for one that is
    installed but cannot be used: offered by two packages, not importable, or under another name than its own.
    """
    candidates = _installed().get(name)
    if candidates is None:
        raise InvalidInput("channel", f"{name[:60]!r} is not installed; known channels: {', '.join(channels())}")
    if len(candidates) > 1:
        packages = ", ".join(sorted(point.dist.name if point.dist else point.value for point in candidates))
        raise SettingsError(f"channel {name} is offered by several packages ({packages}); uninstall all but one")
    try:
        factory: Callable[[Settings], Provider] = candidates[0].load()
    except (ImportError, AttributeError) as error:
        raise SettingsError(f"channel {name} cannot be loaded from {candidates[0].value}: {error}") from error
    provider = factory(settings)
    if provider.channel != name:
        raise SettingsError(f"the provider of channel {name} calls itself {provider.channel!r}; they must agree")
    return provider


@cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        found[point.name] = (*found.get(point.name, ()), point)
    return found

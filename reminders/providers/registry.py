"""The installed channels: every entry point of the group `reminders.providers`, ours and other packages' alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from importlib.metadata import EntryPoint, entry_points

from reminders.domain.errors import InvalidInput, SettingsError
from reminders.pipeline.provider import Provider, wrong_for_look_ups, wrong_for_templates
from reminders.settings import Settings

GROUP = "reminders.providers"
LARGEST_FORMAT = 2**31 - 1
_PARTS = ("channel", "deduplicates", "body_format", "ready", "check_destination", "render", "send")


def channels() -> tuple[str, ...]:
    """The names of the installed channels, sorted. Loads none of them."""
    return tuple(sorted(_installed()))


@lru_cache(maxsize=32)
def load(name: str, settings: Settings) -> Provider:
    """The provider of channel `name`, one per settings, so that its connections are shared.

    Raises `InvalidInput("channel", ...)` for a channel that is not installed, and `SettingsError` for one that is
    installed but cannot be used: offered by two packages, not importable, under another name than its own, or not of the
    form of `reminders.pipeline.provider.Provider`.
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
    except Exception as error:
        raise SettingsError(f"importing {candidates[0].value} for channel {name} raised {_kind(error)}") from error
    try:
        provider = factory(settings)
        _check_form(provider, name)
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(f"setting up channel {name} by {candidates[0].value} raised {_kind(error)}") from error
    return provider


def _check_form(provider: Provider, name: str) -> None:
    lacking = [part for part in _PARTS if not hasattr(provider, part)]
    if lacking:
        raise SettingsError(f"the provider of channel {name} lacks {', '.join(lacking)}; see docs/providers.md")
    if provider.channel != name:
        raise SettingsError(f"the provider of channel {name} calls itself {provider.channel!r}; they must agree")
    if hasattr(provider, "look_up") and (wrong := wrong_for_look_ups(provider)):
        raise SettingsError(f"the provider of channel {name} cannot be asked: {wrong}")
    if hasattr(provider, "template_parts") and (wrong := wrong_for_templates(provider)):
        raise SettingsError(f"the provider of channel {name} cannot have templates: {wrong}")
    number: object = provider.body_format
    # Both are written to the ledger, which takes nothing else.
    if not isinstance(provider.deduplicates, bool) or type(number) is not int or not 1 <= number <= LARGEST_FORMAT:
        raise SettingsError(
            f"the provider of channel {name} must have a bool as deduplicates, 1 or more as body_format"
        )


def _kind(error: Exception) -> str:
    # Not its text, which may hold a secret of the settings.
    return type(error).__name__


@cache
def _installed() -> dict[str, tuple[EntryPoint, ...]]:
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for point in entry_points(group=GROUP):
        found[point.name] = (*found.get(point.name, ()), point)
    return found

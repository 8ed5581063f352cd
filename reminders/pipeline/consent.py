"""What a word about consent is about: refused where it can never be met, since it would forbid nothing, silently."""

from __future__ import annotations

from collections.abc import Callable

from reminders.domain.allowed_places import nothing_allowed
from reminders.domain.errors import NotHere
from reminders.domain.request import checked_text
from reminders.pipeline.provider import Provider
from reminders.pipeline.schedule import check_place


def check_channel(providers: Callable[[str], Provider], channel: object) -> Provider | None:
    """The channel's provider; None for None, which is every channel. Raises `InvalidInput` unless it is installed."""
    return None if channel is None else providers(checked_text("channel", channel))


def check_named(
    providers: Callable[[str], Provider], *, tenant_id: str, channel: str | None, destination: str | None
) -> None:
    """Raise `InvalidInput` unless reminders can have this channel and, if one is named, this spelling of a destination.

    Where the present settings do not deliver there, earlier ones may have, and later ones may.
    """
    provider = check_channel(providers, channel)
    if provider is None or destination is None:
        return
    try:
        check_place(provider, tenant_id, destination, nothing_allowed)
    except NotHere:
        return

"""Channels, and everything that the author of one imports from us.

A package offers a channel by an entry point of the group `reminders.providers`, which names a factory: it takes
`Settings` and returns a `Provider`. These names are kept stable for such packages; what stands elsewhere may move. The
kit `reminders.testing` checks a provider against the rules, and docs/providers.md shows how to write one.
"""

from typing import TYPE_CHECKING, Any

from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.domain.look_ups import Absent, Found, LookUp, Undecided
from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown
from reminders.domain.template import Template, TemplateFault
from reminders.pipeline.provider import LooksUp, Provider
from reminders.providers.redaction import redact
from reminders.settings import Settings

if TYPE_CHECKING:
    from reminders.providers.destination_url import parse_destination
    from reminders.providers.http_client import Answer, HttpClient
    from reminders.providers.templating import render_part

_WHEN_USED = {
    "Answer": "http_client",
    "HttpClient": "http_client",
    "parse_destination": "destination_url",
    "render_part": "templating",
}


def __getattr__(name: str) -> Any:
    """What takes long to load, loaded when it is first used: an application that schedules makes no HTTP calls."""
    if name in _WHEN_USED:
        from importlib import import_module  # noqa: PLC0415 (here only)

        return getattr(import_module(f"reminders.providers.{_WHEN_USED[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Absent",
    "Answer",
    "Blocked",
    "Delivered",
    "Delivery",
    "Found",
    "HttpClient",
    "InvalidInput",
    "LookUp",
    "LooksUp",
    "Outcome",
    "Provider",
    "Rejected",
    "Retry",
    "Settings",
    "SettingsError",
    "Template",
    "TemplateFault",
    "Undecided",
    "Unknown",
    "parse_destination",
    "redact",
    "render_part",
]

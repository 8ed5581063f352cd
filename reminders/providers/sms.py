"""Channel `sms`: a short text, written by a template, handed to an HTTP gateway.

No gateway that we know deduplicates on a key of ours: an attempt whose outcome is unknown is looked up at the gateway,
and never sent again on our own. What `delivered` means here is that the gateway has accepted the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from reminders.domain.delivery import Delivery
from reminders.domain.errors import SettingsError
from reminders.domain.failing import through_relay
from reminders.domain.look_ups import LookUp, Undecided
from reminders.domain.outcomes import Outcome, Retry
from reminders.domain.template import TemplateFault
from reminders.pipeline.provider import Provider
from reminders.providers.phone_numbers import check_number
from reminders.providers.sms_parts import parts
from reminders.settings import Settings

if TYPE_CHECKING:
    from reminders.providers.sms_gateway import Gateway

CHANNEL = "sms"
BODY_FORMAT = 1
AFTER_CLAIM = 60.0
"""Seconds after the end of a claim by which a gateway has done with what was sent under it, and lists it."""
PART = "text"
"""The part of a template that is sent."""
TEMPLATE_PARTS: Mapping[str, Literal["required", "optional"]] = MappingProxyType({PART: "required"})
# Controls that phones do not show, and half surrogates, which no encoding can carry.
_UNSENDABLE = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def provider(settings: Settings) -> Provider:
    """The factory behind the entry point."""
    return SmsProvider(settings)


class SmsProvider:
    """See `reminders.pipeline.provider.Provider` and `LooksUp`."""

    channel = CHANNEL
    deduplicates = False
    body_format = BODY_FORMAT
    template_parts = TEMPLATE_PARTS

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.settle = settings.claim + AFTER_CLAIM

    @property
    def looks_up(self) -> bool:
        """With any gateway: what its adapter cannot find stays undecided."""
        return self._settings.sms_url is not None

    def ready(self) -> None:
        """Raise `SettingsError` unless `REMINDERS_SMS_URL` names a gateway. It is not called."""
        _ = self._gateway

    def check_destination(self, destination: str) -> None:
        """Raise `InvalidInput("destination", ...)` unless it is a valid number in E.164 form."""
        check_number(destination)

    def render(self, delivery: Delivery) -> bytes:
        """The text, as UTF-8. Raises `ValueError` for a format it does not know, and `TemplateFault`, also for a text
        that is empty, too long or holds what an SMS cannot carry: nothing is cut or replaced.
        """
        text = _text(delivery)
        count, most = len(parts(text).texts), self._settings.sms_max_parts
        if count > most:
            raise _fault(delivery, f"the text comes to {count} SMS parts; REMINDERS_SMS_MAX_PARTS allows {most}")
        return text.encode()

    def send(self, delivery: Delivery, body: bytes, deadline: float) -> Outcome:
        """Hand the text over, once. Returns within `deadline` seconds and never raises."""
        try:
            gateway = self._gateway
        except SettingsError as error:
            return Retry("not_configured", f"{error}; nothing was sent", blameless=True)
        return through_relay(gateway.send(delivery.destination, body.decode(), deadline))

    def look_up(self, delivery: Delivery, deadline: float) -> LookUp:
        """Look for the text at the gateway. Never `Absent`: a text that it does not list may still go out."""
        from reminders.providers.sms_look_up import Sought, look_up  # noqa: PLC0415 (for senders only)

        if delivery.uncertain_since is None or delivery.claimed_at is None:
            return Undecided("nothing_in_doubt", "no attempt is in doubt", final=True)
        try:
            gateway, text = self._gateway, _text(delivery)
        except (SettingsError, TemplateFault, ValueError) as error:
            return Undecided("not_askable", str(error))
        since, now = delivery.uncertain_since, delivery.claimed_at
        return look_up(gateway, Sought(delivery.destination, text, since, self.settle, now - since), deadline)

    @cached_property
    def _gateway(self) -> Gateway:
        from reminders.providers.sms_gateway import gateway_of  # noqa: PLC0415 (with the HTTP client, for senders only)

        return gateway_of(self._settings)


def _text(delivery: Delivery) -> str:
    from reminders.providers.templating import render_part  # noqa: PLC0415 (Jinja2, for senders only)

    if delivery.body_format != BODY_FORMAT:
        raise ValueError(f"body format {delivery.body_format} is not known to this release; deploy a newer one")
    # How editors close a file is no part of what is said, and may cost a part.
    text = render_part(delivery, PART).rstrip("\r\n")
    if not text.strip():
        raise _fault(delivery, "the text is empty")
    if found := _UNSENDABLE.search(text):
        raise _fault(delivery, f"the text holds U+{ord(found[0]):04X}, which an SMS cannot carry")
    return text


def _fault(delivery: Delivery, message: str) -> TemplateFault:
    assert delivery.template
    return TemplateFault(delivery.template.name, PART, None, message)

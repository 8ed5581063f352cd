"""Channel `email`: one message to one recipient, handed to the operator's own mail server by SMTP.

A mail server deduplicates nothing, so an attempt whose outcome is unknown is never repeated on our own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.domain.failing import through_relay
from reminders.domain.outcomes import Outcome, Rejected, Retry
from reminders.pipeline.provider import Provider
from reminders.providers.email_address import parse_address
from reminders.settings import Settings

if TYPE_CHECKING:
    from reminders.providers.smtp_client import SmtpClient

CHANNEL = "email"
BODY_FORMAT = 1

TEMPLATE_PARTS: Mapping[str, Literal["required", "optional"]] = MappingProxyType(
    {"subject": "required", "text": "required", "html": "optional"}
)


def provider(settings: Settings) -> Provider:
    """The factory behind the entry point."""
    return EmailProvider(settings)


class EmailProvider:
    """See `reminders.pipeline.provider.Provider`. `clock` gives the aware time for the `Date` header."""

    channel = CHANNEL
    deduplicates = False
    body_format = BODY_FORMAT
    template_parts = TEMPLATE_PARTS

    def __init__(self, settings: Settings, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._smtp_client: SmtpClient | None = None

    def ready(self) -> None:
        """Raise `SettingsError` unless this process can send. To be asked when a worker starts."""
        settings = self._settings
        server = settings.smtp_url
        faults = []
        if server is None:
            faults.append("REMINDERS_SMTP_URL is not set: write smtp://user:password@host:587")
        elif server.security == "none" and not (settings.allow_private or server.is_loopback):
            faults.append(
                "REMINDERS_SMTP_URL: starttls=never would send mails and password in the clear; it is allowed to this "
                "machine only, or for development with REMINDERS_ALLOW_PRIVATE=1"
            )
        if settings.mail_from is None:
            faults.append("REMINDERS_MAIL_FROM is not set: write Shop <noreply@shop.example>")
        if settings.unsubscribe_url is not None and settings.webhook_secret is None:
            faults.append("REMINDERS_UNSUBSCRIBE_URL needs REMINDERS_WEBHOOK_SECRET: the links' key is derived from it")
        if faults:
            raise SettingsError("; ".join(faults))

    def check_destination(self, destination: str) -> None:
        """Raise `InvalidInput("destination", ...)` unless it is one e-mail address. No name server is asked."""
        parse_address(destination, allow_private=self._settings.allow_private)

    def render(self, delivery: Delivery) -> bytes:
        """Subject, recipient and content from the delivery's template. Raises `TemplateFault`, `ValueError`.

        `Date`, `From`, `Message-ID` and the unsubscribe headers are no part of it: they depend on the attempt or on the
        settings, and a new sender's name must not turn what is being retried into something else.
        """
        from reminders.providers.email_message import render_message  # noqa: PLC0415 (Jinja2, for senders only)

        if delivery.body_format != BODY_FORMAT:
            raise ValueError(f"body format {delivery.body_format} is not known to this release; deploy a newer one")
        return render_message(delivery, parse_address(delivery.destination, allow_private=True))

    def send(self, delivery: Delivery, body: bytes, deadline: float) -> Outcome:
        """Hand `body` over under headers of this attempt. Returns within `deadline` seconds and never raises."""
        from reminders.providers.email_headers import attempt_lines  # noqa: PLC0415 (for senders only)
        from reminders.providers.smtp_connection import Envelope  # noqa: PLC0415 (the same)

        settings = self._settings
        try:
            self.ready()
        except SettingsError:
            return Retry(
                "not_configured", "the settings of channel email are not complete; nothing was sent", blameless=True
            )
        assert settings.mail_from is not None
        try:
            address = parse_address(delivery.destination, allow_private=settings.allow_private)
        except InvalidInput as error:
            return Rejected("unsendable", str(error), blameless=True)
        head = attempt_lines(settings.mail_from, delivery.delivery_key, self._clock(), self._unsubscribe_link(delivery))
        envelope = Envelope(settings.mail_from.address, address.text, utf8=not address.ascii)
        return through_relay(self._smtp().send(envelope, head + body, deadline))

    def _unsubscribe_link(self, delivery: Delivery) -> str | None:
        url, secret = self._settings.unsubscribe_url, self._settings.webhook_secret
        if url is None or secret is None:
            return None
        from reminders.providers.unsubscribe import link_for  # noqa: PLC0415 (where it is used at all)

        return link_for(url, secret.reveal().encode(), delivery)

    def _smtp(self) -> SmtpClient:
        from reminders.providers.smtp_client import SmtpClient  # noqa: PLC0415 (for senders only)

        with self._lock:
            if self._smtp_client is None:
                assert self._settings.smtp_url is not None
                self._smtp_client = SmtpClient(self._settings.smtp_url, idle_limit=self._settings.concurrency)
            return self._smtp_client

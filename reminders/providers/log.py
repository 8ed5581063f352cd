"""Channel `log`: one line in the log per reminder, for trying things out and for tests of an installation."""

from __future__ import annotations

import logging
import re

from reminders.domain.delivery import Delivery
from reminders.domain.errors import InvalidInput
from reminders.domain.outcomes import Delivered, Outcome
from reminders.pipeline.provider import Provider
from reminders.settings import Settings

BODY_FORMAT = 1
LONGEST_DESTINATION = 200
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
logger = logging.getLogger("reminders.delivery")


def provider(settings: Settings) -> Provider:  # noqa: ARG001 (the signature every factory has)
    """The factory behind the entry point."""
    return LogProvider()


class LogProvider:
    """See `reminders.pipeline.provider.Provider`. The key is in the line: who reads the log can tell a repeat."""

    channel = "log"
    deduplicates = True
    body_format = BODY_FORMAT

    def ready(self) -> None:
        """Nothing is needed to write a line."""

    def check_destination(self, destination: str) -> None:
        """Any text of 1 to 200 characters without controls will do; it is not written anywhere."""
        if not destination.strip() or len(destination) > LONGEST_DESTINATION:
            raise InvalidInput("destination", f"must have 1 to {LONGEST_DESTINATION} characters for channel log")
        if _CONTROL.search(destination):
            raise InvalidInput("destination", "holds a control character or broken text")

    def render(self, delivery: Delivery) -> bytes:
        """The line. Raises `ValueError` for a format it does not know."""
        if delivery.body_format != BODY_FORMAT:
            raise ValueError(f"body format {delivery.body_format} is not known to this release; deploy a newer one")
        return f"reminder due key={delivery.delivery_key} kind={delivery.kind}".encode()

    def send(self, delivery: Delivery, body: bytes, deadline: float) -> Outcome:  # noqa: ARG002 (nothing can hang)
        """Write the line, with key and kind only."""
        logger.info("%s", body.decode())
        return Delivered(reference=delivery.delivery_key)

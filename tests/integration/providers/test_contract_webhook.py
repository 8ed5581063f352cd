"""Channel `webhook` keeps the contract of providers."""

from __future__ import annotations

from typing import ClassVar

from reminders.providers import webhook
from reminders.testing import ProviderContract, Scene


class TestWebhook(ProviderContract):
    factory = webhook.provider
    # A call has been sent within it, and is back soon after it, on a busy machine too.
    deadline = 1.0
    slack = 3.0
    bad_destinations = (
        "example.com/hook",
        "ftp://example.com/",
        "https://user:password@example.com/",
        "https://exa mple.com/",
    )
    cannot: ClassVar = {
        Scene.REFUSES_OUR_CREDENTIALS: "each receiver has a secret of its own: 401 is a refusal like any other"
    }

    def environ(self, far_side):
        return {"REMINDERS_WEBHOOK_SECRET": "a secret for the contract kit"}

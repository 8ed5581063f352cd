"""Channel `log` keeps the contract of providers."""

from __future__ import annotations

from reminders.providers import log
from reminders.testing import ProviderContract


class TestLog(ProviderContract):
    factory = log.provider
    calls_out = False
    bad_destinations = (" ", "x" * 201)

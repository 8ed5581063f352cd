"""Channel `log` keeps the contract of providers."""

from __future__ import annotations

from reminders.providers import log
from reminders.testing import ProviderContract


class TestLog(ProviderContract):
    factory = log.provider
    calls_out = False
    slack = 5.0
    bad_destinations = (" ", "x" * 201)

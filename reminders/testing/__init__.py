"""The contract kit: what any provider must keep, as tests that its author runs. Needs pytest, and no Postgres.

An author subclasses `ProviderContract` in the own test suite and says in a few lines what is to be tested:

    from reminders.testing import ProviderContract
    import chat_provider

    class TestChat(ProviderContract):
        factory = chat_provider.ChatProvider
        bad_destinations = ("general", "ftp://chat.example/hook")

        def environ(self, far_side):
            return {"REMINDERS_X_CHAT_TOKEN": "a-token-for-tests"}

pytest then runs every rule as a test with a name of its own; a failure says what was done, which rule it breaks and where
its reason is written (docs/providers.md). A class rather than fixtures or a list of checks: its hooks have defaults,
types and docstrings, single tests can be selected, marked or extended as usual, and a new release's rules come by
themselves. `reminders.testing.subject.Subject` has all hooks.

The far side is `HttpFarSide` unless `new_far_side` says otherwise; another protocol is a subclass of `TcpFarSide` with
one method, or anything that is a `FarSide`. Only answers that a protocol has no words for may be left out (`cannot`).
"""

try:
    import pytest as _pytest  # noqa: F401 (asked for here, so that its absence is explained)
except ImportError as error:
    raise ImportError("reminders.testing needs pytest: install reminders[testing], or pytest itself") from error

from reminders.testing.contract import ProviderContract
from reminders.testing.far_side import Call, FarSide, NoFarSide, TcpFarSide
from reminders.testing.http_far_side import HttpFarSide, http_answer, repeating
from reminders.testing.rules import RULES, ContractBroken
from reminders.testing.sample import sample_delivery
from reminders.testing.scenes import OUTCOMES, Scene

__all__ = [
    "OUTCOMES",
    "RULES",
    "Call",
    "ContractBroken",
    "FarSide",
    "HttpFarSide",
    "NoFarSide",
    "ProviderContract",
    "Scene",
    "TcpFarSide",
    "http_answer",
    "repeating",
    "sample_delivery",
]

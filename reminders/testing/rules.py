"""The rules that the kit checks, each in a sentence; docs/providers.md has them with their reasons."""

from __future__ import annotations

from typing import NoReturn

RULES = {
    "entry-point": "An entry point of the group reminders.providers names the factory; its name is the provider's channel.",
    "import": "Importing the factory's module does not import Celery: applications import it to schedule.",
    "types": "`deduplicates` is a bool, `body_format` a whole number from 1, and whoever has `look_up` has `looks_up`, a bool, and `settle`, seconds.",
    "unconfigured": "Without any setting the factory, `check_destination` and `render` work, and `send` sends nothing.",
    "ready": "`ready` raises nothing with good settings, and nothing but `SettingsError` with others.",
    "destination": "`check_destination` accepts good destinations and raises nothing but `InvalidInput` for the field `destination`.",
    "destination-text": "`check_destination` refuses the empty text, control characters, broken text and what is over-long.",
    "offline": "The factory, `check_destination` and `render` make no network call.",
    "render": "`render` returns the same bytes each time, and leaves the delivery as it is.",
    "render-attempt": "The body does not depend on the attempt.",
    "render-clock": "The body does not depend on the clock or on the machine's zone.",
    "render-hash-seed": "The body does not depend on Python's hash seed.",
    "render-key-order": "The body does not depend on the order of keys in `data`.",
    "formats": "`render` knows every body format up to its own, and raises for others.",
    "outcome": "`send` returns an outcome and never raises.",
    "deadline": "`send` and `look_up` return within the deadline, whatever the far side does.",
    "meaning": "The outcome says what has happened: what may have taken effect is neither a retry nor a refusal.",
    "one-call": "One `send` makes one call: it never repeats a request by itself.",
    "same-request": "Every attempt sends the same body.",
    "key": "If the channel deduplicates, every attempt carries the delivery key, in the same form.",
    "own-destination": "One provider sends to many destinations, and each message to its own.",
    "no-waiting": "A call that is kept waiting by its far side keeps no other one waiting.",
    "threads": "One provider serves many threads at once.",
    "fork": "A forked child uses none of its parent's connections, and disturbs none.",
    "form": "Fields of an outcome have the documented types; texts have at most 500 characters and can be stored.",
    "private": "No destination, data or secret is in a `repr`, in the log, or in an outcome.",
    "redacted": "What the far side says passes `redact` before it becomes part of an outcome.",
    "look-up": "`look_up` never raises; it is `Absent` only where the far side has said so, `Found` where it has the key.",
}
"""What a provider must keep, by the name that docs/providers.md has for it."""


class ContractBroken(AssertionError):
    """A provider breaks a rule. The text says which one, by what, and where it is documented."""

    def __init__(self, rule: str, what: str) -> None:
        super().__init__(f"{what}\n\nThe rule `{rule}`: {RULES[rule]}\nIts reason is in docs/providers.md#{rule}")
        self.rule = rule


def broken(rule: str, what: str) -> NoReturn:
    """Fail the running check."""
    __tracebackhide__ = True
    raise ContractBroken(rule, what)

"""Looking for a text at a gateway that knows no key of ours: by number, time and words.

Exactly one that can be it is it. None does not say that it was not sent, and of several nobody can tell which one is.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from reminders.domain.look_ups import Found, LookUp, Undecided
from reminders.providers.sms_gateway import Gateway

SKEW = timedelta(seconds=60)
"""How much a gateway's clock may be behind Postgres's."""
LAST_LOOK = timedelta(minutes=15)
"""Since the claim of the attempt in doubt: what is not listed by then will not be."""


@dataclass(frozen=True, slots=True)
class Sought:
    """A text that may have been sent to `to` by an attempt that was claimed at `since` (aware), `ago`.

    It was created at the gateway within `settle` seconds of its claim, or never.
    """

    to: str
    text: str
    since: datetime
    settle: float
    ago: timedelta


def look_up(gateway: Gateway, sought: Sought, deadline: float) -> LookUp:
    """Ask `gateway`, within `deadline` seconds."""
    earliest = sought.since - SKEW
    latest = sought.since + timedelta(seconds=sought.settle)
    listed = gateway.sent_to(sought.to, earliest, deadline)
    if isinstance(listed, Undecided):
        return listed
    # Gateways may trim; apart from that the words must be the same.
    text = sought.text.strip()
    alike = {
        each.reference: each for each in listed if each.text.strip() == text and earliest <= each.created_at <= latest
    }
    if len(alike) > 1:
        reason = f"the gateway has {len(alike)} texts that can be this one"
        return Undecided("several_found", reason, final=True)
    if not alike:
        return Undecided("none_found", "the gateway lists no such text", final=sought.ago >= LAST_LOOK)
    (found,) = alike.values()
    if found.failed:
        reason = f"the gateway accepted the text as {found.reference} and could not deliver it"
        return Undecided("found_failed", reason, final=True)
    return Found(found.reference)

"""What the record of attempts proves about a delivery: was it sent, and can somebody have got it twice?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

SentVerdict = Literal["not_sent", "under_way", "unknown", "once", "deduplicated", "by_word", "maybe_twice", "twice"]

SENT_WORDS: dict[SentVerdict, str] = {
    "not_sent": "not sent: no attempt can have arrived",
    "under_way": "nobody can tell yet: a call is under way",
    "unknown": "nobody knows whether it was sent: an attempt ended unknown",
    "once": "sent once: no more than one attempt can have arrived, and it is confirmed",
    "deduplicated": "sent once, if its destination deduplicates on the key, as it is taken to",
    "by_word": "sent once, if what a person or a look-up said of the attempts before is right",
    "maybe_twice": "perhaps sent twice: more than one attempt can have arrived, and nothing says that one did not",
    "twice": "sent twice: more than one attempt is confirmed, and its destination does not deduplicate",
}
"""Each verdict in one line."""


@dataclass(frozen=True, slots=True)
class CallsOnRecord:
    """The calls under one delivery key, look-ups aside, by what they came to.

    `confirmed` calls were answered with success, `unknown` ones may have arrived; all others surely did not. `deduplicates`
    is what the last claim went by; `found` that a look-up, or a person, has since said that one arrived, `absent` that none had.
    """

    confirmed: int
    unknown: int
    deduplicates: bool
    found: bool = False
    absent: bool = False
    under_way: bool = False
    """Whether a claim is open: its call may arrive, or have arrived."""

    @property
    def can_have_arrived(self) -> int:
        """How many calls may have arrived, the one that is under way included."""
        return self.confirmed + self.unknown + self.under_way


def judge(calls: CallsOnRecord) -> SentVerdict:
    """What follows from the record of one key. It is no proof of what its receiver did with it."""
    if calls.under_way and not calls.confirmed:
        return "under_way"
    if calls.can_have_arrived == 0:
        return "by_word" if calls.found else "not_sent"
    if calls.can_have_arrived == 1:
        if calls.confirmed:
            return "once"
        if calls.found:
            return "by_word"
        return "not_sent" if calls.absent else "unknown"
    if calls.deduplicates:
        return "deduplicated"
    if calls.confirmed > 1:
        return "twice"
    return "by_word" if calls.absent or calls.found else "maybe_twice"


def judge_all(keys: list[CallsOnRecord]) -> SentVerdict:
    """What follows for a reminder that has had several keys: another one makes another delivery, whatever deduplicates."""
    arrived = [calls for calls in keys if judge(calls) != "not_sent"]
    if len(arrived) < 2:
        return judge(arrived[0]) if arrived else "not_sent"
    return "twice" if sum(calls.confirmed > 0 or calls.found for calls in arrived) > 1 else "maybe_twice"

"""What operators say about dead letters, in tests."""

from __future__ import annotations

from typing import Any

from reminders.ledger.closing_letters import Answer, discard, redrive, resolve
from reminders.ledger.review import LetterFilter

WORD = {"actor": "ada", "reason": "fixed"}


def these(*made: Any) -> LetterFilter:
    """A filter that names reminders or letters."""
    return LetterFilter(ids=[getattr(each, "id", each) for each in made])


def redriven(world: Any, *made: Any, **more: Any) -> Answer:
    return redrive(world.database, these(*made), **{**WORD, **more})


def discarded(world: Any, *made: Any, **more: Any) -> Answer:
    return discard(world.database, these(*made), **{**WORD, **more})


def delivered(world: Any, *made: Any, reference: str = "ticket-7", **more: Any) -> Answer:
    return resolve(world.database, these(*made), "delivered", reference=reference, **{**WORD, **more})


def not_sent(world: Any, *made: Any, **more: Any) -> Answer:
    return resolve(world.database, these(*made), "not_sent", **{**WORD, **more})


def why(answer: Answer) -> list[str]:
    """The reasons of what stayed."""
    return [each.reason for each in answer.refused]

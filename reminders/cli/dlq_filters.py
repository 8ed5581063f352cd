"""The options that choose dead letters, the same for every `dlq` command that takes several."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from reminders.ledger.review import FILTERS, LETTER_KINDS, LetterFilter, read_filter

_OPTIONS = (
    click.argument("ids", metavar="[ID]...", nargs=-1),
    click.option("--tenant", help="Only this tenant's."),
    click.option("--kind", type=click.Choice(LETTER_KINDS), help="Only letters of this kind."),
    click.option("--channel", help="Only of this channel."),
    click.option("--destination", metavar="ID", help="Only for this destination; `destination list` shows the ids."),
    click.option("--error-class", metavar="NAME", help="Only those whose last error is this, such as http_503."),
    click.option("--older-than", metavar="AGE", help="Only those opened at least so long ago, such as 2h."),
    click.option("--newer-than", metavar="AGE", help="Only those opened since then, such as 30m."),
)


def choosing_letters(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ids and filters as options, and their `LetterFilter` as its argument `wanted`."""

    @wraps(command)
    def reading(**given: Any) -> Any:
        return command(wanted=read_filter(**{name: given.pop(name) for name in FILTERS}), **given)

    for option in reversed(_OPTIONS):
        option(reading)
    return reading


def choosing_letters_or_all(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same for what changes them: to mean all of them, `--all` must say so."""

    @wraps(command)
    def reading(*, wanted: LetterFilter, everything: bool, **given: Any) -> Any:
        if not wanted.chooses() and not everything:
            raise click.UsageError("Name letters, give a filter, or say --all.")
        return command(wanted=wanted, **given)

    text = "All that wait for a decision; needed where neither ids nor filters are given."
    return choosing_letters(click.option("--all", "everything", is_flag=True, help=text)(reading))

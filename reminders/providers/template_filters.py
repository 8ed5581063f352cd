"""What templates may do with a value. Each filter is a pure function of what it is given, and of bounded cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import quote

from jinja2 import Undefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from reminders.calendar.instants import instant_text
from reminders.domain.errors import InvalidInput
from reminders.providers.template_dates import local_text
from reminders.providers.template_work import LONGEST_VALUE, STEP, Misuse, kept_short, present, within, work_of

MOST_DIGITS = 30


def written(value: Any) -> str:
    """A value as text; `Misuse` for what has no form that a reader would expect."""
    present(value)
    if isinstance(value, str):
        return value
    if value is None:
        raise Misuse("null cannot be written; ask for it with `if`, or give another value with `default`")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, datetime):
        return instant_text(value)
    raise Misuse("a list or an object cannot be written; use `join`, a loop, or one of its values")


def _words(value: Any) -> str:
    """A text of the template or its data. A block of HTML that the template has made is none: it would be cut in two."""
    text = written(value)
    if isinstance(text, Markup):
        raise Misuse("this filter takes texts, not what a `set` block has made")
    return text


def _elements(context: Context, value: Any) -> list[Any] | tuple[Any, ...]:
    """A list, a step for each element paid for."""
    present(value)
    if not isinstance(value, list | tuple):
        raise Misuse("a list is needed here")
    work_of(context).spend(STEP * len(value))
    return value


def _number(value: Any, what: str, least: int, most: int) -> int:
    if type(value) is not int or not least <= value <= most:
        raise Misuse(f"{what} must be a whole number from {least} to {most:,}")
    return value


def default(value: Any, other: Any = "") -> Any:
    """The other value where this one is missing or null."""
    return other if isinstance(value, Undefined) or value is None else value


@pass_context
def join(context: Context, value: Any, separator: Any = "") -> str:
    """The elements of a list as one text."""
    between = written(separator)
    texts = [written(each) for each in _elements(context, value)]
    length = sum(map(len, texts)) + len(between) * len(texts)
    if length > LONGEST_VALUE:
        raise Misuse(f"`join` comes to more than {LONGEST_VALUE:,} characters")
    return kept_short(_together(context, texts, between), context)  # type: ignore[no-any-return]


def _together(context: Context, texts: list[str], between: str = "") -> str:
    if context.eval_ctx.autoescape and any(isinstance(text, Markup) for text in (*texts, between)):
        return escape(between).join(map(escape, texts))
    return between.join(texts)


@pass_context
def concat(context: Context, values: list[Any]) -> str:
    """What `~` does."""
    texts = [written(value) for value in values]
    return kept_short(_together(context, texts), context)  # type: ignore[no-any-return]


@pass_context
def replace(context: Context, value: Any, old: Any, new: Any) -> str:
    """The text with another in place of each `old`."""
    text, before, after = _words(value), _words(old), _words(new)
    if not before:
        raise Misuse("`replace` needs a text to look for")
    work_of(context).spend(len(text))
    if len(text) + text.count(before) * (len(after) - len(before)) > LONGEST_VALUE:
        raise Misuse(f"`replace` comes to more than {LONGEST_VALUE:,} characters")
    return kept_short(text.replace(before, after), context)  # type: ignore[no-any-return]


@pass_context
def truncate(context: Context, value: Any, length: Any, end: Any = "…") -> str:
    """At most `length` characters, the last of them `end` where something was left out."""
    text, last, most = _words(value), _words(end), _number(length, "the length", 1, LONGEST_VALUE)
    cut = text if len(text) <= most else text[: max(0, most - len(last))] + last[:most]
    return kept_short(cut, context)  # type: ignore[no-any-return]


def fixed(value: Any, places: Any = 2) -> str:
    """A number, or a text that is one, with so many decimal places; half goes to the even digit."""
    wanted = _number(places, "the number of places", 0, 10)
    if isinstance(present(value), bool) or not isinstance(value, int | float | str) or len(str(value)) > MOST_DIGITS:
        raise Misuse(f"`fixed` takes a number of at most {MOST_DIGITS} digits")
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        raise Misuse("`fixed` takes a number") from None
    if not number.is_finite() or abs(number.adjusted()) > MOST_DIGITS:
        raise Misuse(f"`fixed` takes a number of at most {MOST_DIGITS} digits")
    return f"{number:.{wanted}f}"


def whole(value: Any) -> int:
    """A number without its decimal places, or the whole number that a text says."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    text = _words(value)
    if len(text) > MOST_DIGITS or not (digits := text.strip().removeprefix("-")).isascii() or not digits.isdigit():
        raise Misuse("`int` takes a number")
    return int(within(int(text)))


def length(value: Any) -> int:
    """How many characters, elements or names there are."""
    if not isinstance(present(value), str | list | tuple | Mapping):
        raise Misuse("`length` takes a text, a list or an object")
    return len(value)


def first(value: Any) -> Any:
    """The first element or character."""
    return _at(value, 0)


def last(value: Any) -> Any:
    """The last element or character."""
    return _at(value, -1)


def _at(value: Any, place: int) -> Any:
    if not isinstance(present(value), str | list | tuple):
        raise Misuse("`first` and `last` take a list or a text")
    if not value:
        raise Misuse("what is empty has no first and no last element")
    return value[place]


@pass_context
def sort(context: Context, value: Any) -> list[Any]:
    """The elements in order: all of them texts, by their characters' numbers, or all of them numbers."""
    found = _elements(context, value)
    kinds = {str if isinstance(each, str) else float if isinstance(each, int | float) else None for each in found}
    if None in kinds or len(kinds) > 1:
        raise Misuse("`sort` takes a list of texts, or one of numbers")
    return sorted(found)


@pass_context
def items(context: Context, value: Any) -> list[tuple[str, Any]]:
    """Names and values of an object, by name."""
    if not isinstance(present(value), Mapping):
        raise Misuse("`items` takes an object")
    work_of(context).spend(STEP * len(value))
    return list(value.items())


@pass_context
def local(context: Context, value: Any, layout: Any, zone: Any = None) -> str:
    """An instant as a wall time, in the reminder's zone unless another one is named."""
    name = context.parent["zone"] if zone is None else _words(zone)
    if name is None:
        raise Misuse('the reminder has no zone; name one: local("%H:%M", zone or "Europe/Berlin")')
    shape = _words(layout)
    work_of(context).spend(STEP * len(shape))
    try:
        return local_text(present(value), shape, name)
    except InvalidInput as error:
        # Its text would quote what it was given.
        what = "zone" if error.field == "zone" else "instant"
        raise Misuse(f"`local` was given no {what} that is known") from None


def _of_text(change: Callable[[str], str]) -> Callable[..., str]:
    @pass_context
    def changed(context: Context, value: Any) -> str:
        text = _words(value)
        work_of(context).spend(len(text))
        return kept_short(change(text), context)  # type: ignore[no-any-return]

    return changed


FILTERS: dict[str, Callable[..., Any]] = {
    "capitalize": _of_text(str.capitalize),
    "count": length,
    "d": default,
    "default": default,
    "first": first,
    "fixed": fixed,
    "int": whole,
    "items": items,
    "join": join,
    "last": last,
    "length": length,
    "local": local,
    "lower": _of_text(str.lower),
    "replace": replace,
    "sort": sort,
    "title": _of_text(str.title),
    "trim": _of_text(str.strip),
    "truncate": truncate,
    "upper": _of_text(str.upper),
    "urlencode": _of_text(lambda text: quote(text, safe="")),
}
"""By the name that templates use."""

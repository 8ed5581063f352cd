"""What commands print: one JSON object a line for programs, tables and aligned fields for people."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from reminders.calendar.instants import instant_text
from reminders.calendar.zones import load_zone
from reminders.domain.errors import InvalidInput

JSON_VERSION = 1
"""Of the objects that `--json` prints. Keys may be added under it, never changed or removed."""
GAP = "  "
NARROWEST = 24
"""Characters that a table's last column keeps on a terminal, if its texts are that long."""


def counted(number: int, what: str) -> str:
    """`1 page`, `2,000 pages`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def print_json(fields: dict[str, Any]) -> None:
    """One object on one line, ASCII only; instants in UTC."""
    print(json.dumps({"v": JSON_VERSION, **fields}, default=_jsonable))


def _jsonable(value: object) -> str:
    if isinstance(value, datetime):
        return instant_text(value)
    if isinstance(value, UUID):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no form in our JSON")


def print_fields(fields: Iterable[tuple[str, object]]) -> None:
    """Names and values, aligned; what has no value is left out."""
    known = [(name, for_people(value)) for name, value in fields if value not in {None, ""}]
    width = max((len(name) for name, _ in known), default=0)
    for name, text in known:
        if _on_terminal():
            _print_wrapped(f"{name:<{width}}{GAP}{text}", " " * (width + len(GAP)))
        else:
            print(f"{name:<{width}}{GAP}{text}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]], *, spare: Sequence[str] = ()) -> None:
    """Columns: as wide as they are where no terminal is, and fitted to the terminal where one is.

    Nothing but the last column is ever wrapped, so that ids can be copied. Where that does not fit, the columns named
    in `spare` are left out, the first of them first; where even then it does not, each row is told in a few lines.
    """
    names = list(headings)
    texts = [[for_people(value) for value in row] for row in rows]
    if not _on_terminal():
        _print_aligned([names, *texts])
        return
    width = _terminal_width()
    for name in [None, *spare]:
        if name is not None:
            place = names.index(name)
            texts = [[*row[:place], *row[place + 1 :]] for row in texts]
            names.remove(name)
        taken = sum(max(len(row[column]) for row in [names, *texts]) + len(GAP) for column in range(len(names) - 1))
        longest = max(len(row[-1]) for row in [names, *texts])
        if taken + min(longest, NARROWEST) <= width:
            _draw_table(names, texts)
            return
    for row in [[for_people(value) for value in row] for row in rows]:
        _print_as_lines(headings, row)


def _print_aligned(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print(GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _print_as_lines(headings: Sequence[str], row: Sequence[str]) -> None:
    """The first value, an id, and below it the others with their names, those without a value left out."""
    print(row[0])
    # A name stays with its value: the break comes before it.
    told = [f"{name}:\N{NO-BREAK SPACE}{text}" for name, text in zip(headings[1:], row[1:], strict=True) if text != "-"]
    _print_wrapped(GAP + GAP.join(told), GAP + GAP)


def _print_wrapped(text: str, indent: str) -> None:
    lines = textwrap.wrap(
        text,
        _terminal_width(),
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        expand_tabs=False,
        replace_whitespace=False,
    )
    print("\n".join(lines).replace("\N{NO-BREAK SPACE}", " "))


def _on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def _terminal_width() -> int:
    return shutil.get_terminal_size().columns


def _draw_table(headings: Sequence[str], texts: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, len(GAP), 0, 0), header_style="bold")
    for heading in headings[:-1]:
        table.add_column(heading, no_wrap=True)
    table.add_column(headings[-1], overflow="fold")
    for row in texts:
        # As `Text`: square brackets in somebody's reference are no markup.
        table.add_row(*(Text(text) for text in row))
    Console(width=_terminal_width()).print(table)


def for_people(value: object) -> str:
    """A value as text on one line. What would steer a terminal is shown as its escape."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return instant_for_people(value, None)
    text = str(value)
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def instant_for_people(instant: datetime, zone: str | None) -> str:
    """`2026-05-01 07:30:00 UTC (09:30 Europe/Berlin)`; the bracket if there is a zone, with the day if it is another."""
    utc = f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if zone is None:
        return utc
    try:
        local = instant.astimezone(load_zone(zone))
    except InvalidInput:
        # A release of the zone database that no longer has it.
        return utc
    day = "" if local.date() == instant.astimezone(UTC).date() else "%Y-%m-%d "
    seconds = ":%S" if local.second else ""
    return f"{utc} ({local:{day}%H:%M{seconds}} {zone})"

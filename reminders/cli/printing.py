"""What commands print: one JSON object a line for programs, tables and aligned fields for people."""

from __future__ import annotations

import json
import sys
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
    known = [(name, value) for name, value in fields if value not in {None, ""}]
    width = max((len(name) for name, _ in known), default=0)
    for name, value in known:
        print(f"{name:<{width}}{GAP}{for_people(value)}")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns: drawn on a terminal, plain and never cut elsewhere."""
    texts = [[for_people(value) for value in row] for row in rows]
    if sys.stdout is not None and sys.stdout.isatty():
        _draw_table(headings, texts)
        return
    widths = [max(len(row[column]) for row in [list(headings), *texts]) for column in range(len(headings))]
    for row in [list(headings), *texts]:
        print(GAP.join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def _draw_table(headings: Sequence[str], texts: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in texts:
        # As `Text`: square brackets in somebody's reference are no markup.
        table.add_row(*(Text(text) for text in row))
    Console().print(table)


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
    """`2026-05-01 07:30:00 UTC (2026-05-01 09:30 Europe/Berlin)`; the bracket if the reminder has a zone."""
    utc = f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if zone is None:
        return utc
    try:
        local = instant.astimezone(load_zone(zone))
    except InvalidInput:
        # A release of the zone database that no longer has it.
        return utc
    seconds = ":%S" if local.second else ""
    return f"{utc} ({local:%Y-%m-%d %H:%M{seconds}} {zone})"

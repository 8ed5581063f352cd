"""JSON Lines: one object a line, UTF-8."""

from __future__ import annotations

from reminders.domain.errors import RemindersError
from reminders.intake.columns import COLUMNS, unknown_column
from reminders.intake.lines import Lines
from reminders.intake.records import Records, Reject
from reminders.intake.strict_json import read_object

_COLUMNS = frozenset(COLUMNS)


def begins_as_json(lines: Lines) -> bool:
    """Whether the first line begins as an object does. Raises `RemindersError` for an array: it would have to be read to its end
    before its first entry.
    """
    first = lines.peek().lstrip("\ufeff \t\r\n")
    if first.startswith("["):
        raise RemindersError(
            f"{lines.name} begins with [ like a JSON array; JSON Lines is needed, one object a line\n"
            "To convert it: jq -c '.[]' FILE > FILE.jsonl"
        )
    return first.startswith("{")


def read_jsonl(lines: Lines, columns: frozenset[str] | None = _COLUMNS) -> Records:
    """The objects, line by line. There is no header, so each line is judged by itself: it may have `columns`, or any."""
    while True:
        lines.start_record()
        text = next(lines, None)
        if text is None:
            return
        if lines.fault is not None:
            yield Reject(lines.first, None, lines.fault)
            continue
        if text.isspace():
            continue
        try:
            values = read_object(text)
        except ValueError as error:
            yield Reject(lines.first, None, str(error))
            continue
        if columns is not None and not values.keys() <= columns:
            unknown = unknown_column(next(name for name in values if name not in columns))
            yield Reject(lines.first, unknown.field, unknown.reason)
            continue
        if None in values.values() or "" in values.values():
            values = {name: value for name, value in values.items() if value is not None and value != ""}
        yield lines.first, values

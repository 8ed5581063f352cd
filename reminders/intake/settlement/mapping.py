"""Any CSV of settlement lines, through a mapping that says in TOML which column means what."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from reminders.calendar.instants import parse_instant
from reminders.calendar.zones import load_zone, to_instant
from reminders.domain.errors import InvalidInput, SettingsError
from reminders.domain.money import DECIMAL_SEPARATORS, digits_of
from reminders.domain.settlement import CATEGORIES, Category
from reminders.intake.settlement.column_format import REQUIRED, ColumnFormat
from reminders.intake.settlement.cutting import ENCODINGS
from reminders.intake.settlement.line_reading import FIELDS, ReadInstant, Values, checked_year
from reminders.intake.settlement.toml_tables import Table, read_toml

ISO = "iso"
_PROBE = datetime(2026, 11, 27, 13, 45, 59, tzinfo=UTC)
DELIMITERS = (",", ";", "\t", "|")
_ONE_AMOUNT = {"gross_debit": "gross", "net_debit": "net"}
_SHOWN = 40


def mapping_format(source: Path | Mapping[str, Any]) -> ColumnFormat:
    """The format that a mapping describes: a TOML file, or what stands in one.

    Raises `SettingsError` that lists every fault of the mapping.
    """
    values = read_toml(source) if isinstance(source, Path) else source
    table = Table(values)
    found = read_mapping(table)
    if table.faults:
        where = source if isinstance(source, Path) else "the mapping"
        raise SettingsError("\n".join(f"{where}: {fault}" for fault in table.faults))
    return found


def read_mapping(table: Table) -> ColumnFormat:
    """The format that `table` describes; it is of no use if the table has faults afterwards."""
    columns = _columns(table.table("columns"))
    constants = _constants(table.table("constants"), columns)
    for name in REQUIRED:
        if name not in columns and name not in constants:
            table.fault("columns", f"{name} has neither a column nor a constant")
    for debit, credit in _ONE_AMOUNT.items():
        if debit in columns and credit not in columns:
            table.fault("columns", f"{debit} is what goes out beside {credit}, which has no column")
    zone = table.text("zone", "UTC", zone_name)
    form = table.text("time_format", ISO, _time_format)
    payout_form = table.text("payout_time_format", form, _time_format)
    values = Values(
        categories=_categories(table),
        read_created_at=_instant_reader(form, zone),
        read_payout_at=lru_cache(maxsize=1024)(_instant_reader(payout_form, zone)),
        decimal_separator=table.one_of("decimal_separator", "auto", DECIMAL_SEPARATORS),
        in_minor_units=table.one_of("amounts", "major", ("major", "minor")) == "minor",
        digits=_digits(table.table("digits")),
        unsigned=frozenset(table.texts("unsigned")),
        fees_are_negative=table.one_of("fees", "positive", ("positive", "negative")) == "negative",
        columns=columns,
    )
    found = ColumnFormat(
        name=table.text("name", "mapping"),
        values=values,
        constants=constants,
        delimiter=table.one_of("delimiter", ",", DELIMITERS),
        encoding=table.text("encoding", "utf-8", _encoding),
    )
    table.close()
    return found


def _columns(table: Table) -> dict[str, str]:
    columns = {name: table.text(name, "").strip() for name in FIELDS if name in table}
    table.close(FIELDS)
    by_column: dict[str, str] = {}
    for name, column in columns.items():
        if column in by_column and column:
            table.fault(name, f"column {column!r} is {by_column[column]} already")
        by_column[column] = name
    return columns


def _constants(table: Table, columns: Mapping[str, str]) -> dict[str, str]:
    constants = {name: table.text(name, "").strip() for name in FIELDS if name in table}
    table.close(FIELDS)
    for name in constants:
        if name in columns:
            table.fault(name, "has a column as well; give the one or the other")
        if name == "line_id":
            table.fault(name, "must differ from line to line, so it needs a column")
    return constants


def _categories(table: Table) -> dict[str, Category]:
    if "categories" not in table:
        table.table("categories")
        return {name: name for name in CATEGORIES}
    words = table.table("categories")
    found: dict[str, Category] = words.entries(lambda entries, word: entries.one_of(word, "other", CATEGORIES))
    return found


def _digits(table: Table) -> dict[str, int]:
    for code in table.names():
        try:
            digits_of(code)
        except ValueError as error:
            table.fault(code, str(error))
    return table.entries(lambda entries, code: entries.whole(code, 0, 0, 4))


def zone_name(name: str) -> str:
    """`name` if it is an IANA zone. Raises `ValueError`."""
    try:
        load_zone(name)
    except InvalidInput as error:
        raise ValueError(error.reason) from None
    return name


def _encoding(name: str) -> str:
    try:
        known = codecs.lookup(name).name
    except LookupError:
        known = ""
    if known not in ENCODINGS:
        raise ValueError(f"{name[:_SHOWN]!r} is none of the encodings that are read: {', '.join(sorted(ENCODINGS))}")
    return known


def _time_format(form: str) -> str:
    if form == ISO:
        return form
    try:
        found = datetime.strptime(_PROBE.strftime(form), form)  # noqa: DTZ007 its zone is checked below
    except (ValueError, TypeError) as error:
        raise ValueError(f"{form[:_SHOWN]!r} is no format of `strptime`: {error}") from None
    if found.date() != _PROBE.date() or found.tzinfo is not None:
        raise ValueError(f"{form[:_SHOWN]!r} must give year, month and day, and no zone, as %d.%m.%Y %H:%M:%S does")
    return form


def _instant_reader(form: str, zone: str) -> ReadInstant:
    return partial(_iso_instant, zone=zone) if form == ISO else partial(_formatted_instant, form=form, zone=zone)


def _iso_instant(text: str, zone: str) -> datetime:
    try:
        found = parse_instant(text)
    except InvalidInput as error:
        raise ValueError(error.reason) from None
    return _utc(found, zone)


def _formatted_instant(text: str, form: str, zone: str) -> datetime:
    try:
        found = datetime.strptime(text, form)  # noqa: DTZ007 a wall time; its zone follows
    except ValueError:
        raise ValueError(f"{text[:_SHOWN]!r} does not fit {form!r}") from None
    return _utc(found, zone)


def _utc(found: datetime, zone: str) -> datetime:
    try:
        return checked_year(to_instant(found, zone) if found.tzinfo is None else found.astimezone(UTC))
    except OverflowError:
        raise ValueError(f"is in the year {found.year}, at the end of the calendar") from None

"""Tables of a TOML file, read value by value, with every fault of the file told at once."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import time, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from reminders.domain.durations import parse_duration
from reminders.domain.errors import SettingsError

Value = TypeVar("Value")
Found = TypeVar("Found")
LARGEST_FILE = 1 << 20
LONGEST = timedelta(days=3650)
"""The longest duration: added to any date it stays far within the calendar."""
_SHOWN = 64


class Table:
    """One table, which knows where it stands.

    Each reader takes a key and returns its value, or the default if the key is not there or its value is at fault; the
    fault is noted. `close` notes the keys that nobody has asked for, with the nearest one that exists.
    """

    def __init__(self, values: Mapping[str, Any], name: str = "", faults: list[str] | None = None) -> None:
        self.faults: list[str] = [] if faults is None else faults
        self._values = values
        self._name = name
        self._asked: list[str] = []

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def names(self) -> list[str]:
        return list(self._values)

    def fault(self, key: str, what: str) -> None:
        where = f"{self._name}.{key}" if self._name and key else self._name or key
        self.faults.append(f"{where}: {what}")

    def text(self, key: str, default: Value, check: Callable[[str], str] = str) -> str | Value:
        """A text that is not blank. `check` returns it as it is to be kept, or raises `ValueError`."""
        return self._read(key, default, lambda value: check(_text(value)))

    def needed_text(self, key: str, check: Callable[[str], str] = str) -> str:
        if key not in self._values:
            self._asked.append(key)
            self.fault(key, "is missing")
            return ""
        return self.text(key, "", check)

    def one_of(self, key: str, default: Value, choices: Iterable[Value]) -> Value:
        return self._read(key, default, lambda value: _chosen(value, tuple(choices)))

    def duration(self, key: str, default: Value, least: timedelta = timedelta(0)) -> timedelta | Value:
        """`90s`, `5m`, `2h`, `7d` or a number of seconds, at least `least` and at most `LONGEST`."""
        return self._read(key, default, lambda value: _duration(value, least))

    def wall_time(self, key: str, default: Value) -> time | Value:
        """A time of day, `"09:00"` or TOML's own `09:00:00`."""
        return self._read(key, default, _wall_time)

    def whole(self, key: str, default: int, lowest: int, highest: int) -> int:
        return self._read(key, default, lambda value: _whole(value, lowest, highest))

    def texts(self, key: str) -> list[str]:
        """A list of texts, empty if the key is not there."""
        return self._read(key, list[str](), lambda value: [_text(item) for item in _is(value, list, "a list of texts")])

    def table(self, key: str) -> Table:
        """A table in this one, empty if the key is not there."""
        self._asked.append(key)
        found = self._values.get(key, {})
        name = f"{self._name}.{key}" if self._name else key
        if not isinstance(found, dict):
            self.fault(key, "must be a table")
            found = {}
        return Table(found, name, self.faults)

    def entries(self, read: Callable[[Table, str], Value]) -> dict[str, Value]:
        """All values of a table whose keys are anybody's, each as `read` reads it."""
        return {key: read(self, key) for key in self._values}

    def close(self, more: Collection[str] = ()) -> None:
        known = [*self._asked, *more]
        for key in self._values:
            if key not in known:
                self.fault(key, unknown(key, known))

    def _read(self, key: str, default: Value, read: Callable[[Any], Found]) -> Value | Found:
        self._asked.append(key)
        if key not in self._values:
            return default
        try:
            return read(self._values[key])
        except ValueError as error:
            self.fault(key, str(error))
            return default


def read_toml(path: Path) -> dict[str, Any]:
    """The file's values. Raises `SettingsError`."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE + 1)
        if len(raw) > LARGEST_FILE:
            raise SettingsError(f"{path} is no configuration: it is larger than {LARGEST_FILE >> 20} MiB")
        return tomllib.loads(raw.decode("utf-8-sig"))
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path} is no UTF-8 text") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SettingsError(f"{path} is no TOML: {error}") from None
    except ValueError as error:
        # Of a name with a NUL.
        raise SettingsError(f"{str(path)!r} cannot be read: {error}") from None


def unknown(key: str, known: Collection[str]) -> str:
    """That nothing is called `key`, with the nearest name that exists."""
    near = get_close_matches(key[:_SHOWN].lower(), known, n=1)
    return (
        f"is not known; did you mean {near[0]}?" if near else f"is not known; there are {', '.join(sorted(set(known)))}"
    )


def _is(value: object, kind: type[Value], what: str) -> Value:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"must be {what}")  # noqa: TRY004 a value of a file, not an argument
    return value


def _text(value: object) -> str:
    text = _is(value, str, "a text in quotes")
    if not text.strip():
        raise ValueError("is empty")
    return text


def _chosen(value: object, choices: tuple[Value, ...]) -> Value:
    for choice in choices:
        if value == choice:
            return choice
    raise ValueError(f"must be one of {', '.join(map(repr, choices))}")


def _duration(value: object, least: timedelta) -> timedelta:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    seconds = parse_duration(_is(value, str, 'a duration such as "90s", "5m", "2h" or "7d"'))
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"must be at most {LONGEST.days:,} days")
    found = timedelta(seconds=seconds)
    if found < least:
        raise ValueError(f"must be at least {least.total_seconds():g} seconds")
    return found


def _wall_time(value: object) -> time:
    if isinstance(value, str):
        try:
            value = time.fromisoformat(value)
        except ValueError:
            value = None
    if not isinstance(value, time) or value.tzinfo is not None:
        raise ValueError('must be a time of day such as "09:00"; the zone stands elsewhere')
    return value


def _whole(value: object, lowest: int, highest: int) -> int:
    if not lowest <= _is(value, int, "a whole number") <= highest:
        raise ValueError(f"must be a whole number from {lowest} to {highest}")
    return _is(value, int, "a whole number")

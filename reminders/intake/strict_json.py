"""JSON without what its readers disagree about: keys given twice, NaN and Infinity."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises `ValueError` with what is wrong, fit to follow a field's name."""
    try:
        text = text.strip(_BLANKS)
        value, end = _decode(text)
        if end != len(text):
            raise _Refused(f"is no JSON: something follows the object (character {end + 1})")
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: {error.msg} (character {error.pos + 1})") from None
    except RecursionError:
        raise ValueError("is nested too deep") from None
    except ValueError as error:
        if isinstance(error, _Refused):
            raise
        # Python refuses integers of thousands of digits.
        raise ValueError("holds a number with too many digits") from None
    if not isinstance(value, dict):
        raise ValueError(f"must be a JSON object, not {_KINDS[type(value)]}")  # noqa: TRY004 - one kind of error for bad text
    return value


class _Refused(ValueError):
    pass


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise _Refused(f"has the key {twice[:40]!r} twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(f"holds {name}, which JSON does not have")


_decode = json.JSONDecoder(object_pairs_hook=_no_key_twice, parse_constant=_refuse_constant).raw_decode
_BLANKS = " \t\r\n"
_KINDS = {list: "an array", str: "text", int: "a number", float: "a number", bool: "true or false", type(None): "null"}

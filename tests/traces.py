"""Traces of a text, as itself or encoded, in whatever was written down."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote


def forms(text: str) -> dict[str, str]:
    """The text in every form that something may have been kept in, in lower case. Base64 at each of its three offsets."""
    raw = text.encode()
    found = {
        "plain": text,
        "hex": raw.hex(),
        "json": json.dumps(text)[1:-1],
        "url": quote(text, safe=""),
        "escaped": "".join(chr(each) if 32 <= each < 127 else f"\\{each:03o}" for each in raw),
    }
    for offset in range(3):
        whole = base64.b64encode(bytes(offset) + raw).decode()
        # What does not depend on its neighbours.
        found[f"base64+{offset}"] = whole[(0, 2, 3)[offset] : len(whole) - 4]
    return {name: form.lower() for name, form in found.items()}


def traces(texts: Iterable[str], kept: Iterable[tuple[str, str]]) -> list[str]:
    """Where, and in which form, one of `texts` stands in `kept`, pairs of a place and what is there."""
    looked_for = [(text, name, form) for text in texts for name, form in forms(text).items()]
    return [
        f"{place}: {text!r} as {name}: {content[:300]}"
        for place, content in kept
        for text, name, form in looked_for
        if form in content.lower()
    ]


def rows(cursor: Any, schema: str = "reminders") -> list[tuple[str, str]]:
    """Every row of every table of the schema, as text, with the table's name."""
    cursor.execute(
        "SELECT c.relname FROM pg_class c WHERE c.relnamespace = %s::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1",
        (schema,),
    )
    found = []
    for (table,) in cursor.fetchall():
        cursor.execute(f'SELECT t::text FROM {schema}."{table}" t')
        found += [(table, row[0]) for row in cursor.fetchall()]
    return found

"""Every event that is logged has a static name and its fields; docs/logs.md explains each of them, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logs.md").read_text()
LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
LINE = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)((?: [a-z_]+=%(?:s|d|\.1f|\.0f))*)(?:: .+)?", re.DOTALL)
THE_CHANNEL_ITSELF = ROOT / "reminders" / "providers" / "log.py"
"""What it writes is what it delivers."""
TAKEN = {"at", "level", "line", "pid", "logger", "event", "words", "trace"}
"""The names that a line of JSON has anyway."""


def logged() -> Iterator[tuple[str, str, object]]:
    """Where, at which level and with what each line is logged."""
    for path in sorted((ROOT / "reminders").rglob("*.py")):
        if path == THE_CHANNEL_ITSELF:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS:
                whose = ast.unparse(node.func.value)
                if whose in {"logger", "trail", "logging"}:
                    first = node.args[0]
                    text = first.value if isinstance(first, ast.Constant) else None
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.func.attr, text


CALLS = list(logged())


@pytest.mark.parametrize(("where", "level", "text"), CALLS, ids=[where for where, _, _ in CALLS])
def test_a_line_is_an_event_with_fields_and_words(where, level, text):
    found = LINE.fullmatch(text) if isinstance(text, str) else None
    assert found is not None, f"{where} logs {text!r}; write EVENT field=%s ...: words"
    assert not TAKEN & {each.partition("=")[0] for each in found[2].split()}


def documented() -> dict[str, str]:
    """Event and level, as the page's tables have them."""
    return dict(re.findall(r"^\| `([a-z_.]+)` \| ([a-z]+) \|", PAGE, re.MULTILINE))


def test_the_page_explains_every_event_and_no_other():
    events: dict[str, set[str]] = {}
    for _, level, text in CALLS:
        found = LINE.fullmatch(text) if isinstance(text, str) else None
        if found is not None:
            events.setdefault(found[1], set()).add("error" if level == "exception" else level)
    assert documented() == {name: next(iter(levels)) for name, levels in events.items() if len(levels) == 1}


def test_no_event_is_explained_twice():
    names = re.findall(r"^\| `([a-z_.]+)` \|", PAGE, re.MULTILINE)
    assert len(names) == len(set(names))

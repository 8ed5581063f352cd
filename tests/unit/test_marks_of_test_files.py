"""A second `pytestmark` takes the first one's marks away in silence: a long proof would run in every `make test`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted(path for folder in ("tests", "examples") for path in (ROOT / folder).rglob("test_*.py"))


def assigned_twice(source: str) -> list[int]:
    """The lines on which `pytestmark` is given again what it has been given before, in the file or in one of its classes."""
    return [line for body in _bodies(ast.parse(source)) for line in _lines(body)[1:]]


def _bodies(node: ast.Module | ast.ClassDef) -> Iterator[list[ast.stmt]]:
    yield node.body
    for inner in node.body:
        if isinstance(inner, ast.ClassDef):
            yield from _bodies(inner)


def _lines(body: list[ast.stmt]) -> list[int]:
    return [
        name.lineno
        for statement in body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for name in ast.walk(statement)
        if isinstance(name, ast.Name) and name.id == "pytestmark" and isinstance(name.ctx, ast.Store)
    ]


def test_no_file_assigns_its_marks_twice():
    assert len(FILES) > 100
    twice = {str(path.relative_to(ROOT)): lines for path in FILES if (lines := assigned_twice(path.read_text()))}
    assert twice == {}


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        ("pytestmark = 1\n", []),
        ("pytestmark = 1\nx = 2\npytestmark = 3\n", [3]),
        ("pytestmark = 1\npytestmark: object = 2\n", [2]),
        ("pytestmark = 1\n\nclass A:\n    pytestmark = 2\n", []),
        ("class A:\n    pytestmark = 2\n    pytestmark = 3\n", [3]),
    ],
)
def test_the_second_assignment_is_found(source, lines):
    assert assigned_twice(source) == lines

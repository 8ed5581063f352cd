"""In which order files of tests are handed to processes: those that wait among those that compute, so that cores are never idle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, TypeVar

FIRST = ("model/test_model.py", "acceptance/test_documented_commands.py")
"""The longest of all: begun last, they would be waited for alone."""
WAITING = "acceptance"
LONG = tuple(
    f"{WAITING}/test_{name}.py"
    for name in (
        "crashes",
        "redis_away",
        "outages",
        "shutdowns",
        "limits",
        "drills",
        "operators_killed",
        "doctor",
        "metrics_of_an_installation",
    )
)
"""Of those that wait the longest, which come first: one of them as the last of all would run alone."""


class Collected(Protocol):
    @property
    def path(self) -> Path: ...


T = TypeVar("T", bound=Collected)


def interleaved(items: Sequence[T], root: Path) -> list[T]:
    """The same tests: the longest files, then files that wait, the longer ones first, spread evenly among the others. A file stays together, in its order."""
    files: dict[Path, list[T]] = {}
    for item in items:
        files.setdefault(item.path.relative_to(root), []).append(item)
    first = [each for name in FIRST for each in files if each == Path(name)]
    rest = [each for each in files if each not in first]
    long = [Path(name) for name in LONG]
    waiting = sorted(
        (each for each in rest if each.parts[0] == WAITING),
        key=lambda each: long.index(each) if each in long else len(long),
    )
    places = {each: index / len(waiting) for index, each in enumerate(waiting)}
    computing = [each for each in rest if each not in places]
    places |= {each: index / len(computing) for index, each in enumerate(computing)}
    return [item for file in [*first, *sorted(rest, key=lambda each: places[each])] for item in files[file]]

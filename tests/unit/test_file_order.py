"""The order of the suite's files: nothing is lost, files stay whole, and those that wait are spread among the others."""

from dataclasses import dataclass
from pathlib import Path

from file_order import FIRST, LONG, interleaved

ROOT = Path("/tests")


@dataclass(frozen=True)
class Item:
    path: Path
    number: int


def items_of(*names: str) -> list[Item]:
    return [Item(ROOT / name, number) for name in names for number in range(3)]


def test_files_that_wait_are_spread_and_the_longest_come_first() -> None:
    computing = [f"unit/test_{number}.py" for number in range(6)]
    given = items_of("acceptance/test_a.py", LONG[1], LONG[0], FIRST[1], *computing, FIRST[0])
    ordered = interleaved(given, ROOT)
    assert sorted(map(repr, ordered)) == sorted(map(repr, given))
    assert [item.number for item in ordered] == [0, 1, 2] * 11
    assert [str(item.path.relative_to(ROOT)) for item in ordered[::3]] == [
        *FIRST, LONG[0], *computing[:2], LONG[1], *computing[2:4], "acceptance/test_a.py", *computing[4:]
    ]  # fmt: skip


def test_the_files_that_are_named_exist() -> None:
    assert [name for name in (*FIRST, *LONG) if not (Path(__file__).parents[1] / name).is_file()] == []


def test_without_files_of_either_kind_the_order_stays() -> None:
    for names in (["acceptance/test_a.py", "acceptance/test_b.py"], ["unit/test_a.py", "model/test_b.py"], []):
        given = items_of(*names)
        assert interleaved(given, ROOT) == given

"""What people read: aligned, complete, harmless to a terminal."""

import json
from datetime import UTC, datetime
from io import StringIO
from uuid import UUID

import pytest

from reminders.cli.printing import for_people, instant_for_people, print_fields, print_json, print_table

NOON = datetime(2031, 7, 1, 12, tzinfo=UTC)


class Terminal(StringIO):
    def isatty(self):
        return True


def test_json_is_one_line_of_ascii_with_its_version(capsys):
    print_json({"at": NOON, "id": UUID(int=1), "name": "Zoë\n", "none": None})
    out = capsys.readouterr().out
    assert out == (
        '{"v": 1, "at": "2031-07-01T12:00:00Z", "id": "00000000-0000-0000-0000-000000000001", "name": "Zo\\u00eb\\n", '
        '"none": null}\n'
    )
    assert json.loads(out)["name"] == "Zoë\n"


def test_json_does_not_guess():
    with pytest.raises(TypeError, match="Terminal has no form in our JSON"):
        print_json({"what": Terminal()})


def test_a_table_that_is_no_terminal_is_plain_and_whole(capsys):
    print_table(("name", "long heading"), [("a" * 30, None), ("b", "[red]x[/red]" + "y" * 200)])
    assert capsys.readouterr().out.splitlines() == [
        "name" + " " * 28 + "long heading",
        "a" * 30 + "  -",
        "b" + " " * 31 + "[red]x[/red]" + "y" * 200,
    ]


def test_an_empty_table_is_its_headings(capsys):
    print_table(("one", "two"), [])
    assert capsys.readouterr().out == "one  two\n"


def test_a_table_on_a_terminal_shows_values_as_they_are(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    print_table(("name",), [("[bold]kept[/bold]",), ("\x1b[2J",)])
    shown = terminal.getvalue()
    assert "[bold]kept[/bold]" in shown
    assert r"\x1b[2J" in shown


def test_fields_without_a_value_are_left_out(capsys):
    print_fields([("a", 1), ("longer", False), ("none", None), ("empty", "")])
    assert capsys.readouterr().out == "a       1\nlonger  no\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"), (True, "yes"), (0, "0"), (NOON, "2031-07-01 12:00:00 UTC"), ("é 漢", "é 漢"), ("a\nb\tc", r"a\nb\tc"),
        ("\x1b\x9b\u202e\udcff", r"\x1b\x9b\u202e\udcff"),
    ],
)  # fmt: skip
def test_values(value, shown):
    assert for_people(value) == shown


def test_instants_in_the_reminders_zone():
    assert instant_for_people(NOON, "Asia/Kolkata") == "2031-07-01 12:00:00 UTC (2031-07-01 17:30 Asia/Kolkata)"
    assert instant_for_people(NOON, "Gone/Zone") == instant_for_people(NOON, None) == "2031-07-01 12:00:00 UTC"

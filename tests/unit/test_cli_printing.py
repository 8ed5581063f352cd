"""What people read: aligned, complete, harmless to a terminal."""

import json
import re
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
    assert instant_for_people(NOON, "Asia/Kolkata") == "2031-07-01 12:00:00 UTC (17:30 Asia/Kolkata)"
    assert instant_for_people(NOON, "Pacific/Auckland") == "2031-07-01 12:00:00 UTC (2031-07-02 00:00 Pacific/Auckland)"
    assert instant_for_people(NOON, "Gone/Zone") == instant_for_people(NOON, None) == "2031-07-01 12:00:00 UTC"


ID = "019a2b3c-4d5e-7f60-8a9b-0c1d2e3f4a5b"
ROW = (ID, "pending", "2031-07-01 12:00:00 UTC (14:00 Europe/Berlin)", "a-tenant", "user-1", "kind", "order-17")
NAMES = ("id", "status", "due", "tenant", "user", "kind", "reference")


def drawn(monkeypatch, width, headings, rows, **options):
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    print_table(headings, rows, **options)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    return [line.rstrip() for line in lines]


def test_what_does_not_fit_is_told_in_lines_below_the_id(monkeypatch):
    lines = drawn(monkeypatch, 80, NAMES, [ROW])
    assert lines == [
        ID,
        "  status: pending  due: 2031-07-01 12:00:00 UTC (14:00 Europe/Berlin)",
        "    tenant: a-tenant  user: user-1  kind: kind  reference: order-17",
    ]


def test_columns_that_can_be_spared_are_left_out_first(monkeypatch):
    whole = drawn(monkeypatch, 160, NAMES, [ROW], spare=("kind", "user"))
    assert whole[0].split() == list(NAMES)
    fewer = drawn(monkeypatch, len(whole[1]) - 1, NAMES, [ROW], spare=("kind", "user"))
    assert fewer[0].split() == ["id", "status", "due", "tenant", "user", "reference"]
    assert all(text in fewer[1] for text in ROW if text != "kind")


def test_only_the_last_column_is_wrapped(monkeypatch):
    lines = drawn(monkeypatch, 80, ("id", "error"), [(ID, "http_503: " + "x" * 70)])
    assert lines[1].startswith(f"{ID}  http_503:")
    assert "".join(line[38:] for line in lines[1:]).replace(" ", "").endswith("x" * 70)


def test_fields_are_wrapped_below_their_values(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr("sys.stdout", terminal := Terminal())
    print_fields([("why", "its message waits on queue deliver; no worker takes it"), ("id", ID)])
    assert terminal.getvalue().splitlines() == [
        "why  its message waits on queue deliver;",
        "     no worker takes it",
        f"id   {ID}" if len(ID) + 5 <= 40 else "id",
        *([] if len(ID) + 5 <= 40 else [f"     {ID}"]),
    ]

"""Progress: a bar on a terminal, plain lines elsewhere."""

import io

from reminders.intake.importing import Totals
from reminders.intake.progress import BarProgress, PlainProgress


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_plain_lines_come_every_five_seconds():
    out, clock = io.StringIO(), Clock()
    progress = PlainProgress(out, 2000, clock)
    for second, done in ((1, 100), (5, 500), (6, 600), (9.9, 900), (10, 1000)):
        clock.now = 100 + second
        progress.advance(Totals(read=done * 100), done)
    assert out.getvalue().splitlines() == [
        "import: 50,000 records, 10,000/s, 25%, about 15 s left",
        "import: 100,000 records, 10,000/s, 50%, about 10 s left",
    ]


def test_plain_lines_promise_nothing_about_a_pipe():
    out, clock = io.StringIO(), Clock()
    progress = PlainProgress(out, None, clock)
    clock.now += 10
    progress.advance(Totals(read=1000), 77)
    assert out.getvalue() == "import: 1,000 records, 100/s\n"


def test_a_terminal_sees_share_rate_and_time_left():
    out, clock = io.StringIO(), Clock()
    progress = BarProgress(out, 1000, clock)
    for done in (125, 250):
        clock.now += 1
        progress.advance(Totals(read=done * 200), done)
    progress.tell("Postgres is away [bold]")
    shown = io.StringIO()
    console = progress.bar.console
    console.file = shown
    console.print(progress.bar.get_renderable())
    assert "25%" in shown.getvalue()
    assert "50,000 records, 25,000/s" in shown.getvalue()
    assert "00:06" in shown.getvalue()
    assert out.getvalue() == "Postgres is away [bold]\n"

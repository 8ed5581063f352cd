"""A view that is drawn again and again until Ctrl-C, on a terminal in place, elsewhere one after another."""

from __future__ import annotations

import io
import shutil
import sys
import threading
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime

from rich.cells import cell_len, set_cell_size

from reminders.cli.session import signals_unwind

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""The terminal's other screen, without a cursor; and back to what was there before."""
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"


def show_until_interrupted(show: Callable[[], None], seconds: float, *, framed: bool = True) -> None:
    """Call `show`, which prints, every `seconds`; returns at Ctrl-C. Whatever else ends it, the terminal is as it was before.

    `framed` puts the time above each picture. Where no terminal is, pictures follow each other.
    """
    in_place = sys.stdout.isatty()
    pace = threading.Event()
    with signals_unwind():
        try:
            if in_place:
                _write(_ENTER)
            while True:
                picture = _picture(show)
                if framed:
                    picture = (
                        f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC, every {seconds:g} s; Ctrl-C ends\n\n{picture}"
                    )
                _write(_fitted(picture) if in_place else f"{picture}\n" if framed else picture)
                pace.wait(seconds)
        except KeyboardInterrupt:
            pass
        finally:
            if in_place:
                _write(_LEAVE)


def _picture(show: Callable[[], None]) -> str:
    with redirect_stdout(io.StringIO()) as printed:
        show()
    return printed.getvalue()


def _fitted(picture: str) -> str:
    """The picture over the one before it: no line wraps, none scrolls out, nothing of the one before stays."""
    width, height = shutil.get_terminal_size()
    lines = picture.rstrip("\n").split("\n")
    if len(lines) > height:
        lines = [*lines[: height - 1], f"... {len(lines) - height + 1} more lines; a higher window shows them"]
    cut = [line if cell_len(line) <= width else f"{set_cell_size(line, width - 1)}\u2026" for line in lines]
    return _HOME + f"{_REST_OF_LINE}\r\n".join(cut) + _REST_OF_LINE + _REST_OF_SCREEN


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()

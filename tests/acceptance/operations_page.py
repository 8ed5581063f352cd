"""docs/operations.md and the run that it shows: `make operations-page` plants the trouble anew and writes what was said.

A block of the page is a line `<!-- run NAME -->` and a fenced text below it.
"""

from __future__ import annotations

import re
import socket
import sys
import tempfile
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
PAGE = TESTS.parent / "docs" / "operations.md"
_BLOCK = re.compile(r"<!-- run (\S+) -->\n```text\n(.*?)```\n", re.DOTALL)
_VOLATILE = (
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "ID"),
    (r"\bhost:\d+:[0-9a-f]+\b", "WORKER"),
    (r"\bdk_[\w-]{43}", "KEY"),
    (r"\b[0-9a-f]{64}\b", "DIGEST"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( UTC|Z)", "TIME"),
    (r"\d{4}-\d\d-\d\d", "DAY"),
    (r"\d[\d,]*(\.\d+)?", "N"),
    (r"N (min|h|d|ms)\b", "N s"),
    (r"\b(growing|shrinking|steady)\b", "TREND"),
    (r"(?m)^queues .*$", "queues Q"),
    (r"[ \t]+", " "),
)


def shown() -> dict[str, str]:
    """The page's blocks, by name."""
    return dict(_BLOCK.findall(PAGE.read_text()))


def fixed(text: str) -> str:
    """The text without what differs from run to run."""
    for volatile, stands in _VOLATILE:
        text = re.sub(volatile, stands, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def for_page(said: str) -> str:
    """As the page shows it: nothing names this machine."""
    return said.replace(socket.gethostname(), "host").rstrip() + "\n"


def main() -> None:
    sys.path.insert(0, str(TESTS))
    from acceptance.operations_scene import answers, planted

    with tempfile.TemporaryDirectory(prefix="reminders-operations-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        with planted(folder / "home", folder) as scene:
            said = answers(scene)
    page = _BLOCK.sub(
        lambda block: f"<!-- run {block[1]} -->\n```text\n{for_page(said[block[1]])}```\n", PAGE.read_text()
    )
    PAGE.write_text(page)
    print(f"{len(said)} commands; the page shows {len(shown())} of them")


if __name__ == "__main__":
    main()

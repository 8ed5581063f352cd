"""The check of every test file for descriptors that it leaves open can fail.

Each in an interpreter of its own: in this one threads and garbage of other tests may close theirs at any time.
"""

import re
import subprocess
import sys
from pathlib import Path

BEGINNING = """
import os
from pathlib import Path
from descriptors import none_left
"""


def in_an_interpreter_of_its_own(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", BEGINNING + program],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_what_stays_open_is_told_by_its_kind():
    done = in_an_interpreter_of_its_own(
        "with none_left(2, patience=0.2):\n    kept = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]"
    )
    assert done.returncode == 1
    assert "AssertionError: 3 descriptors more than before are open: {" in done.stderr
    assert re.search(r"'/dev/null': [3-9]", done.stderr)


def test_as_many_as_are_allowed_may_stay():
    done = in_an_interpreter_of_its_own("with none_left(1):\n    kept = os.open(os.devnull, os.O_RDONLY)")
    assert done.returncode == 0, done.stderr


def test_what_another_thread_closes_a_moment_later_does_not_count():
    done = in_an_interpreter_of_its_own(
        "import threading\nwith none_left(0):\n    threading.Timer(0.5, os.close, [os.open(os.devnull, os.O_RDONLY)]).start()"
    )
    assert done.returncode == 0, done.stderr


def test_garbage_does_not_count():
    ring = "with none_left(0):\n    ring = [Path(os.devnull).open()]\n    ring.append(ring)\n    del ring"
    done = in_an_interpreter_of_its_own(f"import gc\ngc.disable()\n{ring}")
    assert done.returncode == 0, done.stderr

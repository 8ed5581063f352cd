"""The check of every test file for descriptors that it leaves open can fail."""

import os
from pathlib import Path

import pytest

from descriptors import none_left


class Ring:
    """Garbage that only the collector finds, with a descriptor."""

    def __init__(self):
        self.ring = self
        self.file = Path(os.devnull).open()  # noqa: SIM115 (it is to be left open)


def test_what_stays_open_is_told_by_its_kind():
    kept = []
    with (
        pytest.raises(AssertionError, match=r"3 descriptors more than before are open: .*'/dev/null': [3-9]"),
        none_left(2),
    ):
        kept += [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]
    for each in kept:
        os.close(each)


def test_as_many_as_are_allowed_may_stay():
    with none_left(1):
        kept = os.open(os.devnull, os.O_RDONLY)
    os.close(kept)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")
def test_garbage_does_not_count():
    with none_left(0):
        Ring()

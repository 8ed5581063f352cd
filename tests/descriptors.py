"""Descriptors that a test file leaves open: a run of thousands of tests in one process would pass 1,024 of them."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPEN = Path("/dev/fd")
ALLOWED = 12
"""What the run's own servers and the pools between two tests need."""


def open_descriptors() -> int:
    """How many this process has open."""
    return len(list(OPEN.iterdir()))


@contextmanager
def none_left(allowed: int = ALLOWED) -> Iterator[None]:
    """Fails if `allowed` more than before are open at the end. Garbage does not count, and is collected only on suspicion."""
    before = open_descriptors()
    yield
    if open_descriptors() > before + allowed:
        gc.collect()
        more = open_descriptors() - before
        assert more <= allowed, f"{more} descriptors more than before are open: {_kinds()}"


def _kinds() -> dict[str, int]:
    """What all that is open is, as far as the system tells."""
    found: Counter[str] = Counter()
    for descriptor in OPEN.iterdir():
        try:
            found[str(descriptor.readlink()).partition(":[")[0]] += 1
        except OSError:
            found["closed meanwhile, or unknown"] += 1
    return dict(found.most_common())

"""Descriptors that a test file leaves open: a run of thousands of tests in one process would pass 1,024 of them."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OPEN = Path("/dev/fd")
ALLOWED = 12
"""What the run's own servers and the pools between two tests need."""
PATIENCE = 20.0
"""Seconds for threads that serve connections: they close them once they have noticed that the other side has ended."""


def open_descriptors() -> int:
    """How many this process has open."""
    return len(list(OPEN.iterdir()))


@contextmanager
def none_left(allowed: int = ALLOWED, patience: float = PATIENCE) -> Iterator[None]:
    """Fails if `allowed` more than before are open at the end, and stay so for `patience` seconds. Garbage does not count, and is
    collected only on suspicion."""
    before = open_descriptors()
    yield
    if open_descriptors() > before + allowed:
        gc.collect()
        end = time.monotonic() + patience
        while (more := open_descriptors() - before) > allowed and time.monotonic() < end:
            time.sleep(0.05)
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

"""Counts that only a process knows, until somebody takes them away to where all are added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from threading import Lock

MOST_NAMES = 50
"""Names that a process counts apart, so that nobody fills the broker with invented ones."""
OTHERS = "(others)"


class Tally:
    """Counts by name. Thread-safe; costs less than a microsecond. `names` are counted apart whatever comes."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._lock = Lock()
        self._counts: Counter[str] = Counter()
        self._names = {OTHERS, *names}

    def add(self, name: str, number: int = 1) -> None:
        self.put_back({name: number})

    def put_back(self, counts: Mapping[str, int]) -> None:
        """What was taken and could not be told."""
        with self._lock:
            for name, count in counts.items():
                if len(self._names) < MOST_NAMES:
                    self._names.add(name)
                self._counts[name if name in self._names else OTHERS] += count

    def take(self) -> dict[str, int]:
        with self._lock:
            counts, self._counts = self._counts, Counter()
            return dict(counts)


PUBLISH_REFUSED = "publish_refused"
"""Messages that the broker did not surely take."""
REFUSED = "refused:"
"""Begins the name under which claims are counted that were refused; the reason follows."""
GIVEN_UP = "given_up:"
"""Begins the name under which reminders are counted that ended without a call since they waited too long; the status follows."""

events = Tally()
"""Of this process. They are lost with it, at most what a second has brought."""

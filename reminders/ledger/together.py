"""What several threads ask of Postgres at one time, in one statement and one commit.

Nobody waits for company: whoever finds nothing under way goes at once, and what is asked meanwhile goes together next, or
after `PATIENCE`.
A thread has its answer only once the statement that it was part of has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

A = TypeVar("A")
R = TypeVar("R")

MOST = 50
"""Asked in one statement."""
PATIENCE = 1.0
"""Seconds after which nobody waits any longer for a statement that asks for others: its connection may be dead, or its server
process frozen, and who is not part of it goes beside it."""


class Together(Generic[A, R]):
    """Thread-safe. `run` answers many in their order; it is called by one of those who asked, and by one at a time unless it
    takes long.

    If it raises one of `faults` all whom it was for are told, unless it is one of `of_one` too. Any other exception may be
    the fault of one of them, so that each is asked alone then.
    """

    def __init__(
        self,
        run: Callable[[Sequence[A]], Sequence[R]],
        *,
        faults: tuple[type[Exception], ...],
        of_one: tuple[type[Exception], ...] = (),
    ) -> None:
        self._run = run
        self._faults = faults
        self._of_one = of_one
        self._lock = Lock()
        # Neither asked yet nor told to lead.
        self._waiting: list[_Place[A, R]] = []
        self._leaders = 0

    def __call__(self, asked: A) -> R:
        place: _Place[A, R] = _Place(asked)
        with self._lock:
            leads = self._leaders == 0
            if leads:
                self._leaders = 1
            else:
                self._waiting.append(place)
        if not leads:
            self._wait(place)
        if place.answers is None and place.error is None:
            self._lead(place)
        if place.error is not None:
            concerns_all = isinstance(place.error, self._faults) and not isinstance(place.error, self._of_one)
            if concerns_all or place.alone:
                raise place.error
            return self._run([asked])[0]
        assert place.answers is not None
        return place.answers[0]

    def _wait(self, place: _Place[A, R]) -> None:
        """Return once `place` is answered, or is to lead."""
        while not place.woken.acquire(timeout=PATIENCE):
            with self._lock:
                if place in self._waiting:
                    self._waiting.remove(place)
                    self._leaders += 1
                    return

    def _lead(self, own: _Place[A, R]) -> None:
        """Ask for `own` and the first of those who wait, and have the next of them lead."""
        with self._lock:
            group, self._waiting = [own, *self._waiting[: MOST - 1]], self._waiting[MOST - 1 :]
        error: BaseException | None = None
        answers: Sequence[R] = ()
        try:
            answers = self._run([each.asked for each in group])
        except BaseException as raised:  # noqa: BLE001 - raised again by each whom it concerns
            error = raised
        with self._lock:
            following = self._waiting.pop(0) if self._waiting else None
            if following is None:
                self._leaders -= 1
        if following is not None:
            following.woken.release()
        for number, each in enumerate(group):
            each.error, each.alone = error, len(group) == 1
            each.answers = None if error is not None else (answers[number],)
            if each is not own:
                each.woken.release()


class _Place(Generic[A, R]):
    """One thread's place among those who wait. It is woken when it is answered, or is to lead."""

    __slots__ = ("alone", "answers", "asked", "error", "woken")

    def __init__(self, asked: A) -> None:
        self.asked = asked
        self.answers: tuple[R] | None = None
        self.error: BaseException | None = None
        self.alone = False
        self.woken = Lock()
        self.woken.acquire()

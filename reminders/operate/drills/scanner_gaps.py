"""kill -9 of the scanner, or of what it has published, in each gap between two of its steps."""

from __future__ import annotations

from reminders.operate.drills.drill import QUICK_CLAIM, Drill
from reminders.operate.drills.scene import PATIENCE, told
from reminders.operate.drills.stack import Stack

DUE = 20
_SHORT_LEASE = {"REMINDERS_LEASE": "3s"}


def after_lease(stack: Stack) -> None:
    """Rows are leased and nobody holds the lease any more."""
    _kill_scanner(stack, "leased", "after the lease's commit, before the published mark", {"leased": DUE})
    _check_nothing_left(stack)
    _go_on(stack, f"the lease's end ({stack.settings.lease:g} s)")


def after_mark(stack: Stack) -> None:
    """Rows are marked as published and no message left."""
    _kill_scanner(stack, "marked", "after the published mark, before the messages left", {"published": DUE})
    _check_nothing_left(stack)
    _go_on(stack, "the comparison of ledger and broker")


def answer_lost(stack: Stack) -> None:
    """The messages left, but the scanner never learned it and took its mark back."""
    _kill_scanner(stack, "answer-lost", "after the messages left and the broker's answer was lost", {"leased": DUE})
    stack.saw(f"{stack.queued()} messages on the broker")
    stack.start("worker")
    stack.did("started a worker, and no scanner")
    stack.ended({"delivered": DUE})
    stack.scan()
    # By then the leases have ended: they must not bring anything back.
    stack.schedule(["last"], due_in=stack.settings.lease)
    stack.ended({"delivered": DUE + 1})
    stack.check_called_once_each(stack.made)


def messages_lost(stack: Stack) -> None:
    """Redis loses what it had taken."""
    stack.schedule([f"r{number}" for number in range(DUE)])
    scanner = stack.scan()
    stack.wait_until(lambda: stack.queued() == DUE, "the messages are on the broker")
    scanner.kill()
    stack.redis.flushall()
    stack.did("killed the scanner with -9 after its messages left, and emptied Redis")
    stack.check("G10", stack.counts() == {"published": DUE}, "the ledger still has all of them")
    _go_on(stack, "the comparison of ledger and broker")


def half_repaired(stack: Stack) -> None:
    """A repair had moved one of two lapsed claims and had not committed."""
    stack.never_deduplicates("/plain")
    first = stack.scan()
    stack.schedule(["deduplicates"])
    stack.schedule(["does not"], place="/plain")
    stack.wait_until(lambda: stack.queued() == 2, "both messages are on the broker")
    stack.wait_for_counts({"published": 2})
    first.kill()  # so that nobody but the next one repairs, however long all this takes
    worker = stack.start_stopping("worker", "claimed", threads=2)
    worker.await_gap()
    worker.kill()
    stack.did("killed the scanner, and a worker with two open claims")
    # Both claims have ended by then: of one that is found ended alone, the repair is whole and rightly committed.
    stack.pass_time(stack.settings.claim)
    scanner = stack.start_stopping("scanner", "half-repaired")
    stack.tick()
    scanner.await_gap()
    scanner.kill()
    stack.did("let another scanner repair one of them at the claims' end, and killed it before its commit")
    seen = stack.counts()
    stack.check("G3", seen == {"sending": 2} and not stack.attempts(), f"nothing of it was committed: {told(seen)}")
    stack.start("alone")
    stack.scan()
    stack.did("started a third scanner")
    stack.ended({"dead": 1, "delivered": 1})
    stack.check(
        "G4",
        [stack.calls(each) for each in stack.made] == [1, 0],
        "one call where it deduplicates, none where it does not",
    )
    stack.check_in_review()
    stack.check(
        "G7", len(stack.attempts()) == 3, f"recorded attempts: {len(stack.attempts())} (two lost, one delivered)"
    )


def _kill_scanner(stack: Stack, gap: str, where: str, expected: dict[str, int]) -> None:
    stack.schedule([f"r{number}" for number in range(DUE)])
    scanner = stack.start_stopping("scanner", gap)
    stack.tick()
    scanner.await_gap()
    scanner.kill()
    stack.did(f"killed the scanner with -9 {where}")
    seen = stack.counts()
    stack.check("G10", seen == expected, f"the ledger shows {told(seen)} (must be {told(expected)})")


def _check_nothing_left(stack: Stack) -> None:
    stack.check("G3", (stack.queued(), stack.receiver.calls.total()) == (0, 0), "no message left and nobody was called")


def _go_on(stack: Stack, what: str) -> None:
    stack.start("worker")
    stack.scan()
    stack.did(f"started another scanner and a worker; {what} is to bring them back")
    stack.ended({"delivered": DUE}, PATIENCE)
    stack.check_called_once_each(stack.made)


_NOTHING_LEFT = ("G2", "G3", "G4", "G10")
_LEFT = ("G2", "G4", "G10")
DRILLS = (
    Drill(
        "kill-after-lease",
        "kill -9 after the lease's commit, before the published mark",
        _NOTHING_LEFT,
        after_lease,
        _SHORT_LEASE,
    ),
    Drill("kill-after-mark", "kill -9 after the published mark, before the messages left", _NOTHING_LEFT, after_mark),
    Drill(
        "kill-answer-lost",
        "kill -9 after the messages left and the broker's answer was lost",
        _LEFT,
        answer_lost,
        _SHORT_LEASE,
    ),
    Drill("kill-messages-lost", "kill -9 after the messages left; then Redis loses them", _LEFT, messages_lost),
    Drill(
        "kill-half-repaired",
        "kill -9 of a repair that had moved some rows of its batch",
        ("G2", "G3", "G4", "G7"),
        half_repaired,
        QUICK_CLAIM,
    ),
)

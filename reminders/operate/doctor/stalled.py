"""Why a synthetic reminder did not arrive, as far as its last traces tell, and what to look at."""

from __future__ import annotations

from collections.abc import Sequence

from reminders.ledger.synthetic import Followed

_OUR_SIDE = {"unsendable", "forbidden_address"}
_NO_WAY = {"dns", "connect_refused", "connect_failed", "deadline_before_send", "reset_before_send", "tls"}


def why_stalled(stage: str | None, seen: Followed, *, refused: str | None, served: Sequence[str], effects: int) -> str:
    """In a sentence or two. `refused` is the reason of a call whose signature was not good; `served` are the queues with workers."""
    if stage is None:
        return f"it arrived as {effects} logical sends, not one: look at the audit (`reminders audit`)"
    if refused is not None:
        return (
            f"a call came whose signature is not good ({refused}): do the workers have this shell's REMINDERS_WEBHOOK_SECRET, "
            "and does --to name the very URL that they call?"
        )
    if seen.status == "held":
        return f"a pause holds it ({seen.held_for}): `reminders pause list`"
    # The first call that comes is refused on purpose.
    expected = 0 if stage == "called" else 1
    if len(seen.attempts) > expected and seen.attempts[-1].outcome != "delivered":
        return _failed(seen)
    return _where(stage, seen, served)


def _failed(seen: Followed) -> str:
    last = seen.attempts[-1]
    told = f"the last attempt ended as {last.outcome}, {last.error_class}: {last.reason}."
    if last.error_class in _OUR_SIDE:
        return (
            f"{told} Workers call https:// and public addresses only, unless REMINDERS_ALLOW_PRIVATE is set for them: give --to an "
            "https:// address, and allow tenant reminders-doctor its host (`reminders tenant allow add`)"
        )
    if last.error_class in _NO_WAY:
        return f"{told} Workers do not reach the receiver: give --listen an address of this host, and --to the URL by which they get there"
    return f"{told} Look at the log of the workers"


def _where(stage: str, seen: Followed, served: Sequence[str]) -> str:
    match stage:
        case "leased":
            return _no_worker("scan", served) or (
                "no scanner leased it: look at the log of the scanner, and at `reminders status` (is the in-flight limit used up?)"
            )
        case "published":
            return "a scanner leased it, and Redis did not take its message: look at the scanner's log and at `redis_memory`"
        case "claimed":
            return _no_worker("deliver", served) or (
                "its message waits: are the workers of `deliver` busy (`reminders status`), or did they refuse the claim (their log)?"
            )
        case "called":
            return "a worker has claimed it, and no call came: look at the worker's log, and whether it can reach the receiver"
        case "retried":
            return (
                _no_worker("scan", served)
                or _no_worker("deliver", served)
                or f"the first call was refused as it should be, and no second one followed; it is {seen.status}: look at the scanner's log"
            )
        case _:
            return f"it was called twice, and is {seen.status}: its outcome was not recorded; look at the worker's log"


def _no_worker(queue: str, served: Sequence[str]) -> str | None:
    return None if queue in served else f"no live worker consumes queue {queue}: start `reminders worker {queue}`"

"""kill -9 of what a tenant's mode and its dispatcher stand in between: a worker in shadow, and a handover."""

from __future__ import annotations

import json

from reminders.operate.drills.drill import Drill
from reminders.operate.drills.stack import TENANT, Stack

WHY = ("--reason", "drill")


def in_shadow(stack: Stack) -> None:
    """A worker had decided what would be sent, and had not noted it."""
    stack.command("tenant", "set", TENANT, "--mode", "shadow", *WHY)
    _lay_out(stack)
    worker = stack.start_stopping("worker", "shadowed", threads=2)
    worker.await_gap()
    worker.kill()
    stack.did("killed the worker with -9 when it had decided in shadow, before it noted that")
    seen = stack.counts()
    stack.check("G10", seen == {"published": 2} and not _shadows(stack), f"nothing of it is noted: {seen}")
    stack.start("worker")
    stack.scan()
    stack.did("started another; the comparison of ledger and broker is to send the messages again")
    stack.ended({"shadowed": 2})
    calls = stack.receiver.calls.total()
    stack.check("G3", calls == 0 and _shadows(stack) == 2, f"calls: {calls}; noted: {_shadows(stack)}, one for each")
    stack.command("tenant", "set", TENANT, "--mode", "live", *WHY)
    stack.schedule(["fresh"])
    stack.did("set the tenant live, and scheduled another one")
    stack.ended({"delivered": 1, "shadowed": 2})
    stack.check_called_once_each(stack.made[2:])


def in_handover(stack: Stack) -> None:
    """The tenant was the other side's, and nobody had waited for claims, nor woken what was on its way."""
    _lay_out(stack)
    with stack.claim_under_way():
        command = stack.start_command("handover", TENANT, "--to", "other", *WHY)
        stack.wait_until(lambda: _owner(stack) == "other", "the tenant is the other side's")
        command.kill()
        command.wait()
    stack.did("killed the handover with -9 after its commit, while it waited for a claim that was just being taken")
    stack.start("worker")
    stack.scan()
    stack.wait_for_counts({"pending": 2})
    calls = stack.receiver.calls.total()
    stack.check("G3", calls == 0, f"the old side got its messages, and no claim: calls {calls}")
    again = json.loads(stack.command("handover", TENANT, "--to", "other", *WHY, "--json"))
    stack.check("G10", (again["changed"], again["open_claims"]) == ({}, 0), "said again, it is complete")
    stack.command("handover", TENANT, "--to", "main", *WHY)
    stack.did("handed it back")
    stack.ended({"delivered": 2})
    stack.check_called_once_each(stack.made)


def _lay_out(stack: Stack) -> None:
    """Both messages are on the broker, and no scanner runs."""
    scanner = stack.scan()
    stack.schedule(["one", "two"])
    stack.wait_until(lambda: stack.queued() == 2, "both messages are on the broker")
    stack.wait_for_counts({"published": 2})
    scanner.kill()


def _shadows(stack: Stack) -> int:
    return len(stack.command("shadow", "list", "--tenant", TENANT, "--json").splitlines())


def _owner(stack: Stack) -> str | None:
    found: dict[str, str] = json.loads(stack.command("tenant", "show", TENANT, "--json"))
    return found.get("dispatcher")


DRILLS = (
    Drill(
        "kill-in-shadow",
        "kill -9 of a worker that had decided in shadow, before it noted that",
        ("G2", "G3", "G4", "G10"),
        in_shadow,
    ),
    Drill(
        "kill-in-handover",
        "kill -9 of a handover after its commit, before it had woken what was on its way",
        ("G2", "G3", "G4", "G10"),
        in_handover,
    ),
)

"""Trouble planted in a running installation, and what every command of docs/operations.md says about it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from acceptance.forking_shell import ForkingShell
from acceptance.harness import Stack, installation, wait_until
from acceptance.scripted_receiver import ScriptedReceiver
from reminders.ledger.counting import count_attempts
from reminders.ledger.overdue import Late, late

LINES = ("beat", "scanner", "worker", "retry", "alone", "maintenance")
USERS = ("ada", "bob", "cleo", "dan", "eve")
ENVIRON = {
    "REMINDERS_PROCESSES": "1", "REMINDERS_CONCURRENCY": "16", "REMINDERS_HTTP_DEADLINE": "150s", "REMINDERS_CLAIM": "180s",
    "REMINDERS_GRACE": "160s", "REMINDERS_BREAKER_OPEN": "10m", "REMINDERS_SCAN_EVERY": "15s",
}  # fmt: skip
"""A call that hangs, and a breaker that is open, stay so while the commands run."""
HANGING, FAILING, PAUSED, OF_GREEN, CAPPED = 4, 12, 20, 6, 30
SLOWLY = "0.002"
"""A turn in 500 seconds: none comes while commands are asked, or one that has just been leased would be late by another reason."""
EXPECTED = {"calling", "breaker", "paused", "no_dispatcher", "cap"}
ADA = ("--actor", "ada")


class Receiver:
    """Each tenant's receiver: north's hangs, east's fails, shop's drops one answer, is busy once, and refuses old orders."""

    def __init__(self) -> None:
        self.mended = threading.Event()
        self.over = threading.Event()
        self._server = ScriptedReceiver(self._answer)
        self.url = self._server.url

    def close(self) -> None:
        self.over.set()
        self._server.close()

    def _answer(self, _key: str, call: int, body: dict[str, Any]) -> int:
        tenant, reference = body["tenant_id"], body["reference"]
        if tenant == "north":
            self.over.wait(140)
        if tenant == "east":
            return 503
        if reference == "order-7" and call == 1:
            return 503
        if reference == "order-8" and call == 1:
            # Taken, and the answer is lost.
            raise ConnectionResetError
        return 400 if reference.startswith("old-") and not self.mended.is_set() else 200


@dataclass(frozen=True, slots=True)
class Scene:
    """The installation, what is known of the planted trouble, and a shell to ask in."""

    stack: Stack
    receiver: Receiver
    shell: ForkingShell
    hanging: UUID
    retried: UUID
    lost: UUID

    def late(self) -> Late:
        return late(self.stack.database, dispatcher="main", scan_every=self.stack.settings.scan_every, lease=60.0)


@contextmanager
def planted(home: Path, folder: Path) -> Iterator[Scene]:
    """A running installation with trouble of every kind, come to rest."""
    receiver = Receiver()
    try:
        with installation(home, **ENVIRON) as stack, ForkingShell(stack.environ, folder) as shell:
            stack.start(*LINES)
            try:
                yield _plant(stack, receiver, shell)
            finally:
                receiver.over.set()
                # All at once; the harness waits for one after the other.
                for line in stack.lines.values():
                    line.terminate_all()
    finally:
        receiver.close()


def _plant(stack: Stack, receiver: Receiver, shell: ForkingShell) -> Scene:
    def told(*words: str) -> None:
        done = shell.run(["reminders", *words, *ADA])
        assert done.returncode == 0, done.stdout + done.stderr

    told("pause", "--tenant", "west", "--reason", "their receiver is moving")
    told("handover", "south", "--to", "green", "--reason", "release 2")
    told(
        "rate", "set", "--tenant", "bulk", "--per-second", SLOWLY, "--burst", "1", "--reason", "their receiver's limit"
    )

    def schedule(tenant: str, count: int, name: str = "order") -> list[UUID]:
        return [
            stack.schedule(receiver.url, [f"{name}-{number}"], tenant=tenant, user=USERS[number % len(USERS)])[0].id
            for number in range(count)
        ]

    orders = schedule("shop", 30)
    schedule("shop", 3, "old")
    (hanging, *_) = schedule("north", HANGING)
    for tenant, count in (("east", FAILING), ("west", PAUSED), ("south", OF_GREEN), ("bulk", CAPPED)):
        schedule(tenant, count)
    scene = Scene(stack, receiver, shell, hanging, orders[7], orders[8])
    wait_until(
        lambda: _at_rest(scene),
        120,
        lambda: f"the trouble stands; have {scene.late().reasons}, {stack.counts()}",
        every=0.5,
    )
    count_attempts(stack.database, lag=0.0)
    return scene


def _at_rest(scene: Scene) -> bool:
    found = scene.late().reasons
    stands = {"calling": HANGING, "breaker": FAILING, "paused": PAUSED, "no_dispatcher": OF_GREEN}
    ended = scene.stack.query(
        "SELECT count(*) FILTER (WHERE status = 'delivered'), count(*) FILTER (WHERE status = 'dead') FROM reminders WHERE tenant_id = 'shop'"
    )
    told = scene.stack.query(
        "SELECT (SELECT count(*) FROM ticks WHERE name = 'scan_due'), (SELECT count(*) FROM notices)"
    )
    return found.keys() == EXPECTED and stands.items() <= found.items() and ended == [(30, 3)] and told == [(1, 2)]


def answers(scene: Scene) -> dict[str, str]:
    """What each command says, with its command line above it, by the name that the page gives it. Nothing may fail."""
    said: dict[str, str] = {}

    def ask(name: str, *words: str, code: int = 0) -> None:
        done = scene.shell.run(["reminders", *words])
        assert done.returncode == code, f"{name}: {done.stdout}{done.stderr}"
        said[name] = f"$ {_line(['reminders', *words])}\n{done.stdout}{done.stderr}"

    why = ("--reason", "their receiver fails", *ADA)
    ask("late", "late")
    ask("late-tenant", "late", "--tenant", "east")
    ask("show-hanging", "show", str(scene.hanging))
    ask("late-users", "late", "--users", "--tenant", "west", "--limit", "3")
    ask("status", "status")
    ask("slo", "status", "--slo", "--tenant", "shop", "--days", "7")
    ask("show", "show", str(scene.retried))
    ask("twice", "twice", "--since", "1h")
    ask("twice-one", "twice", str(scene.lost))
    ask("twice-user", "twice", "--tenant", "shop", "--user", "dan", "--limit", "4")
    ask("audit", "audit", "--since", "24h")
    ask("letters", "dlq", "list", "--tenant", "shop")
    scene.receiver.mended.set()
    ask("redrive-dry", "dlq", "redrive", "--tenant", "shop", "--error-class", "http_400", "--dry-run")
    ask(
        "redrive",
        "dlq",
        "redrive",
        "--tenant",
        "shop",
        "--error-class",
        "http_400",
        "--rate",
        "10/s",
        "--reason",
        "receiver fixed",
        *ADA,
    )
    ask("stop-tenant", "pause", "--tenant", "east", *why)
    ask("go-on-tenant", "resume", "--tenant", "east", "--rate", "1/s", *ADA)
    ask("stop", "pause", "--all", "--reason", "wrong texts", *ADA)
    ask("pauses", "pause", "list")
    ask("go-on", "resume", "--all", "--rate", "50/s", *ADA)
    ask("slowly-paused", "resume", "--tenant", "west", "--rate", "20/m", *ADA)
    ask("slowly", "drain", "--tenant", "south", "--rate", "5/s", "--reason", "after the outage", "--no-watch", *ADA)
    ask("roll-back", "handover", "south", "--to", "main", "--reason", "release 2 is slow", *ADA)
    ask("modes", "tenant", "modes")
    return said


def _line(words: list[str]) -> str:
    return " ".join(f'"{word}"' if " " in word else word for word in words)

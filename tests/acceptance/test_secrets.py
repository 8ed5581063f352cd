"""Secrets of one's own on a whole installation, changed by commands under running workers; and nothing anywhere shows them."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from acceptance.harness import SECRET, Stack, installation, wait_until
from held_ports import held_port
from integration.listening import end_listening
from integration.raw_receiver import Receiver
from own_keys import KEY, LOST_KEY, OLDER_KEY
from reminders.providers.signing import derive_secret, format_secret, parse_secret

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@pytest.fixture
def stack(home: Path) -> Iterator[Stack]:
    with installation(home, REMINDERS_KEYS=f"{KEY},{OLDER_KEY}") as stack:
        yield stack


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver(lambda connection, _: connection.sendall(OK))
    yield one
    end_listening(one.listener)


class Told:
    """Runs commands and keeps all that they say."""

    def __init__(self, stack: Stack) -> None:
        self._stack = stack
        self.said: list[str] = []

    def __call__(self, *arguments: str, check: bool = True) -> str:
        done = self._stack.cli(*arguments, check=check)
        self.said += [done.stdout, done.stderr]
        return done.stdout

    def rotate(self, url: str, *more: str) -> bytes:
        """The one output that is left out is the one that must show it."""
        done = self._stack.cli("secret", "rotate", "--tenant", "t", "--to", url, "--json", *more)
        self.said.append(done.stderr)
        shown = json.loads(done.stdout)
        text = shown.pop("secret")
        self.said.append(json.dumps(shown))
        return parse_secret(text)


def accepted(secret: bytes, receiver: Receiver, number: int) -> bool:
    request = receiver.requests[number]
    try:
        Webhook(format_secret(secret)).verify(request.body, request.headers)
    except WebhookVerificationError:
        return False
    return True


def forms(secret: bytes) -> list[str]:
    """Every spelling in which it might leak."""
    plain = base64.b64encode(secret).decode()
    return [plain, base64.urlsafe_b64encode(secret).decode(), secret.hex(), repr(secret)[2:-1]]


@pytest.fixture
def port() -> Iterator[int]:
    """Flower's."""
    with held_port() as port:
        yield port


def in_flower(port: int, auth: str = "operator:long-enough") -> str:
    found = []
    for path in ("/api/tasks", "/api/workers", "/workers", "/tasks", "/broker"):
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
        request.add_header("Authorization", "Basic " + base64.b64encode(auth.encode()).decode())
        with urllib.request.urlopen(request, timeout=20) as answer:
            found.append(answer.read().decode())
    return "\n".join(found)


@pytest.mark.timeout(240)
def test_no_secret_and_no_key_shows_anywhere(stack: Stack, receiver: Receiver, port: int) -> None:
    told, url = Told(stack), receiver.url
    stack.start("beat", "scanner", "worker", REMINDERS_SCAN_EVERY="5s")
    stack.start("web", PORT=str(port))
    made = stack.schedule(url, ["r1"])
    stack.wait_all("delivered", 1, 60)
    derived = derive_secret(SECRET.encode(), "t", "webhook", url)
    assert accepted(derived, receiver, 0)

    first = told.rotate(url)
    made += stack.schedule(url, ["r2"])
    stack.wait_all("delivered", 2, 60)
    assert (accepted(first, receiver, 1), accepted(derived, receiver, 1)) == (True, True)

    # A short grace, so that it ends while the workers go on as they are.
    second = told.rotate(url, "--grace", "1s")
    told("secret", "revoke", "--tenant", "t", "--to", url, "--reason", "rehearsal")
    made += stack.schedule(url, ["r3"])
    stack.wait_all("delivered", 3, 60)
    assert [accepted(each, receiver, 2) for each in (second, first, derived)] == [True, False, False]

    # A command with another key makes what the workers cannot read: they wait, say so, and go on once it is replaced.
    readable = stack.environ["REMINDERS_KEYS"]
    stack.environ["REMINDERS_KEYS"] = f"{LOST_KEY} {KEY}"
    third = told.rotate(url)
    made += stack.schedule(url, ["r4"])
    wait_until(lambda: "secrets.unreadable" in stack.log("worker"), 60, "the worker says that it cannot decrypt")
    assert len(receiver.requests) == 3
    assert stack.query("SELECT count(*) FROM delivery_attempts") == [(3,)]
    stack.environ["REMINDERS_KEYS"] = f"{KEY} {LOST_KEY}"
    told("secret", "reencrypt", "--json")
    stack.environ["REMINDERS_KEYS"] = readable
    stack.execute("UPDATE due SET wake_at = clock_timestamp()")
    stack.wait_all("delivered", 4, 60)
    assert [accepted(each, receiver, 3) for each in (third, second)] == [True, True]

    for command in (
        ["secret", "list", "--retired"], ["secret", "list", "--json"], ["secret", "history"], ["secret", "history", "--json"],
        ["secret", "reencrypt"], ["status", "--json"], ["list", "--json"], ["destination", "list", "--json"], ["audit", "--json"],
        ["tenant", "list", "--json"], *(["show", str(each.id), "--json"] for each in made), ["show", str(made[0].id)],
    ):  # fmt: skip
        told(*command)
    stack.environ["REMINDERS_KEYS"] = f"{KEY},{KEY}"
    told("secret", "list", check=False)
    stack.environ["REMINDERS_KEYS"] = KEY[:-3]
    told("secret", "list", check=False)
    stack.environ["REMINDERS_KEYS"] = readable

    ledger = [
        str(stack.query(f"SELECT * FROM {table}"))
        for (table,) in stack.query("SELECT tablename FROM pg_tables WHERE schemaname = 'reminders'")
    ]
    flower = in_flower(port)
    assert "reminders.deliver" in flower
    searched = {
        "commands": "\n".join(told.said),
        "flower": flower,
        "ledger": "\n".join(ledger),
        **{name: stack.log(name) for name in stack.lines},
    }
    assert all(searched.values())
    secret = [form for each in (derived, first, second, third) for form in forms(each)]
    for where, text in searched.items():
        for form in [*secret, KEY, OLDER_KEY, LOST_KEY, KEY[:-3], SECRET]:
            assert form not in text, where
    assert "whsec_" not in "".join(searched.values())

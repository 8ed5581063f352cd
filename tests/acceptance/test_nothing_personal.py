"""Marks are put into everything personal or secret; then a whole installation is run, at DEBUG, and broken; and nothing that
its processes wrote, that Flower shows or that Celery published has one of them."""

from __future__ import annotations

import json
import socket
import threading
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from acceptance import harness
from acceptance.harness import Stack, installation, wait_until
from held_ports import held_port
from reminders.celery_options import options
from reminders.settings import Secret

AUTH = "operator:long-MARKpassword"
SIGNING = "MARKsigning-secret-0123456789"
REPLIES = {
    "fine": b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nMARKreply",
    "refused": b"HTTP/1.1 400 MARKphrase\r\nX-Why: MARKheader\r\nContent-Length: 9\r\n\r\nMARKreply",
    "failing": b"HTTP/1.1 500 MARKphrase\r\nContent-Length: 9\r\n\r\nMARKreply",
    "garbled": b"HTTP/1.1 200 OK\r\nMARKheader without a colon\r\n\r\n",
    "nonsense": b"MARKnonsense\r\n\r\n",
    "gone": b"HTTP/1.1 410 Gone\r\nContent-Length: 9\r\n\r\nMARKreply",
    "broken": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "later": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
}
"""What the far side says, by the last part of its address."""
AT_ONCE = [name for name in REPLIES if name != "later"]


class Replies:
    """A far side that answers each address with its own bytes."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=self._answer, args=(self._listening.accept()[0],), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            head = b""
            while b"\r\n\r\n" not in head:
                if not (more := connection.recv(65536)):
                    return
                head += more
            path = head.split(b" ", 2)[1].decode()
            connection.sendall(REPLIES[path.rpartition("/")[2]])

    def close(self) -> None:
        self._listening.close()


@pytest.fixture
def far_side() -> Iterator[Replies]:
    replies = Replies()
    yield replies
    replies.close()


@pytest.fixture
def port() -> Iterator[int]:
    """Flower's."""
    with held_port() as port:
        yield port


@pytest.fixture
def at_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every worker line logs as much as it can."""
    lines = {
        name: f"{command} --loglevel DEBUG" if " worker " in command else command
        for name, command in harness.procfile().items()
    }
    monkeypatch.setattr(harness, "procfile", lambda: lines)


@pytest.fixture
def published() -> Iterator[Callable[[Stack], list[Any]]]:
    """Whatever Celery publishes about its tasks, from now on."""
    events: list[Any] = []
    apps = []

    def listen(stack: Stack) -> list[Any]:
        app = Celery("listener", set_as_current=False, amqp="reminders.broker.transport:AMQP")
        app.conf.update(options(replace(stack.settings, redis_url=Secret(stack.environ["REDIS_URL"]))))
        apps.append(app)

        def capture() -> None:
            with suppress(Exception), app.connection_for_read() as connection:
                app.events.Receiver(connection, handlers={"*": events.append}).capture()

        threading.Thread(target=capture, daemon=True).start()
        return events

    yield listen
    for app in apps:
        app.pool.force_close_all()


def flower(port: int, path: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}")
    request.add_header("Authorization", "Basic " + b64encode(AUTH.encode()).decode())
    with urllib.request.urlopen(request, timeout=20) as answer:
        return str(answer.read().decode())


def schedule(stack: Stack, url: str, name: str) -> str:
    given = {
        "--tenant": "shop", "--user": "MARKuser", "--kind": "payment_due", "--channel": "webhook",
        "--to": f"{url}/MARKdestination/{name}", "--due-at": "+1s", "--reference": f"MARKreference-{name}",
        "--data": json.dumps({"word": "MARKdata"}),
    }  # fmt: skip
    told = stack.cli("schedule", *[each for pair in given.items() for each in pair], "--json")
    return str(json.loads(told.stdout)["id"])


def ended(stack: Stack, count: int) -> bool:
    return sum(number for status, number in stack.counts().items() if status in {"delivered", "dead"}) >= count


@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["json", pytest.param("lines", marks=pytest.mark.long)])
@pytest.mark.usefixtures("at_debug")
def test_nothing_personal_leaves_the_ledger(
    home: Path, far_side: Replies, published: Callable[[Stack], list[Any]], port: int, form: str
) -> None:
    environ = {
        "REMINDERS_LOG": form, "REMINDERS_FLOWER_AUTH": AUTH, "REMINDERS_WEBHOOK_SECRET": SIGNING, "PORT": str(port),
        "REMINDERS_PROCESSES": "1", "REMINDERS_CONCURRENCY": "4", "REMINDERS_MAX_ATTEMPTS": "2", "REMINDERS_RETRY_DELAYS": "1s",
        # A claim that comes back late is given back, which is no longer the trail that is asked for below.
        "REMINDERS_HTTP_DEADLINE": "4s", "REMINDERS_CLAIM": "20s",
    }  # fmt: skip
    with installation(home, **environ) as stack:
        events = published(stack)
        # Postgres quotes the row that breaks a rule, with all that is in it.
        stack.execute(
            "ALTER TABLE reminders ADD CONSTRAINT planted CHECK (reference <> 'MARKreference-broken' OR status <> 'delivered')"
        )
        stack.start("web", "beat", "scanner", "worker", "retry", "alone", "maintenance")
        wait_until(
            lambda: len(json.loads(shown(port, "/api/workers?refresh=true") or "{}")) >= 5,
            60,
            "Flower knows all workers",
        )
        made = {name: schedule(stack, far_side.url, name) for name in AT_ONCE}
        stack.call(
            "reminders.destination_disable",
            "--kwargs",
            json.dumps({"destination": "MARKaddress", "actor": "a", "reason": "r"}),
        )
        wait_until(lambda: "task.failed" in stack.log("worker"), 60, "a task failed")
        wait_until(lambda: ended(stack, len(AT_ONCE) - 1), 60, "all others have ended")
        stack.kill_redis()
        stack.start_services()
        stack.lines["worker"].kill_children()
        schedule(stack, far_side.url, "later")
        wait_until(lambda: ended(stack, len(made)), 120, "what came after Redis was away has ended")
        pages = ["/api/tasks?limit=1000", "/api/workers", "/tasks", "/workers", "/broker", "/metrics"]
        seen = json.loads(flower(port, "/api/tasks?limit=1000"))
        pages += [f"/task/{each}" for each in seen] + [f"/api/task/info/{each}" for each in seen]
        texts = {f"Flower: {page}": flower(port, page) for page in pages}
        stack.execute("ALTER TABLE reminders DROP CONSTRAINT planted")
        stack.stop()
        texts |= {file.name: file.read_text(errors="replace") for file in home.glob("*.log")}
        texts["events"] = json.dumps(list(events), default=repr)
        texts["Redis"] = repr(everything(stack))

    assert {"reminders.deliver", "reminders.destination_disable"} <= {each["name"] for each in seen.values()}
    assert "task-failed" in texts["events"]
    assert "task.refused" in texts["maintenance.log"]
    for stage in ("deliver.claimed", "deliver.called", "finalize.recorded"):
        assert f"{stage}" in texts["worker.log"]
        assert made["fine"] in texts["worker.log"]
    for stage in ("scan.leased", "publish.sent"):
        assert stage in texts["scanner.log"]
    assert {where: found(text) for where, text in texts.items() if "MARK" in text} == {}
    if form == "json":
        for name in ("worker.log", "scanner.log", "maintenance.log"):
            told = [json.loads(line) for line in texts[name].splitlines() if line.startswith("{")]
            trail = [each["event"] for each in told if each.get("reminder") == made["fine"]]
            assert (
                trail
                == {
                    "scanner.log": ["scan.leased", "publish.sent"],
                    "worker.log": ["deliver.claimed", "deliver.called", "finalize.recorded"],
                    "maintenance.log": [],
                }[name]
            )


def shown(port: int, path: str) -> str | None:
    try:
        return flower(port, path)
    except OSError:
        return None


def found(text: str) -> list[str]:
    """What stands around the marks."""
    return [text[max(0, at - 150) : at + 60] for at in range(len(text)) if text.startswith("MARK", at)][:3]


def everything(stack: Stack) -> list[object]:
    readers = {b"string": "get", b"hash": "hgetall", b"set": "smembers"}
    contents: list[object] = []
    for key in stack.redis.keys("*"):
        kind = stack.redis.type(key)
        if kind == b"list":
            contents.append(stack.redis.lrange(key, 0, -1))
        elif kind == b"zset":
            contents.append(stack.redis.zrange(key, 0, -1))
        elif kind in readers:
            contents.append(getattr(stack.redis, readers[kind])(key))
    return contents

"""`reminders receiver` as a process: what it prints, how it stops, and what survives its death."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest

from held_ports import held_port
from reminders.domain.delivery import Delivery
from reminders.domain.outcomes import Delivered, Rejected
from reminders.embedded_secret import development_secret
from reminders.providers.signing import derive_secret, format_secret
from reminders.providers.webhook import WebhookProvider
from reminders.settings import Secret, Settings

PATIENCE = 60.0
COMMAND = (sys.executable, "-c", "from reminders.cli.app import main; main()", "receiver")


class Running:
    """One receiver process, with its lines as they come."""

    def __init__(self, environ: dict[str, str], arguments: tuple[str, ...]) -> None:
        self.process = subprocess.Popen(
            (*COMMAND, *arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ
        )
        self.errors: queue.Queue[str | None] = queue.Queue()
        self.lines: queue.Queue[str | None] = queue.Queue()
        for stream, lines in ((self.process.stderr, self.errors), (self.process.stdout, self.lines)):
            threading.Thread(target=self._read, args=(stream, lines), daemon=True).start()

    @staticmethod
    def _read(stream, lines):
        with stream:
            for line in stream:
                lines.put(line.rstrip("\n"))
        lines.put(None)

    def url(self) -> str:
        while "Receiving at " not in (line := self.errors.get(timeout=PATIENCE) or pytest.fail("it ended")):
            pass
        return line.removeprefix("Receiving at ").partition(";")[0]

    def end(self, signum: int) -> int:
        self.process.send_signal(signum)
        return self.process.wait(PATIENCE)


@pytest.fixture
def environ(tmp_path) -> dict[str, str]:
    """The environment of a laptop: no address and no secret is set."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("REMINDERS_", "RECEIVER_"))}
    return {**plain, "REMINDERS_HOME": str(tmp_path / "home")}


@pytest.fixture
def port() -> Iterator[int]:
    """One that is there for a process whenever it has started, and for the next."""
    with held_port() as port:
        yield port


@contextmanager
def running(environ, *arguments) -> Iterator[Running]:
    one = Running(environ, arguments)
    try:
        yield one
    finally:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


def sender(secret: Secret) -> WebhookProvider:
    return WebhookProvider(Settings(webhook_secret=secret, allow_private=True))


def send(provider, url, **changes):
    plain = Delivery(
        reminder_id=UUID(int=1),
        delivery_key="dk_1",
        tenant_id="acme",
        user_id="anna",
        kind="invoice",
        channel="webhook",
        destination_id=UUID(int=2),
        destination=url,
        due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        zone=None,
        reference="order-7",
        slot="",
        data={},
        attempt=1,
        body_format=1,
    )
    one = replace(plain, **changes)
    return provider.send(one, provider.render(one), 10.0)


def fetch(url, target):
    with urllib.request.urlopen(url.removesuffix("/hook") + target, timeout=PATIENCE) as answer:
        return answer.read()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_on_a_laptop_it_needs_no_settings_and_stops_when_told(environ, signum):
    with running(environ, "--port", "0") as one:
        url = one.url()
        provider = sender(development_secret(Path(environ["REMINDERS_HOME"])))
        assert send(provider, url) == Delivered("effect-1", 200)
        assert send(provider, url) == Delivered("effect-1", 200)
        assert one.end(signum) == 0
        first, second, end = (one.lines.get(timeout=PATIENCE) for _ in range(3))
        assert first.endswith("Z  applied  #1      acme  invoice  order-7  dk_1")
        assert second.endswith("Z  repeat   #1      acme  invoice  order-7  dk_1")
        assert end is None
        assert one.errors.get(timeout=PATIENCE) == "Received 2: 1 applied, 1 repeated, 0 in conflict, 0 refused"


def test_json_lines(environ):
    secret = Secret("a master secret of an installation")
    with running({**environ, "REMINDERS_WEBHOOK_SECRET": secret.reveal()}, "--port", "0", "--json") as one:
        url = one.url()
        for path in ("", "", "/refuse"):
            send(sender(secret), url + path)
        send(sender(Secret("a master secret of somebody else")), url)
        seen = [json.loads(one.lines.get(timeout=PATIENCE)) for _ in range(4)]
    assert [(line["key"], line["effect"], line["status"]) for line in seen] == [("dk_1", True, 200), ("dk_1", False, 200), ("dk_1", False, 422), (None, False, 401)]  # fmt: skip
    at = datetime.fromisoformat(seen[0].pop("at"))
    assert at.utcoffset().total_seconds() == 0
    assert seen[0] == {"v": 1, "key": "dk_1", "tenant_id": "acme", "user_id": "anna", "kind": "invoice", "reference": "order-7", "due_at": "2026-11-29T12:00:00Z", "effect": True, "status": 200}  # fmt: skip


def test_killed_under_load_and_started_again_it_forgets_nothing_it_confirmed(environ, tmp_path, port):
    provider = sender(development_secret(Path(environ["REMINDERS_HOME"])))
    store = str(tmp_path / "receiver.db")
    keys = [f"dk_{number}" for number in range(400)]
    confirmed = threading.Semaphore(0)
    before_the_kill = threading.Semaphore(300)  # so many at most, however late the kill comes

    def deliver(key):
        outcome = send(provider, url, delivery_key=key)
        if isinstance(outcome, Delivered):
            confirmed.release()
        return outcome

    def deliver_under_load(key):
        assert before_the_kill.acquire(timeout=PATIENCE)
        return deliver(key)

    with ThreadPoolExecutor(8) as pool:
        with running(environ, "--port", str(port), "--store", store) as one:
            url = one.url()
            outcomes = [pool.submit(deliver_under_load, key) for key in keys]
            for _ in range(100):
                assert confirmed.acquire(timeout=PATIENCE)
            assert one.end(signal.SIGKILL) == -signal.SIGKILL
        before_the_kill.release(len(keys))
        before = [outcome.result() for outcome in outcomes]
        assert 100 <= sum(isinstance(outcome, Delivered) for outcome in before) < 400
        with running(environ, "--port", str(port), "--store", store) as one:
            assert one.url() == url
            after = list(pool.map(deliver, keys))
            counts = json.loads(fetch(url, "/report"))
            by_key = [json.loads(line) for line in fetch(url, "/report?keys=1").splitlines()]
    for first, second in zip(before, after, strict=True):
        assert isinstance(second, Delivered)
        assert not isinstance(first, Delivered) or first == second
    assert len({outcome.reference for outcome in after}) == 400
    assert {(line["key"], line["effects"]) for line in by_key} == {(key, 1) for key in keys}
    assert counts["received"] == counts["effects"] + counts["repeats"] == 400
    assert counts["repeats"] >= 100


def test_a_secret_given_outright_comes_from_the_environment(environ):
    mine = derive_secret(b"a master secret that stays elsewhere", "acme", "webhook", "https://shop.example/hook")
    texts = f"{format_secret(b'o' * 32)} {format_secret(mine)}"
    with running({**environ, "RECEIVER_SECRET": texts}, "--port", "0", "--url", "https://shop.example/hook") as one:
        assert one.url() == "https://shop.example/hook"
        assert not Path(environ["REMINDERS_HOME"]).exists()


def test_its_own_url_decides_which_secret_is_right(environ, port):
    secret = Secret("a master secret of an installation")
    url = f"http://127.0.0.1:{port}/in"
    arguments = ("--port", str(port), "--url", url, "--url", "https://shop.example/hook")
    with running({**environ, "REMINDERS_WEBHOOK_SECRET": secret.reveal()}, *arguments) as one:
        one.url()
        assert send(sender(secret), url) == Delivered("effect-1", 200)
        refused = send(sender(secret), f"http://127.0.0.1:{port}/hook")
        assert isinstance(refused, Rejected)
        assert refused.status_code == 401


def test_it_ends_when_nobody_reads_its_lines(environ, port):
    with running(environ, "--port", str(port), "--json") as one:
        url = one.url()
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stdout:
        process = subprocess.Popen((*COMMAND, "--port", str(port)), stdout=stdout, stderr=subprocess.PIPE, text=True, env=environ)  # fmt: skip
    try:
        while "Receiving at" not in process.stderr.readline():
            pass
        os.close(reading)
        send(sender(development_secret(Path(environ["REMINDERS_HOME"]))), url)
        assert process.wait(PATIENCE) == 1
        assert "Traceback" not in process.stderr.read()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stderr.close()


@pytest.mark.parametrize(
    ("arguments", "added", "expected"),
    [
        (["--secret", "hunter2"], {}, (2, "--secret: is not of the form whsec_ followed by base64")),
        (["--url", "shop.example"], {}, (2, "--url: 'shop.example' must be an absolute URL")),
        (["--store", "{tmp}/missing/store.db"], {}, (2, "--store: ")),
        (["--port", "{taken}"], {}, (1, "Choose another with --host or --port")),
        (["--port", "0"], {"DATABASE_URL": "postgresql://x/y"}, (1, "Set REMINDERS_WEBHOOK_SECRET to the sender's")),
        (["--port", "0"], {"REMINDERS_WEBHOOK_SECRET": "short"}, (1, "too short")),
    ],
)
def test_what_is_wrong_is_said_in_a_line_or_two(environ, tmp_path, arguments, added, expected):
    code, message = expected
    with socket.create_server(("127.0.0.1", 0)) as taken:
        places = {"tmp": tmp_path, "taken": taken.getsockname()[1]}
        words = [argument.format(**places) for argument in arguments]
        ended = subprocess.run((*COMMAND, *words), env={**environ, **added}, capture_output=True, text=True, timeout=PATIENCE, check=False)  # fmt: skip
    assert (ended.returncode, ended.stdout) == (code, "")
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "hunter2" not in ended.stderr


def test_during_a_rotation_it_takes_the_old_and_the_new_secret(environ):
    old, new, foreign = (bytes([number]) * 32 for number in (1, 2, 3))
    given = {**environ, "RECEIVER_SECRET": f"{format_secret(old)} {format_secret(new)}"}
    provider = sender(Secret("a master secret of an installation"))
    with running(given, "--port", "0") as one:
        url = one.url()
        for number, secrets in enumerate([(old,), (new,), (new, old), (foreign, new)]):
            assert send(provider, url, delivery_key=f"dk_{number}", secrets=secrets) == Delivered(
                f"effect-{number + 1}", 200
            )
        for secrets in [(foreign,), ()]:
            assert isinstance(send(provider, url, delivery_key="dk_9", secrets=secrets), Rejected)

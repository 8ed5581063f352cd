"""`reminders up` and `reminders demo` on a laptop whose servers, ports and commands are killed or taken."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from acceptance.harness import BIN, unset, wait_until
from held_ports import taken_port

COMMAND = f"{BIN}/reminders"


@pytest.fixture
def start(home: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a command whose output goes to a file beside `home`; what still runs at the end is stopped."""
    running = []

    def call(*arguments: str, **more: str) -> subprocess.Popen[bytes]:
        with (home.parent / f"{arguments[0]}.log").open("ab") as log:
            given = {**unset(), "REMINDERS_HOME": str(home), **more}
            process = subprocess.Popen([COMMAND, *arguments], env=given, stdout=log, stderr=log, cwd=home.parent)
        running.append(process)
        return process

    yield call
    for process in running:
        process.terminate()
        process.wait(60)


def mentioning(text: str) -> list[psutil.Process]:
    """Processes with the text in their command line or in their environment."""
    found = []
    for process in psutil.process_iter(["cmdline", "environ"]):
        known = [*(process.info["cmdline"] or ()), *(process.info["environ"] or {}).values()]
        if process.pid != os.getpid() and any(text in one for one in known):
            found.append(process)
    return found


@pytest.mark.timeout(240)
def test_up_brings_its_redis_back_and_finds_flower_a_port(start, home: Path) -> None:
    with taken_port() as port:
        start("up", PORT=str(port))
        log = home.parent / "up.log"
        found = wait_until(lambda: re.search(r"Flower: http://127.0.0.1:(\d+) ", log.read_text()), 60, "up is up")
        assert int(found[1]) > port
        wait_until(lambda: listens(int(found[1])), 60, "Flower listens where it was announced")
    reference = iter(f"order-{number}" for number in range(9))

    def delivered() -> None:
        name = next(reference)
        call = [COMMAND, "schedule", "--tenant", "t", "--user", "u", "--kind", "k", "--channel", "log", "--to", "x"]
        asked = {**unset(), "REMINDERS_HOME": str(home)}
        subprocess.run([*call, "--due-at", "+1s", "--reference", name], env=asked, check=True, capture_output=True)
        look = [COMMAND, "list", "--reference", name, "--status", "delivered", "--json"]
        wait_until(lambda: subprocess.run(look, env=asked, capture_output=True, check=True).stdout, 60, name)

    def brought_back(server: str) -> int:
        # On a busy machine one that lives may seem silent too, and is said to answer again.
        return len(re.findall(rf"(?i)the embedded .*\b{server}\b.* answers\n", log.read_text()))

    delivered()
    for server in ("redis", "postgres"):
        before = brought_back(server)
        os.kill(int((home / f"{server}.lock").read_text().split()[0]), signal.SIGKILL)
        if server == "redis":
            delivered()
        wait_until(lambda server=server, before=before: brought_back(server) > before, 60, f"{server} is back")
    delivered()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.timeout(240)
def test_a_demo_that_is_stopped_or_killed_leaves_nothing_for_long(start, home: Path) -> None:
    folder = home.parent / "temporary"
    folder.mkdir(mode=0o711)
    log = home.parent / "demo.log"
    for number, code in ((signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)):
        log.write_text("")
        demo = start("demo", TMPDIR=str(folder))
        wait_until(lambda: "A receiver listens" in log.read_text(), 90, "the demo is under way")
        demo.send_signal(number)
        assert demo.wait(60) == code
        if number == signal.SIGTERM:
            assert not list(folder.glob("*/run-*"))
            assert not mentioning(str(folder))
    (left,) = folder.glob("*/run-*")
    # Its processes notice at once, and stop within their grace.
    wait_until(
        lambda: not [p for p in mentioning(str(left)) if "supervised" in " ".join(p.info["cmdline"] or ())],
        60,
        "they stop",
    )
    start("demo", TMPDIR=str(folder))
    wait_until(lambda: not left.exists(), 60, "the next demo clears away")
    assert not mentioning(str(left))

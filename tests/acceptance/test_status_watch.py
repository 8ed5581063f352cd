"""A live view that outlives the servers: it says which one is away, and goes on when it is back."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from acceptance.harness import BIN, ROOT, Stack, wait_until


@pytest.mark.timeout(150)
def test_redis_and_postgres_go_away_and_come_back(stack: Stack) -> None:
    process = subprocess.Popen(
        [f"{BIN}/reminders", "status", "--watch", "0.2"],
        cwd=ROOT, env=stack.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    lines: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()

    def told(beginning: str, *, after: int) -> bool:
        return any(line.startswith(beginning) for line in lines[after:])

    try:
        wait_until(lambda: told("queues", after=0), 30, "it is drawn")
        stack.kill_redis()
        mark = len(lines)
        # Both of one picture: another one may have been half read when Redis was gone.
        wait_until(lambda: told("broker", after=mark) and told("reminders", after=mark), 30, "Redis is away")
        stack.kill_postgres()
        mark = len(lines)
        wait_until(lambda: told("ledger", after=mark), 30, "Postgres is away")
        stack.start_services()
        mark = len(lines)
        wait_until(lambda: told("reminders", after=mark) and told("queues", after=mark), 40, "both are back")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0
    finally:
        if process.poll() is None:
            process.kill()
        reader.join(10)
    assert "Traceback" not in "".join(lines)

"""What processes ask when they start: what is fatal ends them with a reason, what is away is waited for politely."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from threading import Thread

import pytest

from integration.doctor.plants_postgres import POSTGRES
from integration.doctor.plants_redis import REDIS
from integration.doctor.plants_settings import planted
from integration.doctor.scene import STRONG, Scene
from reminders import readiness
from reminders.broker.link import BrokerAway
from reminders.domain.errors import SettingsError
from reminders.operate.doctor.examine import CHECKS
from reminders.settings import Secret

PLANTS = {**POSTGRES, **REDIS}
AT_START = [
    check.name for check in CHECKS if check.at_start and check.name in PLANTS and not check.name.startswith("clock")
]
OF_REDIS = [name for name in AT_START if name in REDIS]
OF_POSTGRES = [name for name in AT_START if name in POSTGRES and name != "postgres_encoding"]


def test_nothing_is_fatal_about_a_healthy_installation(scene: Scene) -> None:
    readiness.refuse_ledger(scene.installation.settings)
    readiness.refuse_broker(scene.installation.settings)


@pytest.mark.parametrize("name", OF_POSTGRES)
def test_what_is_fatal_about_postgres_is_refused_unless_it_is_accepted(scene: Scene, name: str) -> None:
    with planted(PLANTS[name][0], scene):
        settings = scene.installation.settings
        with pytest.raises(SettingsError, match=f"^{name}: "):
            readiness.refuse_ledger(settings)
        readiness.refuse_ledger(replace(settings, accept=(name,)))


@pytest.mark.parametrize("name", OF_REDIS)
def test_what_is_fatal_about_redis_is_refused_unless_it_is_accepted(scene: Scene, name: str) -> None:
    with planted(PLANTS[name][0], scene):
        settings = scene.installation.settings
        with pytest.raises(SettingsError, match=f"^{name}: "):
            readiness.refuse_broker(settings)
        readiness.refuse_broker(replace(settings, accept=(name,)))


def test_another_dispatchers_workers_on_this_redis_are_told_and_stop_nothing(scene: Scene, caplog) -> None:
    with planted(PLANTS["redis_of_two_dispatchers"][0], scene), scene.speaking():
        readiness.refuse_broker(scene.installation.settings)
    (said,) = [each.getMessage() for each in caplog.records if each.name == "reminders.readiness"]
    assert said.startswith(
        "readiness.doubtful: redis_of_two_dispatchers: workers of dispatcher green speak here, and this is main"
    )


def test_a_role_that_may_not_even_look_is_refused_and_not_waited_for(scene: Scene) -> None:
    with planted(PLANTS["rights_pipeline"][0], scene):
        scene.sql("REVOKE ALL ON SCHEMA reminders FROM limited")
        with pytest.raises(SettingsError, match="may not read the ledger"):
            readiness.check_ledger(scene.installation.settings)
        assert scene.names() == {"rights_pipeline"}


def test_servers_that_are_away_are_waited_for_with_growing_bounded_pauses(caplog: pytest.LogCaptureFixture) -> None:
    pauses: list[float] = []

    def ask() -> None:
        if len(pauses) < 6:
            raise BrokerAway("Redis does not answer: refused")

    readiness.await_(ask, "This line waits for Redis", pauses.append)

    assert pauses == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0]
    assert caplog.messages == ["readiness.waiting: This line waits for Redis. Redis does not answer: refused"]


def start(scene: Scene, *argv: str, **environ: str) -> subprocess.Popen[str]:
    settings = scene.installation.settings
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "PYTHONPATH", "TMPDIR") if name in os.environ}
    given = {
        **kept,
        "DATABASE_URL": settings.database_url.reveal(),
        "REDIS_URL": settings.redis_url.reveal(),
        "REMINDERS_WEBHOOK_SECRET": STRONG,
        **environ,
    }
    return subprocess.Popen(
        [sys.executable, *argv],
        env=given,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("postgres_fsync", ["-c", "from reminders.cli.app import main; main()", "worker", "deliver"]),
        ("postgres_synchronous_commit", ["-m", "celery", "-A", "reminders", "worker", "-Q", "scan"]),
        ("redis_evicts", ["-c", "from reminders.cli.app import main; main()", "worker", "scan"]),
        ("redis_evicts", ["-m", "reminders.supervise", "beat"]),
    ],
)
def test_a_process_ends_with_the_reason_and_the_remedy(scene: Scene, name: str, argv: list[str]) -> None:
    with planted(PLANTS[name][0], scene), start(scene, *argv) as process:
        output, _ = process.communicate(timeout=60)

    assert process.returncode == 1
    (line,) = [line for line in output.splitlines() if line.startswith(f"{name}: ")]
    assert line.endswith(next(check for check in CHECKS if check.name == name).remedy)
    assert "Traceback" not in output


def test_beat_waits_for_redis_until_it_is_told_to_stop(scene: Scene) -> None:
    scene.change(redis_url=Secret("redis://:very-secret-word@127.0.0.1:1/0"))
    lines: list[str] = []
    with start(scene, "-m", "reminders.supervise", "beat") as process:

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if "This line waits for Redis. Redis does not answer" in line:
                    process.terminate()

        reader = Thread(target=read)
        reader.start()
        assert process.wait(60) == 0
        reader.join(10)

    assert not any("beat started" in line or "very-secret-word" in line or "Traceback" in line for line in lines)

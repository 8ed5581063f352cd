"""Misconfigurations of settings, libraries, lines and the Procfile: each a scene with one thing wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

from integration.doctor.scene import STRONG, Scene
from reminders.broker.presence import Presence
from reminders.operate.doctor import installed
from reminders.operate.doctor.procfile import read_procfile
from reminders.settings import Secret

Plant = Callable[[Scene], Iterator[None]]
HEALTHY = {
    "release": "exec reminders migrate",
    "beat": "exec python -m reminders.supervise beat",
    "scanner": "exec reminders worker scan",
    "worker": "exec reminders worker deliver",
    "retry": "exec reminders worker retry --concurrency 4",
    "alone": "exec reminders worker alone",
    "maintenance": "exec reminders worker maintenance",
}


def procfile(without: str = "", **lines: str) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        wanted = {name: command for name, command in {**HEALTHY, **lines}.items() if name != without}
        text = "# process lines\n" + "".join(f"{name}: {command}\n" for name, command in wanted.items())
        scene.surround(procfile=read_procfile(text))
        yield

    return plant


def settings(**changed: object) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        scene.change(**changed)
        yield

    return plant


def library(name: str, version: str | None) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        known = installed._version
        with patch.object(installed, "_version", lambda asked: version if asked == name else known(asked)):
            yield

    return plant


def another_python(scene: Scene) -> Iterator[None]:
    with patch.object(installed, "TESTED_PYTHON", ((2, 7),)):
        yield


def lines(*queues: str) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        scene.queues = list(queues)
        yield

    return plant


def silent_beat(scene: Scene) -> Iterator[None]:
    scene.sql("UPDATE reminders.ticks SET last_at = clock_timestamp() - interval '121 s' WHERE name = 'scan_due'")
    yield


def no_beat_ever(scene: Scene) -> Iterator[None]:
    scene.sql("DELETE FROM reminders.ticks")
    yield


def on_heroku(scene: Scene) -> Iterator[None]:
    scene.change(grace=30.0)
    scene.surround(environ={"DYNO": "worker.1"})
    yield


def secret_of_the_home(scene: Scene) -> Iterator[None]:
    scene.surround(home_secrets={"REMINDERS_WEBHOOK_SECRET": Secret(STRONG)})
    yield


def no_channel(scene: Scene) -> Iterator[None]:
    scene.surround(ready=[], faults={"webhook": "no secret"})
    yield


def only_log(scene: Scene) -> Iterator[None]:
    scene.change(webhook_secret=None)
    scene.surround(ready=["log"], faults={"webhook": "no secret"})
    yield


def unchecked_certificate(scene: Scene) -> Iterator[None]:
    scene.change(redis_url=Secret("rediss://127.0.0.1:1/0?ssl_cert_reqs=none"))
    yield


def one_of_two_frozen(scene: Scene) -> Iterator[None]:
    scene.frozen = [Presence("deliver2.7@host", 99, ("deliver",), 1)]
    yield
    scene.frozen = []


SETTINGS: dict[str, tuple[Plant, set[str]]] = {
    "accepted_unknown": (settings(accept=("postgres_fsink",)), set()),
    "python_untested": (another_python, set()),
    "library_unsupported": (library("kombu", "5.6.2"), set()),
    "library_untested": (library("celery", "5.7.99"), set()),
    "timeouts_redeliver": (settings(redeliver=601.0), set()),
    "timeouts_claim": (settings(claim=121.0), set()),
    "timeouts_grace": (on_heroku, set()),
    "secret_weak": (settings(webhook_secret=Secret("abababababababababababab")), set()),
    "secret_embedded": (secret_of_the_home, set()),
    "channel_none": (no_channel, set()),
    "secrets_missing": (only_log, set()),
    "private_destinations": (settings(allow_private=True), set()),
    "flower_password_missing": (settings(flower_auth=None), set()),
    "reconcile_unreadable": (settings(reconcile=Path("nowhere/reconcile.toml")), set()),
    "redis_certificate_unchecked": (unchecked_certificate, {"redis_unreachable"}),
    "queue_unserved": (lines("scan", "deliver", "alone", "maintenance"), set()),
    "maintenance_unserved": (lines("scan", "deliver", "alone", "retry"), set()),
    "queue_unknown": (lines("scan", "deliver", "alone", "retry", "maintenance", "delivr"), set()),
    "process_silent": (one_of_two_frozen, set()),
    "beat_silent": (silent_beat, set()),
    "procfile_queue_unserved": (procfile(without="retry"), set()),
    "procfile_queue_unknown": (procfile(more="exec reminders worker deliver retires"), set()),
    "procfile_queue_mixed": (procfile(scanner="exec reminders worker scan deliver"), set()),
    "procfile_beat_missing": (procfile(without="beat"), set()),
    "procfile_release_missing": (procfile(without="release"), set()),
    "procfile_unsupervised": (procfile(worker="exec celery -A reminders worker -Q deliver"), set()),
    "procfile_behind_shell": (procfile(worker="reminders worker deliver"), set()),
}
"""By the name of the check that must find it; and what follows from it besides."""

OTHER_FORMS: dict[str, list[Plant]] = {
    "secret_weak": [
        settings(webhook_secret=Secret("change-me-" + STRONG)),
        settings(flower_auth=Secret("operator:password")),
        settings(flower_auth=Secret("operator:aaaaaaaaaa")),
        settings(metrics_token=Secret("a" * 24)),
    ],
    "beat_silent": [no_beat_ever],
    "library_unsupported": [library("alembic", None)],
    "queue_unserved": [lines("retry", "deliver", "alone", "maintenance")],
}


@contextmanager
def planted(plant: Plant, scene: Scene) -> Iterator[None]:
    """The scene with one thing wrong; it is mended at the end, also where the block fails."""
    steps = plant(scene)
    next(steps)
    try:
        yield
    finally:
        next(steps, None)

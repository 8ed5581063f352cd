"""Each planted misconfiguration is found by its own check, and by no other; without it every check is silent."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from conftest import open_folder
from integration.doctor import plants_postgres, plants_redis, plants_structure
from integration.doctor.plants_postgres import POSTGRES
from integration.doctor.plants_redis import REDIS
from integration.doctor.plants_settings import OTHER_FORMS, SETTINGS, Plant, planted
from integration.doctor.pooler import pooler
from integration.doctor.scene import STRONG, Scene, servers
from reminders.embedded import running
from reminders.ledger.database import driver_url
from reminders.operate.doctor import examine
from reminders.operate.doctor.examine import CHECKS
from reminders.settings import Secret

FORMS = {**OTHER_FORMS, **plants_postgres.OTHER_FORMS, **plants_structure.OTHER_FORMS, **plants_redis.OTHER_FORMS}
PLANTS = {**SETTINGS, **POSTGRES, **plants_structure.STRUCTURE, **REDIS}
BY_THEMSELVES = {"settings_refused", "postgres_standby", "transaction_pooling"}
"""Planted by tests of their own, here and in test_doctor_command.py."""


def test_where_nothing_is_wrong_every_check_is_made_and_silent(scene: Scene) -> None:
    diagnosis = scene.look()

    assert diagnosis.findings == []
    assert diagnosis.skipped == []


@pytest.mark.parametrize("name", PLANTS)
def test_a_misconfiguration_is_found_by_its_own_check(scene: Scene, name: str) -> None:
    plant, besides = PLANTS[name]
    with planted(plant, scene):
        assert scene.names() == {name, *besides}


@pytest.mark.parametrize(("name", "plant"), [(name, plant) for name, plants in FORMS.items() for plant in plants])
def test_its_other_forms_are_found_too(scene: Scene, name: str, plant: Plant) -> None:
    with planted(plant, scene):
        assert scene.names() == {name}


def test_every_check_has_a_plant() -> None:
    names = [check.name for check in CHECKS]
    assert len(set(names)) == len(names) > 60
    assert set(names) == {*PLANTS, *BY_THEMSELVES}


def test_all_was_mended(scene: Scene) -> None:
    assert scene.names() == set()


def test_what_is_accepted_is_told_and_counts_for_nothing(scene: Scene) -> None:
    scene.change(accept=("redis_idle_timeout",))
    plant, _ = REDIS["redis_idle_timeout"]
    with planted(plant, scene):
        diagnosis = scene.look()

    assert [(finding.check.name, finding.accepted) for finding in diagnosis.findings] == [("redis_idle_timeout", True)]
    assert diagnosis.count("warning") == 0


@pytest.mark.parametrize("name", ["postgres_unreachable", "redis_unreachable", "secret_embedded", "secret_weak"])
def test_no_finding_shows_a_secret(scene: Scene, name: str) -> None:
    with planted(PLANTS[name][0], scene):
        (finding,) = scene.look().findings

    shown = f"{finding} {scene.installation}"
    for secret in (STRONG, "very-secret-word", "abababab"):
        assert secret not in shown


def test_a_table_that_is_locked_keeps_nobody_waiting(scene: Scene) -> None:
    scene.sql("BEGIN; LOCK TABLE reminders.due IN ACCESS EXCLUSIVE MODE")
    with patch.object(examine, "PATIENCE_MS", 50):
        diagnosis = scene.look()
    scene.sql("ROLLBACK")

    assert diagnosis.findings == []
    assert "beat_silent" in diagnosis.skipped


def test_a_standby_is_found(scene: Scene) -> None:
    with open_folder() as home:
        with servers(home):
            pass
        data = (home / "postgres").resolve() / "data"
        signal = data / "standby.signal"
        signal.touch()
        os.chown(signal, data.stat().st_uid, data.stat().st_gid)
        with running(home) as services:
            scene.change(database_url=Secret(services.database_url))
            assert scene.names() == {"postgres_standby", "beat_silent"}


def test_a_pooler_that_hands_out_sessions_by_transaction_is_noticed(scene: Scene) -> None:
    url = driver_url(scene.installation.settings.database_url.reveal())
    path = Path(str(url.query["host"])) / f".s.PGSQL.{url.query['port']}"
    with pooler(str(path)) as port:
        pooled = url.set(drivername="postgresql", host="127.0.0.1", port=port, query={"sslmode": "disable"})
        scene.change(database_url=Secret(pooled.render_as_string(hide_password=False)))
        assert scene.names() == {"transaction_pooling"}

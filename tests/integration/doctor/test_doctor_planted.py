"""Each planted misconfiguration is found by its own check, and by no other; without it that check is silent."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest

from integration.doctor.plants_postgres import POSTGRES, settings
from integration.doctor.plants_redis import REDIS
from integration.doctor.plants_settings import OTHER_FORMS, SETTINGS, Plant, planted
from integration.doctor.scene import STRONG, Scene
from reminders.operate.doctor.examine import CHECKS, refused

PLANTS = {**SETTINGS, **POSTGRES, **REDIS}
ELSEWHERE = {"settings_refused", "postgres_standby", "transaction_pooling"}
"""Planted by tests of their own."""


@pytest.mark.parametrize("name", PLANTS)
def test_a_misconfiguration_is_found_by_its_own_check_which_is_silent_without_it(scene: Scene, name: str) -> None:
    plant, besides = PLANTS[name]
    healthy = scene.installation
    assert scene.names() == set()

    with planted(plant, scene):
        scene.alive() if name.startswith("queue") or name == "maintenance_unserved" else None
        assert scene.names() == {name, *besides}

    scene.installation = healthy
    scene.queues = [queue for queue in scene.queues if queue in {"scan", "deliver", "retry", "alone", "maintenance"}]

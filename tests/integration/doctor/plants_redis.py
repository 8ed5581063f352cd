"""Misconfigurations of Redis, planted for real and mended afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import redis

from integration.doctor.plants_postgres import constant
from integration.doctor.plants_settings import Plant, settings
from integration.doctor.scene import Scene
from reminders.operate.doctor import broker
from reminders.settings import Secret


def configured(name: str, wrong: str, right: str) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        scene.redis.config_set(name, wrong)
        yield
        scene.redis.config_set(name, right)

    return plant


def replica(scene: Scene) -> Iterator[None]:
    scene.redis.config_set("replica-read-only", "no")
    scene.redis.replicaof("127.0.0.1", "1")
    yield
    scene.redis.replicaof("NO", "ONE")
    scene.redis.config_set("replica-read-only", "yes")


def evicted(scene: Scene) -> Iterator[None]:
    scene.redis.set("anything", "to be evicted")
    scene.redis.config_set("maxmemory-policy", "allkeys-lru")
    scene.redis.config_set("maxmemory", 1)
    scene.redis.get("anything")
    scene.redis.config_set("maxmemory", 0)
    scene.redis.config_set("maxmemory-policy", "noeviction")
    yield
    scene.redis.config_resetstat()


def nearly_full(scene: Scene) -> Iterator[None]:
    # In pieces: a large value would be in the connection's buffer once more, for a while.
    for number in range(200):
        scene.redis.hset("ballast", str(number), "x" * 100_000)
    scene.redis.config_set("maxmemory", int(1.15 * scene.redis.info()["used_memory"]))
    yield
    scene.redis.config_set("maxmemory", 0)
    scene.redis.delete("ballast")


def nearly_all_clients(scene: Scene) -> Iterator[None]:
    before = scene.redis.config_get("maxclients")[
        "maxclients" if b"maxclients" not in scene.redis.config_get("maxclients") else b"maxclients"
    ]
    clients = [connected(scene, f"c{number}") for number in range(18)]
    scene.redis.config_set("maxclients", 22)
    yield
    scene.redis.config_set("maxclients", before)
    for client in clients:
        client.disconnect()


def connected(scene: Scene, name: str) -> redis.Connection:
    url = urlsplit(scene.installation.settings.redis_url.reveal())
    client = redis.Connection(host=url.hostname, port=url.port, password=url.password, client_name=name)
    client.connect()
    return client


def another_visibility(scene: Scene) -> Iterator[None]:
    client = connected(scene, "reminders/30")
    yield
    client.disconnect()


def another_consumer(scene: Scene) -> Iterator[None]:
    client = connected(scene, "")
    client.send_command("BRPOP", "celery", 0)
    end = time.monotonic() + 10
    while not any(row["cmd"] == "brpop" for row in scene.redis.client_list()):
        assert time.monotonic() < end
    yield
    client.disconnect()


def closed_client_list(scene: Scene) -> Iterator[None]:
    scene.redis.execute_command(
        "ACL", "SETUSER", "limited", "on", ">limited", "~*", "&*", "+@all", "-client", "+client|setname"
    )
    url = urlsplit(scene.installation.settings.redis_url.reveal())
    scene.change(redis_url=Secret(f"redis://limited:limited@{url.hostname}:{url.port}/0"))
    yield
    scene.redis.execute_command("ACL", "DELUSER", "limited")


def refuses_writes(*wrong: tuple[str, str]) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        scene.silent = True
        before = {name: next(iter(scene.redis.config_get(name).values())) for name, _ in wrong}
        for name, value in wrong:
            scene.redis.config_set(name, value)
        yield
        for name, value in before.items():
            scene.redis.config_set(name, value)
        scene.silent = False

    return plant


def read_only_user(scene: Scene) -> Iterator[None]:
    scene.silent = True
    scene.redis.execute_command("ACL", "SETUSER", "reader", "on", ">reader", "~*", "&*", "+@all", "-set")
    url = urlsplit(scene.installation.settings.redis_url.reveal())
    scene.change(redis_url=Secret(f"redis://reader:reader@{url.hostname}:{url.port}/0"))
    yield
    scene.redis.execute_command("ACL", "DELUSER", "reader")
    scene.silent = False


def two_dispatchers(scene: Scene) -> Iterator[None]:
    scene.dispatchers = ["green", "main"]
    yield
    scene.dispatchers = ["main"]


REDIS: dict[str, tuple[Plant, set[str]]] = {
    "redis_unreachable": (settings(redis_url=Secret("redis://:very-secret-word@127.0.0.1:1/0")), set()),
    "redis_too_old": (constant(broker, "OLDEST_REDIS", (99, 0)), set()),
    "redis_untested": (constant(broker, "NEWEST_REDIS", 1), set()),
    "redis_replica": (replica, set()),
    "redis_refuses_writes": (refuses_writes(("min-replicas-to-write", "1")), set()),
    "redis_of_two_dispatchers": (two_dispatchers, set()),
    "redis_evicts": (configured("maxmemory-policy", "allkeys-lru", "noeviction"), set()),
    "redis_evicted": (evicted, set()),
    "redis_memory": (nearly_full, set()),
    "redis_persistence": (configured("appendonly", "no", "yes"), set()),
    "redis_idle_timeout": (configured("timeout", "30", "0"), set()),
    "redis_connections": (nearly_all_clients, set()),
    "visibility_differs": (another_visibility, set()),
    "redis_other_consumers": (another_consumer, set()),
    "redis_clients_hidden": (closed_client_list, set()),
}
"""By the name of the check that must find it; and what follows from it besides."""

OTHER_FORMS: dict[str, list[Plant]] = {"redis_refuses_writes": [read_only_user]}

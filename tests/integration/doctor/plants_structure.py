"""A ledger that lacks something of what the migrations made, planted for real and mended afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from integration.doctor.plants_postgres import sql
from integration.doctor.plants_settings import Plant
from integration.doctor.scene import Scene


def without(kind: str, name: str, other: str) -> Plant:
    """As if it had been dropped."""
    return sql(f"ALTER {kind} reminders.{name} RENAME TO {other}", f"ALTER {kind} reminders.{other} RENAME TO {name}")


def without_index(name: str) -> Plant:
    def plant(scene: Scene) -> Iterator[None]:
        ((made,),) = scene.sql("SELECT pg_get_indexdef(%s::regclass)", f"reminders.{name}")
        scene.sql(f"DROP INDEX reminders.{name}")
        yield
        scene.sql(made)

    return plant


def invalid_index(scene: Scene) -> Iterator[None]:
    """As a CREATE INDEX CONCURRENTLY leaves it that was cut off."""
    change = "UPDATE pg_index SET indisvalid = {} WHERE indexrelid = 'reminders.due_wake'::regclass"
    scene.sql(change.format("false"))
    yield
    scene.sql(change.format("true"))


STRUCTURE: dict[str, tuple[Plant, set[str]]] = {
    "table_missing": (without("TABLE", "notices", "notices_before"), set()),
    "function_missing": (without("FUNCTION", "delivery_key", "delivery_key_before"), set()),
    "unique_index_missing": (without_index("dead_letters_one_open"), set()),
    "index_missing": (without_index("due_in_flight"), set()),
    "index_invalid": (invalid_index, set()),
}
"""By the name of the check that must find it; and what follows from it besides."""

OTHER_FORMS: dict[str, list[Plant]] = {
    "table_missing": [
        without("TABLE", "ticks", "ticks_before"),
        without("TABLE", "due", "due_before"),
        without("VIEW", "reminders_v1", "reminders_v0"),
        sql(
            "ALTER TABLE reminders.delivery_attempts DETACH PARTITION reminders.delivery_attempts_default",
            "ALTER TABLE reminders.delivery_attempts ATTACH PARTITION reminders.delivery_attempts_default DEFAULT",
        ),
    ],
    "unique_index_missing": [without_index("reminders_identity_key")],
    "index_missing": [without_index("due_wake")],
}

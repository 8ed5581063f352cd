"""Whether the settings can be used, and Postgres, the ledger's schema and Redis are there at all."""

from __future__ import annotations

from dataclasses import dataclass

from reminders.operate.doctor.check import Check


@dataclass(frozen=True, slots=True)
class Schema:
    """The version that the ledger has, None where there is none; and the one of this release."""

    name: str
    standing: str | None
    head: str

    @property
    def reached(self) -> bool:
        """Whether this release can work on it."""
        return self.standing is not None and self.standing >= self.head


def _behind(schema: Schema) -> str | None:
    if schema.standing is None:
        return f"schema {schema.name!r} has no tables; this release needs version {schema.head}"
    if schema.standing < schema.head:
        return f"schema {schema.name!r} is at version {schema.standing}; this release needs {schema.head}"
    return None


def _ahead(schema: Schema) -> str | None:
    if schema.standing is None or schema.standing <= schema.head:
        return None
    return f"schema {schema.name!r} is at version {schema.standing}; this release is of {schema.head}"


def _silent(reason: str | None) -> str | None:
    return reason


SETTINGS_REFUSED: Check[str | None] = Check(
    "settings_refused",
    "fatal",
    "Every setting can be read, and they fit together: call, claim and visibility time-outs in their order, for one.",
    "Correct what it names. No process starts before.",
    _silent,
    at_start=True,
)
POSTGRES_REACHED: Check[str | None] = Check(
    "postgres_unreachable",
    "fatal",
    "Postgres answers at `DATABASE_URL`.",
    "Check the address, the password and that the server is up. Processes wait for it.",
    _silent,
)
REDIS_REACHED: Check[str | None] = Check(
    "redis_unreachable",
    "fatal",
    "Redis answers at `REDIS_URL`.",
    "Check the address, the password and that the server is up. Processes wait for it; nothing is lost meanwhile.",
    _silent,
)
SCHEMA: tuple[Check[Schema], ...] = (
    Check(
        "schema_behind",
        "fatal",
        "The ledger's schema is at this release's version.",
        "Run `reminders migrate`. Processes wait for it.",
        _behind,
    ),
    Check(
        "schema_ahead",
        "note",
        "It is not newer: a newer release has migrated it, and this one is about to be replaced.",
        "Finish the deploy. This release goes on working meanwhile.",
        _ahead,
    ),
)
"""Checks of the schema's version."""

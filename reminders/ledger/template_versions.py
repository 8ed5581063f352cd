"""Versions of templates by their id, each read once per process: a version never changes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from uuid import UUID

from reminders.domain.template import Template
from reminders.ledger.database import Database
from reminders.ledger.statement import Statement

MOST_KEPT = 256
"""Versions that one process keeps; the one that was not asked for longest goes first."""

VERSION = Statement(
    "template_version",
    "SELECT id::text, tenant_id, kind, channel, locale, version, parts FROM {s}.templates WHERE id = :id",
    {"id": "uuid"},
)


class TemplateVersions:
    """Called with an id, gives the version or None. Threads that ask for one at the same time share one query."""

    def __init__(self, database: Database, most: int = MOST_KEPT) -> None:
        self._db = database
        self._most = most
        self._kept: OrderedDict[UUID, Template] = OrderedDict()
        self._reading: dict[UUID, Lock] = {}
        self._lock = Lock()

    def __call__(self, version: UUID) -> Template | None:
        """Raises one of `DATABASE_AWAY`. A version that is not there is asked for again the next time."""
        if (known := self._known(version)) is not None:
            return known
        with self._lock:
            turn = self._reading.setdefault(version, Lock())
        with turn:
            if (known := self._known(version)) is not None:
                return known
            try:
                found = read_version(self._db, version)
                if found is not None:
                    self._keep(found)
                return found
            finally:
                with self._lock:
                    self._reading.pop(version, None)

    def _known(self, version: UUID) -> Template | None:
        with self._lock:
            known = self._kept.get(version)
            if known is not None:
                self._kept.move_to_end(version)
            return known

    def _keep(self, template: Template) -> None:
        with self._lock:
            self._kept[template.id] = template
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def read_version(database: Database, version: UUID) -> Template | None:
    """The version with this id, from the ledger."""
    rows = database.fetch(VERSION, id=str(version))
    return Template(UUID(rows[0][0]), *rows[0][1:]) if rows else None

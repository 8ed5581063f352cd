"""The receiver's memory: which keys were applied, and their effects.

The rule that makes an effect happen once: the key is inserted under a unique constraint, and the effect is applied in
the same transaction. Whatever dies, both are there or neither is.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from reminders.domain.errors import InvalidInput
from reminders.receiver.kit import Applied, KeyConflict, apply_once

_APPLICATION_ID = 0x726D6472  # "rmdr", so that another program's file is never written to
_BUSY_SECONDS = 1.0
_PAGE = 500
_TABLES = f"""
BEGIN;
CREATE TABLE keys (
    number INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash BLOB NOT NULL,
    UNIQUE (tenant_id, key)
);
CREATE TABLE effects (
    number INTEGER PRIMARY KEY,
    key_number INTEGER NOT NULL REFERENCES keys (number),
    user_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    reference TEXT,
    due_at TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
);
CREATE INDEX effects_by_key ON effects (key_number);
CREATE TABLE calls (
    number INTEGER PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    key TEXT NOT NULL,
    calls INTEGER NOT NULL,
    UNIQUE (tenant_id, key)
);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = 1;
COMMIT;
"""


@dataclass(frozen=True, slots=True)
class Effect:
    """What applying a delivery means here: one row of table `effects`."""

    tenant_id: str
    user_id: str
    kind: str
    reference: str | None
    due_at: str


class Verdict(Enum):
    """What became of a delivery: its effect applied now, applied before, or its key taken by another body."""

    APPLIED = "applied"
    REPEAT = "repeat"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Receipt:
    """`effect_number` is the effect's number in the store, the same for every repeat; None for a conflict."""

    verdict: Verdict
    effect_number: int | None


@dataclass(frozen=True, slots=True)
class KeyCalls:
    """How often a key was called with a good signature, and how many effects it has: never more than one."""

    tenant_id: str
    key: str
    calls: int
    effects: int


class Store:
    """A SQLite file, or, without a path, a temporary one that vanishes with the process. Any thread may use it.

    Raises `InvalidInput("store", ...)` if the file is not a receiver's, or cannot be opened.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.RLock()
        try:
            self._connection = sqlite3.connect(
                "" if path is None else path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise
        except sqlite3.Error as error:
            raise InvalidInput("store", f"{path} cannot be used: {error}") from error

    def _prepare(self) -> None:
        (application_id,) = self._connection.execute("PRAGMA application_id").fetchone()
        (objects,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not objects:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.executescript(_TABLES)
        elif application_id != _APPLICATION_ID:
            raise sqlite3.DatabaseError("it is a database of another program")
        # A success that we answer must outlive a power cut: the sender will never call again.
        self._connection.execute("PRAGMA synchronous = FULL")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """What is done in the block is committed together, or not at all; a block inside another one joins it."""
        with self._lock:
            if self._connection.in_transaction:
                yield
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            # Crash here: nothing is stored, and nothing was answered; the sender calls again and it is applied then.
            self._connection.execute("COMMIT")
            # Crash here: all is stored, but not answered; the sender calls again and is told of the same effect.

    def apply_once(self, key: str, body: bytes, effect: Effect) -> Receipt:
        """Apply `effect` unless the tenant's `key` was applied before. Another body under a known key is a conflict.

        Raises `sqlite3.Error` if it cannot be stored; then nothing is.
        """
        place = (effect.tenant_id, key)

        def insert(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO effects (key_number, user_id, kind, reference, due_at)"
                " SELECT number, ?, ?, ?, ? FROM keys WHERE tenant_id = ? AND key = ?",
                (effect.user_id, effect.kind, effect.reference, effect.due_at, *place),
            )

        with self.transaction():
            self.count_call(*place)
            try:
                found = apply_once(
                    self._connection, key, insert, body=body, tenant_id=effect.tenant_id, table="keys", commit=False
                )
            except KeyConflict:
                return Receipt(Verdict.CONFLICT, None)
            (number,) = self._connection.execute(
                "SELECT effects.number FROM keys JOIN effects ON effects.key_number = keys.number"
                " WHERE keys.tenant_id = ? AND keys.key = ?",
                place,
            ).fetchone()
            return Receipt(Verdict.APPLIED if found is Applied.NOW else Verdict.REPEAT, number)

    def count_call(self, tenant_id: str, key: str) -> None:
        """Count a call for the report; `apply_once` does so itself."""
        with self.transaction():
            self._connection.execute(
                "INSERT INTO calls (tenant_id, key, calls) VALUES (?, ?, 1)"
                " ON CONFLICT (tenant_id, key) DO UPDATE SET calls = calls + 1",
                (tenant_id, key),
            )

    def calls(self, tenant_id: str, key: str) -> int:
        """How often the key was called so far."""
        with self._lock:
            found = self._connection.execute(
                "SELECT calls FROM calls WHERE tenant_id = ? AND key = ?", (tenant_id, key)
            ).fetchone()
        return 0 if found is None else int(found[0])

    def calls_by_key(self) -> Iterator[KeyCalls]:
        """Every key that was called, oldest first, read in pages so that neither memory nor a lock is held."""
        after = 0
        while True:
            with self._lock:
                rows = self._connection.execute(
                    "SELECT calls.number, calls.tenant_id, calls.key, calls.calls,"
                    " (SELECT count(*) FROM keys JOIN effects ON effects.key_number = keys.number"
                    "  WHERE keys.tenant_id = calls.tenant_id AND keys.key = calls.key)"
                    " FROM calls WHERE calls.number > ? ORDER BY calls.number LIMIT ?",
                    (after, _PAGE),
                ).fetchall()
            if not rows:
                return
            yield from (KeyCalls(*row[1:]) for row in rows)
            after = rows[-1][0]

    def close(self) -> None:
        """Close the file; a temporary one vanishes."""
        with self._lock:
            self._connection.close()

"""What a receiver of our webhooks needs: `verify` says who sent a request, `apply_once` gives it one effect.

This file stands alone. It needs Python 3.11 and its standard library, and may be copied into a receiver's own code.
What it keeps is the contract of docs/receivers.md:

    verified = verify(raw_body, request.headers, secrets)              # raises NotVerified: answer 401
    apply_once(connection, verified.key, effect, body=raw_body)        # raises KeyConflict: answer 409
    ...                                                                # both new and repeated: answer 200

Any other exception is a fault on the receiver's side: answer 503 (500 where something may have been stored), and the request comes again.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

TOLERANCE = 300.0
"""Seconds a timestamp may lie in the past or the future: what Standard Webhooks' own libraries use."""
TABLE = "webhook_keys"
_MOST_SIGNATURES = 16
_TIMESTAMP = re.compile(r"\d{1,12}", re.ASCII)
# A full stop separates the signed parts. In the id it would let one signature stand for another split of the same bytes.
_ID = re.compile(r"[\x21-\x2d\x2f-\x7e]{1,255}")
_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", re.ASCII)
_IDLE = 0


class NotVerified(Exception):
    """The request is not, or not provably, the sender's: answer 401 and do nothing with its body."""


class MalformedHeaders(NotVerified):
    """`webhook-id`, `webhook-timestamp` or `webhook-signature` is missing, there twice, or not what it must be."""


class StaleTimestamp(NotVerified):
    """The request was signed too long ago, or in the future: a replay, or a clock that is wrong."""


class WrongSignature(NotVerified):
    """No signature was made with one of the secrets over this body, or the body was changed on its way."""


class InvalidSecret(ValueError):
    """A secret of the receiver's own configuration cannot be used. The text does not repeat it. Answer 503."""


class KeyConflict(Exception):
    """The key was applied before, with another body. Nothing was changed: answer 409."""


@dataclass(frozen=True, slots=True)
class Verified:
    """A request that is the sender's. `key` is the delivery key, the same for every attempt; `timestamp` Unix time."""

    key: str
    timestamp: int


class Headers(Protocol):
    """Headers as the frameworks have them: a dict, or any other object whose `items` are names and values."""

    def items(self) -> Iterable[tuple[str, str]]: ...


class Applied(Enum):
    """What `apply_once` found: the effect was applied now, or by an earlier request. Both are answered with 200."""

    NOW = "now"
    BEFORE = "before"


def verify(
    body: bytes,
    headers: Headers,
    secrets: bytes | str | Iterable[bytes | str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Verified:
    """Return who and when, if `body` was signed with one of `secrets` within `tolerance` seconds of `now`.

    `body` is the raw body as received, before any parsing. `headers` may spell names in any case. `secrets` are texts
    that begin with `whsec_`, or the bytes behind them; during a rotation give the old and the new one. `now` is Unix
    time in seconds, by default this machine's clock. Signatures are compared in constant time, each with each secret.

    Raises `NotVerified` (one of its three kinds) for the request, `InvalidSecret` for secrets that cannot be used or
    none at all, `TypeError` for a body that is not bytes.
    """
    if not isinstance(body, bytes):
        raise TypeError(f"body must be the raw bytes of the request, not {type(body).__name__}")
    keys = [_secret_bytes(secret) for secret in ([secrets] if isinstance(secrets, bytes | str) else secrets)]
    if not keys:
        raise InvalidSecret("there is no secret to verify with")
    message_id, stamp, given = (_header(headers, "webhook-" + part) for part in ("id", "timestamp", "signature"))
    if not _ID.fullmatch(message_id):
        raise MalformedHeaders("webhook-id is not a key: up to 255 printable ASCII characters without a full stop")
    if not _TIMESTAMP.fullmatch(stamp):
        raise MalformedHeaders("webhook-timestamp is not a Unix time in whole seconds")
    try:
        candidates = given.encode().split()[:_MOST_SIGNATURES]
    except UnicodeEncodeError:
        raise MalformedHeaders("webhook-signature is not valid text") from None
    # "not <=" and not ">": a tolerance or a clock that is no number must refuse.
    if not abs((time.time() if now is None else now) - int(stamp)) <= tolerance:
        raise StaleTimestamp(f"webhook-timestamp is more than {tolerance:g} s away from this clock")
    message = b"%s.%s.%s" % (message_id.encode(), stamp.encode(), body)
    expected = [b"v1," + base64.b64encode(hmac.digest(key, message, "sha256")) for key in keys]
    # All of them first, so that the time does not tell which matches.
    matches = [hmac.compare_digest(one, other) for one in expected for other in candidates]
    if not any(matches):
        raise WrongSignature("no signature matches: another secret, or the body was changed on its way")
    return Verified(message_id, int(stamp))


def create_table(connection: Any, *, table: str = TABLE) -> None:
    """Create the table of keys if it is not there, and commit. `applied_at` is UTC; delete by it what may be forgotten.

    See `apply_once` for `connection` and `table`.
    """
    lite = isinstance(connection, sqlite3.Connection)
    binary, instant = ("BLOB", "TEXT") if lite else ("BYTEA", "TIMESTAMPTZ")
    with _transaction(connection, commit=True):
        _execute(
            connection,
            f"CREATE TABLE IF NOT EXISTS {_checked(table)} (tenant_id TEXT NOT NULL, key TEXT NOT NULL,"
            f" body_hash {binary}, applied_at {instant} NOT NULL DEFAULT CURRENT_TIMESTAMP,"
            " PRIMARY KEY (tenant_id, key))",
        )


def apply_once(
    connection: Any,
    key: str,
    effect: Callable[[Any], object],
    *,
    body: bytes | None = None,
    tenant_id: str = "",
    table: str = TABLE,
    commit: bool = True,
) -> Applied:
    """Insert `key` and call `effect(connection)` in one transaction, unless the key is there already.

    `connection` is a DB-API connection of sqlite3 or psycopg2. The effect must write through it and must not commit. When
    this returns, key and effect are committed, together with whatever was open on the connection: the request may be
    answered. If the effect raises, all of that is rolled back, and its exception goes on. With `commit=False` both are left
    to the caller, who must commit before answering; an effect that raises takes back itself and its key alone.

    Whoever comes second with a key waits for the first one's transaction to end, and then finds the key or applies it.

    Give `body`, so that another body under a known key raises `KeyConflict`; without it nothing is compared. Where
    several tenants with secrets of their own call one receiver, give `tenant_id` as verified: a key is then theirs
    alone. `table` has at least the columns that `create_table` makes (`applied_at` may be missing).
    """
    body_hash = None if body is None else hashlib.sha256(body).digest()
    place = (tenant_id, key)
    mark = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    insert = (
        f"INSERT INTO {_checked(table)} (tenant_id, key, body_hash) VALUES ({mark}, {mark}, {mark})"
        " ON CONFLICT (tenant_id, key) DO NOTHING"
    )
    find = f"SELECT body_hash FROM {table} WHERE tenant_id = {mark} AND key = {mark}"
    with _transaction(connection, commit=commit):
        if not _execute(connection, insert, (*place, body_hash)).rowcount:
            found = _execute(connection, find, place).fetchone()
            if found is None:
                raise RuntimeError("the key was deleted in this very moment; let the request come again")
            if None not in (found[0], body_hash) and bytes(found[0]) != body_hash:
                raise KeyConflict("this key was received before, with another body")
            return Applied.BEFORE
        effect(connection)
        # Crash here: nothing is stored and nothing was answered; the request comes again and is applied then.
    # Crash here: all is stored but not answered; the request comes again and finds its key.
    return Applied.NOW


def _header(headers: Headers, name: str) -> str:
    values = [value for given, value in headers.items() if given.lower() == name]
    if len(values) != 1 or not values[0]:
        raise MalformedHeaders(f"{name} is there twice" if len(values) > 1 else f"{name} is missing")
    return values[0]


def _secret_bytes(secret: bytes | str) -> bytes:
    if isinstance(secret, str):
        try:
            decoded = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
        except (binascii.Error, ValueError):
            decoded = b""
        secret = decoded if secret.startswith("whsec_") else b""
    if not secret:
        raise InvalidSecret("a secret is empty, or not of the form whsec_ followed by base64")
    return secret


def _checked(table: str) -> str:
    if not _TABLE_NAME.fullmatch(table):
        raise ValueError("table must be a plain name, or schema.name")
    return table


def _execute(connection: Any, statement: str, values: tuple[Any, ...] = ()) -> Any:
    cursor = connection.cursor()
    cursor.execute(statement, values)
    return cursor


@contextmanager
def _transaction(connection: Any, *, commit: bool) -> Iterator[None]:
    """All of the block or nothing of it. Without `commit`, a transaction is open afterwards, and only the block undone."""
    _begin(connection)
    if not commit:
        _execute(connection, "SAVEPOINT apply_once")
    try:
        yield
    except BaseException:
        # What goes wrong here, on a connection that is lost, must not hide why.
        with suppress(Exception):
            if commit:
                _end(connection, "ROLLBACK")
            else:
                _execute(connection, "ROLLBACK TO SAVEPOINT apply_once")
                _execute(connection, "RELEASE SAVEPOINT apply_once")
        raise
    if commit:
        _end(connection, "COMMIT")
    else:
        _execute(connection, "RELEASE SAVEPOINT apply_once")


def _begin(connection: Any) -> None:
    if isinstance(connection, sqlite3.Connection):
        if not connection.in_transaction:
            # At once, and not at the first write: two writers then wait for each other and never fail in the middle.
            connection.execute("BEGIN IMMEDIATE")
    elif connection.autocommit and connection.info.transaction_status == _IDLE:
        _execute(connection, "BEGIN")


def _end(connection: Any, how: str) -> None:
    # In autocommit mode the methods do nothing, although a transaction was begun.
    if getattr(connection, "autocommit", False) is True:
        _execute(connection, how)
    elif how == "COMMIT":
        connection.commit()
    else:
        connection.rollback()

"""A receiver of reminders' webhooks: Flask, SQLite, and the kit.

Settings: RECEIVER_SECRETS, one or more `whsec_...` separated by spaces, and RECEIVER_DATABASE, a file.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from http import HTTPStatus
from typing import Any

from flask import Flask, Response, jsonify, request
from werkzeug.exceptions import BadRequest

# Or from your copy of that file, which needs nothing but Python.
from reminders.receiver.kit import KeyConflict, NotVerified, apply_once, create_table, verify

LARGEST_BODY = 64 * 1024
"""Bytes. The largest message is below 20 KiB."""
BUSY_SECONDS = 2.0
"""How long to wait for another writer; well below the sender's deadline."""


class NotAMessage(Exception):
    """It is signed, but says nothing that this receiver knows."""


def create_app(database: str | None = None, secrets: str | None = None) -> Flask:
    """The application, for `flask run` or any WSGI server; without arguments set by the environment."""
    app = Flask(__name__)
    app.config["MAX_CONTENT_LENGTH"] = LARGEST_BODY
    path = database or setting("RECEIVER_DATABASE", "a file for SQLite, such as received.sqlite")
    keys = (secrets or setting("RECEIVER_SECRETS", "one or more whsec_..., separated by spaces")).split()

    with closing(connect(path)) as connection:
        create_table(connection)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS notices (user_id TEXT NOT NULL, kind TEXT NOT NULL, reference TEXT)"
        )

    @app.post("/hook")
    def hook() -> tuple[Response, HTTPStatus]:
        # The bytes as they came: what is parsed and written again has another signature.
        body = request.get_data()
        try:
            verified = verify(body, request.headers, keys)
        except NotVerified as error:
            return answer(HTTPStatus.UNAUTHORIZED, error=str(error))
        try:
            notice = read(request.get_json(force=True), verified.key)
        except (BadRequest, NotAMessage) as error:
            return answer(HTTPStatus.BAD_REQUEST, error=str(error))

        def effect(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO notices (user_id, kind, reference) VALUES (?, ?, ?)", notice)

        try:
            with closing(connect(path)) as connection:
                apply_once(connection, verified.key, effect, body=body)
        except KeyConflict as error:
            return answer(HTTPStatus.CONFLICT, error=str(error))
        except sqlite3.OperationalError:
            app.logger.exception("A delivery could not be stored")
            return answer(HTTPStatus.SERVICE_UNAVAILABLE, error="it could not be stored; call again")
        # Applied now or before: the sender need not know which, so both get the same answer.
        return answer(HTTPStatus.OK, key=verified.key)

    return app


def setting(name: str, meaning: str) -> str:
    """The environment's, or an end that says what is missing."""
    if value := os.environ.get(name):
        return value
    raise SystemExit(f"{name} is not set: {meaning}")


def connect(path: str) -> sqlite3.Connection:
    """A connection of this request's own."""
    return sqlite3.connect(path, timeout=BUSY_SECONDS)


def read(message: Any, key: str) -> tuple[str, str, str | None]:
    """Whom to tell, what, and about which order. Raises `NotAMessage`."""
    if not isinstance(message, dict) or message.get("v") != 1 or message.get("key") != key:
        raise NotAMessage("this is no message of version 1 under this key")
    user_id, kind, reference = (message.get(name) for name in ("user_id", "kind", "reference"))
    if not (isinstance(user_id, str) and isinstance(kind, str) and isinstance(reference, str | None)):
        raise NotAMessage("user_id, kind or reference is not text")
    return user_id, kind, reference


def answer(status: HTTPStatus, **fields: str) -> tuple[Response, HTTPStatus]:
    """A JSON answer."""
    return jsonify(fields), status

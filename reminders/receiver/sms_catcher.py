"""A gateway for a laptop: it takes SMS as Twilio's API does, keeps them in memory, lists them, and sends nothing.

Only for this machine: it asks for credentials and takes any.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlencode

HOST = "127.0.0.1"
DEFAULT_PORT = 8781
SENDER = "+15005550006"
"""Twilio's own magic number for tests: never anybody's."""
_ACCOUNT = "ACcatcher"
_PATH = f"/2010-04-01/Accounts/{_ACCOUNT}/Messages.json"
_LARGEST_FORM = 64 * 1024
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Sms:
    """A text that was caught."""

    sid: str
    to: str
    sender: str
    text: str
    at: datetime

    def as_json(self) -> dict[str, str | None]:
        """As a message resource of the API."""
        at = format_datetime(self.at)
        service = self.sender if self.sender.startswith("MG") else None
        return {
            "sid": self.sid, "to": self.to, "from": None if service else self.sender, "messaging_service_sid": service,
            "body": self.text, "direction": "outbound-api", "status": "sent", "date_created": at, "date_sent": at,
        }  # fmt: skip


class SmsCatcher:
    """Listens on `port` of this machine (0: any free one), from `with` to its end."""

    def __init__(self, port: int = DEFAULT_PORT) -> None:
        self._caught: list[Sms] = []
        self._lock = threading.Lock()
        catcher = self

        class Handler(_Handler):
            caught_by = catcher

        self._server = _Server((HOST, port), Handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="sms-catcher", daemon=True
        )

    @property
    def url(self) -> str:
        """What `REMINDERS_SMS_URL` has to be."""
        port = self._server.server_address[1]
        return f"twilio+http://{_ACCOUNT}:any@{HOST}:{port}?{urlencode({'from': SENDER})}"

    def caught(self) -> list[Sms]:
        """All so far, oldest first."""
        with self._lock:
            return list(self._caught)

    def catch(self, to: str, sender: str, text: str) -> Sms:
        """Keep a text."""
        with self._lock:
            sms = Sms(f"SM{len(self._caught):032x}", to, sender, text, datetime.now(UTC))
            self._caught.append(sms)
        return sms

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    # With the default of 5 the kernel lets the rest of a burst wait for seconds before it is even connected.
    request_queue_size = 128


class _Handler(BaseHTTPRequestHandler):
    caught_by: SmsCatcher
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_SECONDS

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            # The caller has left: killed in mid-call, or by its deadline. What it sent is kept.
            self.close_connection = True

    def do_POST(self) -> None:
        """Create a message."""
        announced = self.headers.get("content-length", "")
        size = int(announced) if announced.isascii() and announced.isdecimal() and len(announced) < 8 else -1
        if not 0 <= size <= _LARGEST_FORM:
            self.close_connection = True
            self._refuse(413, 20001, "the form's length is missing or too large")
            return
        body = self.rfile.read(size)
        if not self._may(self.path):
            return
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        sender = form.get("From") or form.get("MessagingServiceSid")
        if "To" not in form or "Body" not in form or sender is None:
            self._refuse(400, 21604, "To, Body, and From or MessagingServiceSid are needed")
            return
        self._answer(201, self.caught_by.catch(form["To"], sender, form["Body"]).as_json())

    def do_GET(self) -> None:
        """List messages, newest first; `To` chooses."""
        path, _, query = self.path.partition("?")
        if not self._may(path):
            return
        to = parse_qs(query).get("To", [None])[0]
        chosen = [sms.as_json() for sms in reversed(self.caught_by.caught()) if to in {None, sms.to}]
        self._answer(200, {"messages": chosen, "next_page_uri": None})

    def log_message(self, *_: object) -> None:
        """Nothing: a line would name numbers."""

    def _may(self, path: str) -> bool:
        if not (self.headers.get("authorization") or "").startswith("Basic "):
            self._refuse(401, 20003, "Authenticate")
        elif path != _PATH:
            self._refuse(404, 20404, "there are only messages here")
        else:
            return True
        return False

    def _refuse(self, status: int, code: int, message: str) -> None:
        self._answer(status, {"code": code, "message": message, "status": status})

    def _answer(self, status: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

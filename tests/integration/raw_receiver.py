"""A webhook receiver on a raw socket, that answers with any bytes; and one delivery to post there."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

from reminders.domain.delivery import Delivery

MASTER = "a master secret for these tests"


@dataclass
class Request:
    line: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Receiver:
    """Reads whole requests and lets `answer` write what it likes; a connection ends when `answer` returns False."""

    answer: Callable[[socket.socket, Receiver], bool | None]
    accepted: int = 0
    requests: list[Request] = field(default_factory=list)

    def __post_init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/hook?a=1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.accepted += 1
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError, ValueError), connection, connection.makefile("rb") as stream:
            while line := stream.readline():
                headers = {}
                while (header := stream.readline()) not in (b"\r\n", b""):
                    name, _, value = header.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                body = stream.read(int(headers.get("content-length", "0")))
                self.requests.append(Request(line.decode().strip(), headers, body))
                if self.answer(connection, self) is False:
                    return


def delivery(url, **changes):
    plain = Delivery(
        reminder_id=UUID(int=1),
        delivery_key="rk_0123456789abcdef",
        tenant_id="acme",
        user_id="anna",
        kind="invoice",
        channel="webhook",
        destination_id=UUID(int=2),
        destination=url,
        due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
        zone=None,
        reference="order-7",
        slot="",
        data={"text": "gr\u00fc\u00dfe"},
        attempt=1,
        body_format=1,
    )
    return replace(plain, **changes)


def post(provider, url, *, deadline=5.0, **changes):
    one = delivery(url, **changes)
    return provider.send(one, provider.render(one), deadline)

"""A gateway that speaks Twilio's API and misbehaves as told; it counts the messages that it has kept."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qs

from integration.listening import end_listening
from integration.raw_receiver import Receiver
from reminders.providers.sms import SmsProvider
from reminders.settings import Secret, Settings

ACCOUNT, TOKEN, SENDER = "AC17", "hunter22", "+4930123456"
PATH = f"/2010-04-01/Accounts/{ACCOUNT}/Messages.json"

Behaviour = Callable[["ScriptedGateway", socket.socket, dict[str, str]], bool | None]


def http(status: int, body: bytes, headers: str = "") -> bytes:
    return f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


class ScriptedGateway:
    """`script` says what each create does, in turn; then they are kept and answered. `pages` answers lists, if given."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.script: list[Behaviour] = []
        self.pages: Callable[[str], bytes] | None = None
        self.over = threading.Event()
        self._receiver = Receiver(self._answer)

    def close(self) -> None:
        self.over.set()
        end_listening(self._receiver.listener)

    @property
    def port(self) -> int:
        return int(self._receiver.url.split(":")[2].split("/")[0])

    @property
    def url(self) -> str:
        return f"twilio+http://{ACCOUNT}:{TOKEN}@127.0.0.1:{self.port}?from=%2B4930123456"

    @property
    def creates(self) -> list[Any]:
        return [each for each in self._receiver.requests if each.line.startswith("POST")]

    @property
    def lists(self) -> list[Any]:
        return [each for each in self._receiver.requests if each.line.startswith("GET")]

    def provider(self, **settings: Any) -> SmsProvider:
        return SmsProvider(Settings(sms_url=Secret(self.url), **settings))

    def keep(self, form: dict[str, str], **changes: Any) -> dict[str, Any]:
        """A message as Twilio shows it, from a create's form."""
        message = {
            "sid": f"SM{len(self.messages):032x}",
            "to": form["To"],
            "from": form.get("From"),
            "messaging_service_sid": form.get("MessagingServiceSid"),
            "body": form["Body"],
            "direction": "outbound-api",
            "status": "queued",
            "error_code": None,
            "date_created": format_datetime(datetime.now(UTC)),
            "date_sent": None,
            **changes,
        }
        self.messages.append(message)
        return message

    def _answer(self, connection: socket.socket, receiver: Receiver) -> bool | None:
        request = receiver.requests[-1]
        method, target, _ = request.line.split(" ")
        if method == "GET":
            page = self.pages(target) if self.pages else http(200, self._listed(target))
            connection.sendall(page)
            return None
        assert target == PATH
        form = {name: values[0] for name, values in parse_qs(request.body.decode(), strict_parsing=True).items()}
        behaviour = self.script.pop(0) if self.script else kept()
        return behaviour(self, connection, form)

    def _listed(self, target: str) -> bytes:
        to = parse_qs(target.partition("?")[2])["To"][0]
        chosen = [message for message in self.messages if message["to"] == to]
        return json.dumps({"messages": chosen, "next_page_uri": None}).encode()


def kept(answer: int = 201, **changes: Any) -> Behaviour:
    """Keep the message and say so."""

    def behave(gateway: ScriptedGateway, connection: socket.socket, form: dict[str, str]) -> None:
        connection.sendall(http(answer, json.dumps(gateway.keep(form, **changes)).encode()))

    return behave


def raw(answer: bytes, *, keep: bool = False, then: str = "") -> Behaviour:
    """Answer with these bytes, having kept the message or not, and then perhaps `hang`, `close` or `drip`."""

    def behave(gateway: ScriptedGateway, connection: socket.socket, form: dict[str, str]) -> bool | None:
        if keep:
            gateway.keep(form)
        if then == "drip":
            while not gateway.over.wait(0.1):
                connection.sendall(b"X")
            return False
        connection.sendall(answer)
        if then == "hang":
            gateway.over.wait(30)
        return False if then else None

    return behave


def refused(
    status: int, code: int | None = None, message: str = "no", headers: str = "", *, keep: bool = False
) -> Behaviour:
    """Answer as the gateway does when it refuses; `keep` keeps the message all the same."""
    body = {"message": message, "status": status} | ({} if code is None else {"code": code})
    return raw(http(status, json.dumps(body).encode(), headers), keep=keep)

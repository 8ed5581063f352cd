"""A mail server on loopback that misbehaves on demand at every command; and deliveries to send there."""

from __future__ import annotations

import contextlib
import re
import socket
import ssl
import threading
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import UUID

from integration.listening import end_listening
from reminders.domain.delivery import Delivery
from reminders.domain.template import Template
from reminders.providers.email import EmailProvider
from reminders.settings import Settings
from reminders.settings_mail import Sender, SmtpServer

STEPS = ("greeting", "EHLO", "STARTTLS", "AUTH", "RSET", "MAIL", "RCPT", "DATA", "body", "dot", "QUIT")
GOOD = {
    "greeting": b"220 mail.example ESMTP\r\n",
    "STARTTLS": b"220 2.0.0 go ahead\r\n",
    "AUTH": b"235 2.7.0 welcome\r\n",
    "RSET": b"250 2.0.0 ok\r\n",
    "MAIL": b"250 2.1.0 ok\r\n",
    "RCPT": b"250 2.1.5 ok\r\n",
    "DATA": b"354 go on\r\n",
    "dot": b"250 2.0.0 Ok: queued as 4XyZ1abcD\r\n",
    "QUIT": b"221 2.0.0 bye\r\n",
}
EXTENSIONS = ("SIZE 10000000", "8BITMIME", "AUTH PLAIN LOGIN", "SMTPUTF8", "ENHANCEDSTATUSCODES")


@dataclass(frozen=True)
class Manner:
    """What happens in place of a good reply: `raw` is written, and then `then`: go on, close, reset, hang or drip."""

    raw: bytes = b""
    then: str = "go on"


CLOSE = Manner(then="close")
RESET = Manner(then="reset")
HANG = Manner(then="hang")
DRIP = Manner(b"2", "drip")
GARBAGE = Manner(b"\x00\xffHTTP/1.1 200 OK\r\n")
HALF = Manner(b"250 2.0.0 O", "close")


@dataclass
class Kept:
    """A message that the server took: its envelope and its text, dots restored."""

    sender: str
    recipient: str
    text: bytes


@dataclass
class MailServer:
    """Does as `manners` says at a step, once for each manner listed and the last one for ever. None is to behave."""

    manners: dict[str, list[Manner | None]] = field(default_factory=dict)
    extensions: tuple[str, ...] = EXTENSIONS
    tls: ssl.SSLContext | None = None
    implicit_tls: bool = False

    def __post_init__(self):
        self.kept: list[Kept] = []
        self.commands: list[str] = []
        self.accepted = 0
        self.over = threading.Event()
        self.closed = threading.Semaphore(0)
        self._lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self):
        self.over.set()
        end_listening(self.listener)

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with self._lock:
                    self.accepted += 1
                threading.Thread(target=self._talk, args=(connection,), daemon=True).start()

    def _talk(self, connection):
        with contextlib.suppress(OSError):
            try:
                if self.implicit_tls:
                    connection = self.tls.wrap_socket(connection, server_side=True)
                Talk(self, connection).run()
            finally:
                connection.close()
        self.closed.release()

    def manner(self, step):
        with self._lock:
            listed = self.manners.get(step, [])
            return listed[0] if len(listed) == 1 else listed.pop(0) if listed else None


class Talk:
    def __init__(self, server, connection):
        self.server = server
        self.connection = connection
        self.stream = connection.makefile("rb")
        self.secure = server.implicit_tls
        self.sender = self.recipient = ""

    def run(self):
        if not self.answer("greeting"):
            return
        while line := self.stream.readline():
            command = line.decode(errors="replace").strip()
            self.server.commands.append(command)
            step = command[:4].upper()
            step = "STARTTLS" if step == "STAR" else step
            if not self.answer(step, self.capabilities() if step == "EHLO" else None):
                return
            if step == "STARTTLS":
                self.stream.close()
                self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
                self.stream = self.connection.makefile("rb")
                self.secure = True
            elif step == "MAIL":
                self.sender = re.search("<(.*?)>", command)[1]
            elif step == "RCPT":
                self.recipient = re.search("<(.*?)>", command)[1]
            elif step == "QUIT" or (step == "DATA" and self.agreed and not self.data()):
                return

    def capabilities(self):
        words = ["mail.example", *self.server.extensions]
        if self.server.tls is not None and not self.secure:
            words.insert(1, "STARTTLS")
        return b"".join(f"250{' ' if word is words[-1] else '-'}{word}\r\n".encode() for word in words)

    def data(self):
        lines = []
        early = self.server.manner("body")
        if early is not None:
            self.stream.readline()
            if not self.do("body", early):
                return False
        while (line := self.stream.readline()) != b".\r\n":
            if not line:
                return False
            lines.append(line[1:] if line.startswith(b".") else line)
        manner = self.server.manner("dot")
        # The worst of servers: it has the message, and then does not say so.
        if manner is None or not re.match(rb"[45]\d\d ", manner.raw):
            self.server.kept.append(Kept(self.sender, self.recipient, b"".join(lines)))
        return self.do("dot", manner)

    def answer(self, step, good=None):
        return self.do(step, self.server.manner(step), good)

    def do(self, step, manner, good=None):
        self.agreed = manner is None
        if manner is None:
            self.connection.sendall(good or GOOD.get(step, b"502 5.5.1 no such command\r\n"))
            return True
        self.connection.sendall(manner.raw)
        if manner.then == "hang":
            self.server.over.wait(30)
        elif manner.then == "drip":
            while not self.server.over.wait(0.02):
                self.connection.sendall(b"5")
        elif manner.then == "reset":
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        return manner.then == "go on"


TEMPLATE = Template(
    id=UUID(int=9),
    tenant_id="acme",
    kind="invoice",
    channel="email",
    locale="",
    version=3,
    parts={
        "subject": "Order {{ data.order }} is due",
        "text": "Dear {{ user_id }},\n.\n..two dots\norder {{ data.order }} is due.\n",
        "html": "<p>Order <b>{{ data.order }}</b> is due, {{ data.name }}.</p>\n",
    },
)
DELIVERY = Delivery(
    reminder_id=UUID(int=1),
    delivery_key="rk_0123456789abcdef",
    tenant_id="acme",
    user_id="anna",
    kind="invoice",
    channel="email",
    destination_id=UUID(int=2),
    destination="anna@customer.example",
    due_at=datetime(2026, 11, 29, 12, tzinfo=UTC),
    zone=None,
    reference="order-7",
    slot="",
    data={"order": 7, "name": "Größe & Söhne"},
    attempt=1,
    body_format=1,
    template=TEMPLATE,
)
SENDER = Sender("Shop", "noreply@shop.example")


def provider_for(server, *, security="none", host="127.0.0.1", user=None, password="", **settings):
    address = SmtpServer(host, server.port, security, user, password)
    given = {"smtp_url": address, "mail_from": SENDER, "allow_private": True, **settings}
    return EmailProvider(Settings(**given))


def send(provider, *, deadline=5.0, **changes):
    one = replace(DELIVERY, **changes)
    return provider.send(one, provider.render(one), deadline)

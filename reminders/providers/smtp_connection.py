"""One connection to the mail server: the standard library's SMTP, driven step by step.

`smtplib` writes the commands and reads what EHLO offers. What is replaced here: replies are read strictly (it takes
`2_0` for a code, a line that is too long for a refusal, and a socket's time-out for a close), every read and write
keeps the call's deadline, and nothing is sent while something unasked has arrived.
"""

from __future__ import annotations

import base64
import re
import select
import smtplib
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from reminders.domain.outcomes import Outcome
from reminders.providers.deadline_sockets import Call, DeadlineSocket, DeadlineTlsSocket
from reminders.providers.email_outcomes import (
    ClosedByServer,
    GarbledReply,
    Step,
    Unable,
    UnexpectedReply,
    Utf8Missing,
    outcome_of_reply,
)
from reminders.providers.tls import wrap
from reminders.settings_mail import SmtpServer

_REPLY_LINE = re.compile(rb"([2-5]\d\d)(?:([ -])([^\r\n]*))?\r?\n")
_LONGEST_LINE = 4096
"""Bytes of a reply's line; RFC 5321 allows 512."""
_READ = 4096
_QUIT_SECONDS = 0.2
_PROBE_SHARE = 4
"""An idle connection has this part of the time that is left to show that it still works."""
_CLOSING = 421
_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+", re.ASCII)
_LEADING_DOT = re.compile(rb"^\.", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Envelope:
    """Who sends to whom, in ASCII unless `utf8` (RFC 6531)."""

    sender: str
    recipient: str
    utf8: bool = False


class SmtpConnection(smtplib.SMTP):
    """An open connection, on which one message after the other is handed over. One thread at a time may use it."""

    sock: DeadlineSocket | DeadlineTlsSocket

    def __init__(self, sock: DeadlineSocket | DeadlineTlsSocket) -> None:
        super().__init__(local_hostname=_own_name(sock))
        self.sock = sock
        self.messages = 0
        """Handed over so far, whatever became of them."""
        self.reusable = False
        """Whether it stands between two messages, so that another one may follow."""
        self._unread = bytearray()

    def greet(self, server: SmtpServer, context: ssl.SSLContext) -> None:
        """From the greeting to the log-in. TLS is never done without, unless the settings say `none`."""
        self._expect("greeting", 2, *self.getreply())
        self._expect("EHLO", 2, *self.ehlo())
        if server.security == "starttls":
            if not self.has_extn("starttls"):
                raise Unable("starttls_missing", "the server does not offer STARTTLS, and nothing is sent in the clear")
            self._ask("STARTTLS", 2, "STARTTLS")
            if self._unread:
                # Written by somebody in between, to be taken for the server's own words once TLS has begun.
                raise GarbledReply("text ahead of TLS")
            assert not isinstance(self.sock, ssl.SSLSocket)
            self.sock = wrap(self.sock, self.sock.call, context, server.host)
            self._expect("EHLO", 2, *self.ehlo())
        if server.user is not None:
            self._log_in(server.user, server.password)

    def probe(self, call: Call) -> None:
        """Begin anew after an earlier message. Raises like any step if the connection no longer works."""
        self.reusable = False
        self.sock.call = Call(call.remaining() / _PROBE_SHARE)
        self._expect("RSET", 2, *self.rset())
        self.sock.call = call

    def begin(self, envelope: Envelope, size: int) -> None:
        """Up to where the server waits for `size` bytes of a message. Nothing that happens here can deliver one."""
        options = f" SIZE={size}" if self.has_extn("size") else ""
        if envelope.utf8:
            if not (self.has_extn("smtputf8") and self.has_extn("8bitmime")):
                self.reusable = True
                raise Utf8Missing
            options += " BODY=8BITMIME SMTPUTF8"
        self.command_encoding = "utf-8" if envelope.utf8 else "ascii"
        self._ask("MAIL", 2, "MAIL", f"FROM:<{envelope.sender}>{options}")
        self._ask("RCPT", 2, "RCPT", f"TO:<{envelope.recipient}>")
        self._ask("DATA", 3, "DATA")

    def finish(self, message: bytes, call: Call) -> Outcome:
        """Send `message`, which ends in CRLF, and the dot that makes it the server's. Notes the latter in `call`."""
        self.messages += 1
        stuffed = _LEADING_DOT.sub(b"..", message)
        try:
            self.send(stuffed)
        except (BrokenPipeError, ConnectionResetError):
            self._early_reply()
            raise
        if not self.is_quiet():
            self._early_reply()
        # A TLS write that fails may have sent the whole line; a plain one that fails at once has sent nothing.
        call.sent = isinstance(self.sock, ssl.SSLSocket)
        self.send(b".\r\n")
        call.sent = True
        code, text = self.getreply()
        self.reusable = 200 <= code <= 599 and code != _CLOSING and not 300 <= code <= 399
        return outcome_of_reply("message", code, text)

    def is_quiet(self) -> bool:
        """Whether nothing has arrived that was not read: no reply, no close."""
        if self._unread or (isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()):
            return False
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """Close, with a QUIT that nobody waits for where one is in place."""
        if self.reusable:
            self.reusable = False
            self.sock.call = Call(_QUIT_SECONDS)
            with suppress(OSError, GarbledReply):
                self.putcmd("QUIT")
        super().close()

    def send(self, s: Any) -> None:
        """Write all of it within the deadline. Raises `OSError`; unlike the base class's it is left as it is."""
        if self._unread:
            raise GarbledReply("a reply came unasked")
        self.sock.settimeout(self.sock.call.remaining())
        self.sock.sendall(s.encode(self.command_encoding) if isinstance(s, str) else s)

    def getreply(self) -> tuple[int, bytes]:
        """The next reply: its code, and the text of its lines. Raises `ClosedByServer`, `GarbledReply` or `OSError`."""
        code = b""
        texts = []
        while True:
            found = _REPLY_LINE.fullmatch(self._line())
            if found is None or (code and found[1] != code):
                raise GarbledReply("no reply")
            code = found[1]
            texts.append((found[3] or b"").strip())
            if found[2] != b"-":
                return int(code), b"\n".join(texts)

    def _line(self) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            if len(self._unread) > _LONGEST_LINE:
                raise GarbledReply("a line without end")
            piece = bytearray(_READ)
            size = self.sock.recv_into(piece)
            if size == 0:
                raise ClosedByServer
            self._unread += piece[:size]
        line = bytes(self._unread[: end + 1])
        del self._unread[: end + 1]
        return line

    def _ask(self, step: Step, wanted: int, command: str, arguments: str = "") -> None:
        self._expect(step, wanted, *self.docmd(command, arguments))

    def _expect(self, step: Step, wanted: int, code: int, text: bytes) -> None:
        """Go on if the reply's first digit is `wanted`."""
        if code // 100 != wanted:
            # A refusal leaves the dialogue in step, and the next message begins with RSET.
            self.reusable = step in {"MAIL", "RCPT", "DATA"} and code >= 400 and code != _CLOSING
            raise UnexpectedReply(step, code, text)

    def _early_reply(self) -> None:
        """The server has decided before the message's end, or is gone; a success it cannot have."""
        code, text = self.getreply()
        raise UnexpectedReply("DATA", code, text)

    def _log_in(self, user: str, password: str) -> None:
        # Not `login` of the base class: it tries one mechanism after the other, and takes ASCII only.
        mechanisms = self.esmtp_features.get("auth", "").upper().split()
        if "PLAIN" in mechanisms:
            self._ask("AUTH", 2, "AUTH", "PLAIN " + _base64(f"\0{user}\0{password}"))
        elif "LOGIN" in mechanisms:
            self._ask("AUTH", 3, "AUTH", "LOGIN")
            self._ask("AUTH", 3, _base64(user))
            self._ask("AUTH", 2, _base64(password))
        else:
            raise Unable("auth_missing", "the server offers neither AUTH PLAIN nor AUTH LOGIN")


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode("ascii")


def _own_name(sock: socket.socket) -> str:
    """What EHLO says of us: the host's full name without asking a name server, else its address (RFC 5321, 4.1.3)."""
    name = socket.gethostname()
    if _HOST_NAME.fullmatch(name):
        return name
    address = sock.getsockname()[0]
    return f"[IPv6:{address}]" if ":" in address else f"[{address}]"

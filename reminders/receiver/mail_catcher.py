"""A mail server for this machine that delivers nothing: it keeps what it is given, and counts it.

For demonstrations and tests of channel `email`: set `REMINDERS_SMTP_URL` to the catcher's `url`. It takes every sender
and recipient, one recipient a message, over plain SMTP; it must never listen on anything but loopback.
"""

from __future__ import annotations

import email
import re
import socketserver
import threading
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from email import policy
from email.message import EmailMessage
from types import TracebackType
from typing import Self

MOST_KEPT = 1000
"""Mails that are kept; of older ones only the count by key remains."""
_MOST_BYTES = 2 * 1024 * 1024
_LONGEST_LINE = 64 * 1024
_IDLE_SECONDS = 60.0
_PATH = re.compile(rb"(?:MAIL FROM|RCPT TO):<([^<>]*)>", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class CaughtMail:
    """One mail: its envelope, and what it says."""

    sender: str
    recipient: str
    message: EmailMessage = field(repr=False)

    @property
    def key(self) -> str:
        """What is before the @ in `Message-ID`: the delivery key of a mail of ours; else empty."""
        return str(self.message.get("message-id", "")).strip().lstrip("<").partition("@")[0]

    @property
    def subject(self) -> str:
        return str(self.message.get("subject", ""))


class MailCatcher:
    """A catcher on a free port of loopback, or on `port`, from `start` to `stop`."""

    def __init__(self, port: int = 0) -> None:
        self._wanted_port = port
        self._lock = threading.Lock()
        self._mails: deque[CaughtMail] = deque(maxlen=MOST_KEPT)
        self._by_key: Counter[str] = Counter()

    def start(self) -> None:
        """Listen. Raises `OSError` if the port cannot be had."""
        self._server = _Server(("127.0.0.1", self._wanted_port), _Exchange)
        self._server.catcher = self
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="mail-catcher", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop listening. Connections end when their senders leave."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """The value for `REMINDERS_SMTP_URL`."""
        return f"smtp://127.0.0.1:{self._server.server_address[1]}?starttls=never"

    def add(self, mail: CaughtMail) -> None:
        with self._lock:
            self._mails.append(mail)
            self._by_key[mail.key] += 1

    def mails(self) -> Sequence[CaughtMail]:
        """The last ones, oldest first."""
        with self._lock:
            return tuple(self._mails)

    def counts_by_key(self) -> dict[str, int]:
        """How many mails came under each delivery key: more than one is a repeat."""
        with self._lock:
            return dict(self._by_key)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    # With the default of 5 the kernel lets the rest of a burst wait for seconds before it is even connected.
    request_queue_size = 128
    daemon_threads = True
    block_on_close = False
    catcher: MailCatcher


class _Exchange(socketserver.StreamRequestHandler):
    """One connection: as much of SMTP as a sender of single mails needs."""

    timeout = _IDLE_SECONDS
    server: _Server

    def handle(self) -> None:
        try:
            self._converse()
        except OSError:
            # The sender has left, or has been silent for too long.
            return

    def _converse(self) -> None:
        self._say("220 mail-catcher ESMTP: nothing is delivered")
        sender = recipient = None
        while line := self.rfile.readline(_LONGEST_LINE):
            verb = line[:4].upper()
            found = _PATH.match(line)
            if verb == b"QUIT":
                self._say("221 bye")
                return
            if verb in {b"EHLO", b"HELO"}:
                self._say("250-mail-catcher", f"250-SIZE {_MOST_BYTES}", "250-8BITMIME", "250 SMTPUTF8")
            elif verb in {b"RSET", b"NOOP"}:
                sender = recipient = None
                self._say("250 ok")
            elif verb == b"MAIL" and found:
                sender, recipient = found[1].decode(errors="replace"), None
                self._say("250 ok")
            elif verb == b"RCPT" and found and sender is not None:
                self._say("452 one recipient a message" if recipient is not None else "250 ok")
                recipient = recipient or found[1].decode(errors="replace")
            elif verb.startswith(b"DATA") and sender is not None and recipient is not None:
                self._say("354 end with a dot on a line of its own")
                message = self._message()
                if message is None:
                    return
                self.server.catcher.add(CaughtMail(sender, recipient, message))
                sender = recipient = None
                self._say("250 caught")
            else:
                self._say("503 not understood, or not now")

    def _message(self) -> EmailMessage | None:
        """What comes up to the dot; None if the sender leaves before it, or goes on without end."""
        lines: list[bytes] = []
        size = 0
        while (line := self.rfile.readline(_LONGEST_LINE)) != b".\r\n":
            size += len(line)
            if not line or size > _MOST_BYTES:
                return None
            lines.append(line.removeprefix(b"."))
        # As text, so that an address in raw UTF-8 (RFC 6532) is read as one.
        return email.message_from_string(b"".join(lines).decode(errors="replace"), policy=policy.default)

    def _say(self, *lines: str) -> None:
        self.wfile.write("".join(f"{line}\r\n" for line in lines).encode())

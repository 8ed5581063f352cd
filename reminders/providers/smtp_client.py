"""Handing messages to one mail server, over connections that are used again, each within its deadline."""

from __future__ import annotations

import logging
import ssl
import threading

from reminders.domain.outcomes import Outcome
from reminders.pipeline.tracing import origin
from reminders.providers.address_guard import resolve
from reminders.providers.deadline_sockets import Call, connect
from reminders.providers.email_outcomes import ClosedByServer, GarbledReply, UnexpectedReply, outcome_of_failure
from reminders.providers.idle_connections import IdleConnections
from reminders.providers.smtp_connection import Envelope, SmtpConnection
from reminders.providers.tls import new_tls_context, wrap
from reminders.settings_mail import SmtpServer

logger = logging.getLogger(__name__)

IDLE_SECONDS = 45.0
"""How long an unused connection is kept. RFC 5321 asks servers for five minutes; busy ones give less than one."""
MOST_MESSAGES = 100
"""Messages over one connection. Many servers close it after some such number."""


class SmtpClient:
    """Keeps up to `idle_limit` connections to `server` open between messages. Any number of threads may share it."""

    def __init__(self, server: SmtpServer, *, idle_limit: int) -> None:
        self._server = server
        self._idle: IdleConnections[SmtpConnection] = IdleConnections(idle_limit)
        self._lock = threading.Lock()
        self._tls_context: ssl.SSLContext | None = None

    def send(self, envelope: Envelope, message: bytes, deadline: float) -> Outcome:
        """Hand `message` over once. Returns what became of it, within `deadline` seconds; never raises."""
        call = Call(deadline)
        try:
            return self._send(envelope, message, call)
        except Exception as error:  # noqa: BLE001 (whatever happens, the attempt needs an outcome)
            outcome = outcome_of_failure(error, sent=call.sent)
            if outcome.error_class == "internal":
                logger.error("smtp.call_failed: %s", origin(error))  # noqa: TRY400 (not its text)
            return outcome

    def _send(self, envelope: Envelope, message: bytes, call: Call) -> Outcome:
        connection = self._begun_on_idle(envelope, len(message), call)
        if connection is None:
            connection = self._connect(call)
            try:
                connection.begin(envelope, len(message))
            except BaseException:
                self._keep(connection)
                raise
        try:
            return connection.finish(message, call)
        finally:
            self._keep(connection)

    def _begun_on_idle(self, envelope: Envelope, size: int, call: Call) -> SmtpConnection | None:
        """An idle connection on which the server waits for the message; None if there is none that still works.

        Up to there a lost connection has cost nothing: the message goes over a fresh one, within the same deadline.
        """
        connection = self._idle.take(self._server)
        if connection is None:
            return None
        try:
            connection.probe(call)
            connection.begin(envelope, size)
        except (ClosedByServer, GarbledReply, OSError):
            connection.close()
            return None
        except UnexpectedReply as reply:
            if reply.step == "RSET" or not connection.reusable:
                connection.close()
                return None
            self._keep(connection)
            raise
        except BaseException:
            self._keep(connection)
            raise
        return connection

    def _connect(self, call: Call) -> SmtpConnection:
        # The operator's own server may be anywhere, in the private network too.
        addresses = resolve(self._server.host, self._server.port, call, allow_private=True)
        sock = connect(addresses, call)
        if self._server.security == "tls":
            connection = SmtpConnection(wrap(sock, call, self._tls(), self._server.host))
        else:
            connection = SmtpConnection(sock)
        try:
            connection.greet(self._server, self._tls())
        except BaseException:
            connection.close()
            raise
        return connection

    def _keep(self, connection: SmtpConnection) -> None:
        if connection.reusable and connection.messages < MOST_MESSAGES:
            self._idle.keep(self._server, connection, IDLE_SECONDS)
        else:
            connection.close()

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._tls_context is None:
                self._tls_context = new_tls_context()
            return self._tls_context

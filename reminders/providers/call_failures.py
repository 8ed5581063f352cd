"""What an exception during a call means. The one question that matters: may any of the request have left?"""

from __future__ import annotations

import http.client
import os
import ssl

from reminders.domain.errors import ServiceUnavailable
from reminders.domain.outcomes import Outcome, Rejected, Retry, Unknown
from reminders.providers.address_guard import ForbiddenAddress, LookUpFailed
from reminders.providers.deadline_sockets import TooMuchReceived
from reminders.providers.redaction import redact


class Unsendable(Exception):
    """The request cannot be written as HTTP: a header or the address holds what HTTP does not allow."""


def outcome_of_failure(error: Exception, *, sent: bool) -> Outcome:
    """Map what ended a call without an answer.

    Before anything was sent it is a retry, save for what no repeat can cure. Afterwards it is unknown: nothing tells
    whether the far side acted. The texts do not disclose addresses that a name led to.
    """
    return _after_sending(error) if sent else _before_sending(error)


def _before_sending(error: Exception) -> Outcome:
    match error:
        case ForbiddenAddress():
            return Rejected("forbidden_address", str(error), blameless=True)
        case ServiceUnavailable():
            return Retry(
                "allowance_unknown", "what the tenant is allowed cannot be read; nothing was sent", blameless=True
            )
        case Unsendable() | http.client.InvalidURL() | UnicodeError():
            reason = "the request cannot be written as HTTP: a header or the address is malformed"
            return Rejected("unsendable", reason, blameless=True)
        case LookUpFailed():
            return Retry("dns", str(error))
        case TimeoutError():
            return Retry("deadline_before_send", "the deadline passed before anything was sent", timed_out=True)
        case ssl.SSLError():
            return Retry("tls", redact(f"no TLS connection: {_tls_reason(error)}"))
        case ConnectionRefusedError():
            return Retry("connect_refused", "the connection was refused")
        case ConnectionError():
            return Retry("reset_before_send", "the connection was reset before anything was sent")
        case OSError():
            return Retry("connect_failed", f"no connection: {_system_reason(error)}")
        case _:
            return Retry("internal", f"{type(error).__name__} on our side before anything was sent", blameless=True)


def _after_sending(error: Exception) -> Outcome:
    match error:
        case TimeoutError():
            return Unknown("deadline", "no answer before the deadline", timed_out=True)
        case http.client.RemoteDisconnected() | ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return Unknown("closed", "the far side closed the connection without an answer")
        case ConnectionError():
            return Unknown("reset", "the far side reset the connection without an answer")
        case ssl.SSLError():
            return Unknown("tls", redact(f"the TLS connection broke: {_tls_reason(error)}"))
        case http.client.HTTPException() | TooMuchReceived():
            return Unknown("malformed_answer", "the answer is not HTTP, or its head is too large")
        case OSError():
            return Unknown("connection_lost", f"the connection was lost: {_system_reason(error)}")
        case _:
            return Unknown("internal", f"{type(error).__name__} on our side after the request was sent", blameless=True)


def _system_reason(error: OSError) -> str:
    # By number: the text of the exception may name the address.
    return os.strerror(error.errno) if error.errno else "unreachable"


def _tls_reason(error: ssl.SSLError) -> str:
    # OpenSSL sets these attributes; an error that Python's ssl module makes on its own lacks them.
    return getattr(error, "verify_message", None) or getattr(error, "reason", None) or "handshake failed"

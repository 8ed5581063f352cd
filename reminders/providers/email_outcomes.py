"""What a mail server's replies and silences mean for a delivery. Pure functions; the documented tables follow them.

The one question that matters: had the line with the final dot left us? Before it no server may deliver (RFC 5321
section 4.1.1.4); after it only a complete reply tells.
"""

from __future__ import annotations

import re
import ssl
from datetime import timedelta
from typing import Literal

from reminders.domain.outcomes import Blocked, Delivered, Outcome, Rejected, Retry, Unknown
from reminders.providers.call_failures import outcome_of_failure as outcome_of_broken_call
from reminders.providers.deadline_sockets import TooMuchReceived
from reminders.providers.redaction import LIMIT, MASK, redact

Step = Literal["greeting", "EHLO", "STARTTLS", "AUTH", "RSET", "MAIL", "RCPT", "DATA", "message"]
"""What a reply answers; `message` is the line with the final dot."""
HOLD = timedelta(minutes=10)
"""For how long a channel is held whose server refuses us, and not only one message."""
_ABOUT_US = frozenset({"greeting", "EHLO", "STARTTLS", "AUTH"})
_LOG_IN_FIRST = frozenset({530, 534, 535, 538})
"""RFC 4954 section 6: authentication is required, too weak, refused, or wants encryption."""
_ENHANCED = re.compile(rb"([245]\.\d{1,3}\.\d{1,3})(?![^ \t])")
_QUEUE_ID = re.compile(
    r"queued as (?P<postfix>[A-Za-z0-9-]{5,64})|\bid=(?P<exim>[A-Za-z0-9-]{5,64})|InternalId=(?P<exchange>\d{5,64})"
    r"|^(?P<sendmail>[A-Za-z0-9]{8,64}) Message accepted|^ok:? (?P<bare>(?=\S*\d)[A-Za-z0-9][A-Za-z0-9-]{15,99})\b",
    re.IGNORECASE | re.ASCII,
)


class UnexpectedReply(Exception):
    """A complete reply that does not let the dialogue go on. `text` has its lines without their code."""

    def __init__(self, step: Step, code: int, text: bytes) -> None:
        super().__init__(f"{step}: {code}")
        self.step: Step = step
        self.code = code
        self.text = text


class ClosedByServer(Exception):
    """The connection ended where a reply was due, perhaps within it."""


class GarbledReply(Exception):
    """What came is no reply of SMTP, or came unasked."""


class Unable(Exception):
    """The server does not offer what our settings ask for. `error_class` says what."""

    def __init__(self, error_class: str, reason: str) -> None:
        super().__init__(reason)
        self.error_class = error_class


class Utf8Missing(Exception):
    """The server does not take addresses whose local part is not ASCII (no SMTPUTF8)."""


def outcome_of_reply(step: Step, code: int, text: bytes) -> Outcome:
    """Map the reply that ended a dialogue.

    A 4xx says that nothing was accepted, whenever it comes. A 5xx is a decision about this message, save where it is
    one about us (greeting, EHLO, STARTTLS, AUTH, or a demand to log in): that holds the channel. A mailbox that does
    not exist is refused without disabling the destination: the codes are too unevenly used for a word that lasts.
    """
    error_class = f"smtp_{code}"
    enhanced, words = _read(text)
    # A server may repeat a command that it did not understand, and with it our password.
    said = "the server does not log us in" if step == "AUTH" else redact(words, LIMIT - 60)
    reason = f"{step}: {code}{f' {enhanced}' if enhanced else ''}{f' {said}' if said else ''}"
    if step == "message" and 200 <= code <= 299:
        return Delivered(_queue_id(words), code)
    if 400 <= code <= 499:
        return Retry(error_class, reason, code)
    if 500 <= code <= 599:
        if step in _ABOUT_US or (step != "message" and code in _LOG_IN_FIRST):
            return Blocked("provider", HOLD, error_class, reason, code)
        return Rejected(error_class, reason, code)
    reason = f"{reason}, which is no answer to it"
    return Unknown("out_of_step", reason, code) if step == "message" else Retry("out_of_step", reason, code)


def outcome_of_failure(error: Exception, *, sent: bool) -> Outcome:
    """Map what ended a dialogue without a reply; `sent` says whether the final dot may have left."""
    outcome: type[Retry | Unknown] = Unknown if sent else Retry
    match error:
        case UnexpectedReply():
            return outcome_of_reply(error.step, error.code, error.text)
        case Unable():
            return Blocked("provider", HOLD, error.error_class, str(error))
        case Utf8Missing():
            return Rejected("smtputf8_missing", "the server does not take addresses that are not ASCII before the @")
        case ClosedByServer() | ssl.SSLEOFError() | ssl.SSLZeroReturnError():
            return outcome("closed", "the server closed the connection without a reply")
        case GarbledReply() | TooMuchReceived():
            return outcome("malformed_reply", "what the server sent is no reply of SMTP, or came unasked")
        case UnicodeError():
            return outcome("internal", f"{type(error).__name__} on our side")
        case _:
            return outcome_of_broken_call(error, sent=sent)


def _read(text: bytes) -> tuple[str, str]:
    """Enhanced status code (RFC 3463; empty if there is none) and words; each line may begin with the same code."""
    enhanced = ""
    words = []
    for line in text.split(b"\n"):
        found = _ENHANCED.match(line)
        if found is not None:
            enhanced = enhanced or found[1].decode("ascii")
        words.append(line[found.end() if found else 0 :].strip().decode("utf-8", "replace"))
    return enhanced, " ".join(words).strip()


def _queue_id(words: str) -> str | None:
    """The server's own name for the message, where its words have a form that we know and it is no number of a person."""
    found = _QUEUE_ID.search(words)
    name = redact(next(filter(None, found.groups()))) if found else None
    return None if name is None or MASK in name else name

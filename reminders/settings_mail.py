"""The settings of channel `email`. Each reader takes the text and raises `ValueError`, which never repeats a password."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from reminders.domain.header_text import header_fault

Security = Literal["starttls", "tls", "none"]

_FORM = "write smtp://user:password@host:587, or smtps://user:password@host:465"
# The last @ ends user and password, which may hold what URLs would escape.
_URL = re.compile(
    r"(?P<scheme>smtps?)://(?:(?P<login>.*)@)?(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(?P<port>\d{1,5}))?/?(?:\?(?P<query>[^@]*))?",
    re.ASCII,
)
_SENDER = re.compile(r'(?:"(?P<quoted>[^"\\]*)"|(?P<plain>[^"<>]*?)) *<(?P<address>[^<> ]+)>|(?P<bare>[^<> ]+)')
_LONGEST_NAME = 128
LONGEST_UNSUBSCRIBE_URL = 300
"""Characters, so that the header's line with a token stays within the 998 of RFC 5322."""


@dataclass(frozen=True, slots=True)
class SmtpServer:
    """Where mail is handed over. `starttls` and `tls` both verify the certificate; `none` sends in the clear."""

    host: str
    port: int
    security: Security
    user: str | None = None
    password: str = field(default="", repr=False)

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, by its name or address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"


@dataclass(frozen=True, slots=True)
class Sender:
    """The author of our mails. `address` is ASCII, its domain in A-labels."""

    name: str
    address: str

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


def smtp_server(text: str) -> SmtpServer:
    """Read `smtp://` (STARTTLS is required unless `?starttls=never`) or `smtps://` (TLS from the first byte)."""
    found = _URL.fullmatch(text)
    if found is None:
        raise ValueError(f"is no address of a mail server; {_FORM}")
    security = _security(found["scheme"], found["query"] or "")
    port = int(found["port"] or (465 if security == "tls" else 587))
    if not 0 < port < 65536:
        raise ValueError("has a port that is not a number from 1 to 65535")
    user, password = None, ""
    if found["login"] is not None:
        name, colon, secret = found["login"].partition(":")
        user, password = unquote(name), unquote(secret)
        if not (user and colon and password):
            raise ValueError(f"needs both a user and a password before the @; {_FORM}")
        if not (user + password).isprintable():
            raise ValueError("has a control character in user or password")
    return SmtpServer(found["host"].strip("[]"), port, security, user, password)


def _security(scheme: str, query: str) -> Security:
    try:
        options = parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query))
    except ValueError:
        raise ValueError("has options after ? that cannot be read; the only one is starttls=never") from None
    if not options:
        return "tls" if scheme == "smtps" else "starttls"
    if options != [("starttls", "never")] or scheme == "smtps":
        raise ValueError("has options after ? that are not known; the only one is starttls=never, with smtp://")
    return "none"


def sender(text: str) -> Sender:
    """Read `Name <address>` or a bare address."""
    from email_validator import EmailNotValidError, validate_email  # noqa: PLC0415 (60 ms, for those who send mail)

    found = _SENDER.fullmatch(text.strip(" "))
    name = (found["quoted"] or found["plain"] or "") if found else ""
    fault = header_fault(text)
    if fault is None and len(name) > _LONGEST_NAME:
        fault = f"has a display name of {len(name)} characters; at most {_LONGEST_NAME} are allowed"
    if fault is not None:
        raise ValueError(fault)
    address = (found["address"] or found["bare"]) if found else ""
    try:
        ascii_email = validate_email(address, check_deliverability=False, test_environment=True).ascii_email
    except EmailNotValidError:
        raise ValueError("is no address such as Shop <noreply@shop.example>") from None
    if ascii_email is None:
        raise ValueError("has an address that is not ASCII before the @, which many servers refuse")
    return Sender(name, ascii_email)


def unsubscribe_url(text: str) -> str:
    """An `https://` URL of the application, to which the token is added as parameter `token` (RFC 8058 asks for https)."""
    if not re.fullmatch(r"https://[!-;=?-~]+", text, re.ASCII) or '"' in text or "#" in text:
        raise ValueError("is no https:// URL in ASCII, without spaces, quotes, <, > and fragment")
    if len(text) > LONGEST_UNSUBSCRIBE_URL:
        raise ValueError(f"has {len(text)} characters; at most {LONGEST_UNSUBSCRIBE_URL} are allowed")
    if not urlsplit(text).hostname:
        raise ValueError("has no host")
    return text

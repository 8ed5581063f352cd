"""From a delivery's template to the part of a mail that is the same in every attempt, byte for byte."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

from reminders.domain.delivery import Delivery
from reminders.domain.header_text import header_fault
from reminders.domain.template import TemplateFault
from reminders.providers.email_address import Address
from reminders.providers.email_headers import subject_line, to_line
from reminders.providers.templating import render_part

LONGEST_SUBJECT = 500
"""Characters. A longer one is a fault of the template: it is never cut."""
MOST_BYTES = 1024 * 1024
"""Of a whole message, which many servers would take, but nobody means to send as a reminder."""
_KEY = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)
_BARE_LINE_END = re.compile(rb"\r(?!\n)|(?<!\r)\n")


def render_message(delivery: Delivery, address: Address) -> bytes:
    """Subject, recipient, text and, if the template has it, HTML. Raises `TemplateFault`, or `ValueError` for the key.

    Every byte is ASCII, save in the recipient's address, and every line ends in CRLF: no server needs 8BITMIME, and
    none can see an end of the message within it (the smuggling of bare line ends).
    """
    if not _KEY.fullmatch(delivery.delivery_key):
        raise ValueError("the delivery key cannot stand in a Message-ID")
    template = delivery.template
    subject = _subject(delivery)
    text = _entity("plain", _part(delivery, "text"))
    if template is not None and "html" in template.parts:
        boundary = _boundary(delivery.delivery_key)
        parts = (text, _entity("html", _part(delivery, "html")))
        content = f'Content-Type: multipart/alternative;\r\n boundary="{boundary}"\r\n\r\n'.encode()
        content += b"".join(b"--%s\r\n%s\r\n" % (boundary.encode(), part) for part in parts)
        content += b"--%s--\r\n" % boundary.encode()
    else:
        content = text
    message = subject_line(subject) + to_line(address.text)
    # RFC 3834: so that nobody's out-of-office note answers.
    message += b"Auto-Submitted: auto-generated\r\nMIME-Version: 1.0\r\n" + content
    if len(message) > MOST_BYTES:
        raise _fault(delivery, None, f"the message has {len(message):,} bytes; at most {MOST_BYTES:,} are sent")
    assert not _BARE_LINE_END.search(message)
    return message


def _subject(delivery: Delivery) -> str:
    # One line end after the text is how editors close a file, and no second header.
    subject = render_part(delivery, "subject").removesuffix("\n").removesuffix("\r").strip(" ")
    fault = header_fault(subject)
    if fault is None and not subject:
        fault = "is empty"
    if fault is None and len(subject) > LONGEST_SUBJECT:
        fault = f"has {len(subject)} characters; at most {LONGEST_SUBJECT} are allowed"
    if fault is not None:
        raise _fault(delivery, "subject", fault)
    return subject


def _part(delivery: Delivery, part: str) -> bytes:
    text = render_part(delivery, part, html=part == "html")
    if not text.strip():
        raise _fault(delivery, part, "is empty")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _fault(delivery, part, "contains a lone surrogate, which is no character") from None


def _fault(delivery: Delivery, part: str | None, message: str) -> TemplateFault:
    where = delivery.template.name if delivery.template is not None else delivery.kind
    return TemplateFault(where, part, None, message)


def _entity(subtype: str, text: bytes) -> bytes:
    """A MIME entity, in whichever of quoted-printable and base64 is shorter."""
    lines = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not lines.endswith(b"\n"):
        lines += b"\n"
    quoted = binascii.b2a_qp(lines, istext=True)
    encoded = base64.encodebytes(lines.replace(b"\n", b"\r\n"))
    name, content = ("quoted-printable", quoted) if len(quoted) <= len(encoded) else ("base64", encoded)
    head = f'Content-Type: text/{subtype}; charset="utf-8"\r\nContent-Transfer-Encoding: {name}\r\n\r\n'
    return head.encode() + content.replace(b"\n", b"\r\n")


def _boundary(delivery_key: str) -> str:
    # `=_` is in no quoted-printable and no base64 text, so the boundary cannot be met within a part (RFC 2045, 6.7).
    return "=_" + hashlib.sha256(b"mail boundary " + delivery_key.encode()).hexdigest()[:32]

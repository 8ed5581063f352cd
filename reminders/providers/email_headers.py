"""Header lines of a mail, written by rules of our own, which no release of Python changes under a pinned body."""

from __future__ import annotations

import base64
from datetime import datetime
from email.utils import format_datetime

from reminders.settings_mail import Sender

_LINE = 76
"""Characters of a line with encoded words, its end not counted (RFC 2047, 2); RFC 5322, 2.1.1 asks for 78 at most."""
_LONGEST_ENCODED = 75
"""Characters of one encoded word (RFC 2047, 2)."""
_AROUND = len("=?utf-8?b??=")


def subject_line(subject: str) -> bytes:
    """`Subject:`, folded. The text must be free of what `header_fault` refuses."""
    words = subject.split()
    return _line("Subject", words if _is_plain("Subject", subject, words) else _encoded("Subject", subject))


def to_line(address: str) -> bytes:
    """`To:` with the one recipient; raw UTF-8 (RFC 6532) where its local part is not ASCII."""
    return _line("To", [address])


def attempt_lines(sender: Sender, delivery_key: str, sent_at: datetime, unsubscribe_link: str | None) -> bytes:
    """What depends on the attempt or on the settings, and so is no part of the hashed body.

    `sent_at` must be aware. With a link come the two headers of one-click unsubscription (RFC 8058).
    """
    author = [f"<{sender.address}>"]
    if sender.name:
        quoted = sender.name.replace("\\", "\\\\").replace('"', '\\"')
        words = f'"{quoted}"'.split(" ")
        author = [*(words if _is_plain("From", sender.name, words) else _encoded("From", sender.name)), *author]
    lines = [
        _line("Date", [format_datetime(sent_at)]),
        _line("From", author),
        _line("Message-ID", [f"<{delivery_key}@{sender.domain}>"]),
    ]
    if unsubscribe_link is not None:
        lines.append(_line("List-Unsubscribe", [f"<{unsubscribe_link}>"]))
        lines.append(_line("List-Unsubscribe-Post", ["List-Unsubscribe=One-Click"]))
    return b"".join(lines)


def _line(name: str, words: list[str]) -> bytes:
    """One header, folded before words where it grows too long. A single word is never broken."""
    lines = [f"{name}:"]
    for word in words:
        # What follows the name stays beside it: some programs take an empty first line for an empty header.
        if len(lines[-1]) + 1 + len(word) > _LINE and lines != [f"{name}:"]:
            lines.append("")
        lines[-1] += f" {word}"
    return "\r\n".join(lines).encode() + b"\r\n"


def _is_plain(name: str, text: str, words: list[str]) -> bool:
    """Whether `text` may stand in header `name` as these words."""
    # Whatever could be taken for an encoded word is encoded, and so reads as it was written. A word cannot be folded, and an
    # encoded one can.
    return text.isascii() and "=?" not in text and all(len(word) <= _room_beside(name) for word in words)


def _encoded(name: str, text: str) -> list[str]:
    """Encoded words (RFC 2047), each holding whole characters; the first one fits beside the header's name."""
    chunks = [b""]
    for character in text:
        data = character.encode()
        room = _room_beside(name) if len(chunks) == 1 else _LONGEST_ENCODED
        if len(chunks[-1]) + len(data) > (room - _AROUND) // 4 * 3:
            chunks.append(b"")
        chunks[-1] += data
    return [f"=?utf-8?b?{base64.b64encode(chunk).decode('ascii')}?=" for chunk in chunks]


def _room_beside(name: str) -> int:
    return _LINE - len(f"{name}: ")

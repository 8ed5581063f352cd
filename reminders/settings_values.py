"""What single settings may be. Each reader takes the text and raises `ValueError`, which says what is wrong with it.

The text of a secret is never repeated.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from pathlib import Path

from reminders.domain.durations import parse_duration


def whole(low: int, high: int) -> Callable[[str], int]:
    """A reader of whole numbers from `low` to `high`."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"\d{1,9}", text, re.ASCII) or not low <= int(text) <= high:
            raise ValueError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return parse


def seconds(low: float, high: float) -> Callable[[str], float]:
    """A reader of durations from `low` to `high` seconds."""

    def parse(text: str) -> float:
        given = parse_duration(text)
        if not low <= given <= high:
            raise ValueError(f"{text!r} is outside {low:g} s to {high:g} s")
        return given

    return parse


def or_never(read: Callable[[str], float]) -> Callable[[str], float]:
    """A reader that takes `never` and `0` besides, as 0."""
    return lambda text: 0.0 if text in {"never", "0"} else read(text)


def share(text: str) -> float:
    """A part of a whole, as `50%` or `0.5`."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,3})?)(%?)", text.strip(), re.ASCII)
    found = float(match[1]) / (100 if match[2] else 1) if match else 0.0
    if not 0 < found <= 1:
        raise ValueError(f"{text!r} is no share; write 50% or 0.5, above 0 and at most 100%")
    return found


def switch(text: str) -> bool:
    known = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
    try:
        return known[text.strip().lower()]
    except KeyError:
        raise ValueError(f"{text!r} is neither yes nor no") from None


def schema(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,30}", text, re.ASCII) or text.startswith("pg_"):
        raise ValueError(f"{text!r} is no schema name; use lower-case letters, digits and _, at most 31")
    return text


def names(text: str) -> tuple[str, ...]:
    """Lower-case names with commas or blanks between."""
    found = tuple(filter(None, re.split(r"[,\s]+", text)))
    for name in found:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,60}", name, re.ASCII):
            raise ValueError(f"{name[:40]!r} is no name; write lower-case names with commas between")
    return found


def events(text: str) -> str:
    if text not in {"all", "control"}:
        raise ValueError(f"{text!r} is neither all nor control")
    return text


def log_form(text: str) -> str:
    if text not in {"lines", "json"}:
        raise ValueError(f"{text!r} is neither lines nor json")
    return text


def basic_auth(text: str) -> str:
    user, _, password = text.partition(":")
    if not user or len(password) < 8:
        raise ValueError("must be user:password with a password of at least 8 characters")
    return text


def file_name(text: str) -> Path:
    return Path(file_or_word(text)).expanduser()


def file_or_word(text: str) -> str:
    if not text.isprintable():
        raise ValueError("is no file's name")
    return text


def token(text: str) -> str:
    """What whoever asks must send in a header."""
    if not re.fullmatch(r"[A-Za-z0-9._~+/=-]{24,4096}", text, re.ASCII):
        raise ValueError("must be at least 24 random letters, digits or . _ ~ + / = -")
    return text


def host_token(text: str) -> str:
    """A host, a colon, and the bearer token that this host alone is shown."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*:[A-Za-z0-9._~+/=-]{8,4096}", text, re.ASCII):
        raise ValueError(
            "must be HOST:TOKEN, the host that is shown the token, as files.example.com:... (8 characters at least)"
        )
    return text


def gateway_url(text: str) -> str:
    """The address of an SMS gateway. The rest of it is read by the gateway's adapter, which its scheme names."""
    if not re.match(r"[a-z][a-z0-9]*(\+http)?://[^/?#@]+@[^/?#@]", text, re.ASCII):
        raise ValueError(
            "must be an address with credentials, as twilio://ACCOUNT_SID:AUTH_TOKEN@api.twilio.com?from=+49..."
        )
    return text


def encryption_keys(text: str) -> tuple[str, ...]:
    """Keys of the form that `reminders secret generate-key` prints, with commas or blanks between, in their order."""
    found: dict[bytes, str] = {}
    for number, key in enumerate(filter(None, re.split(r"[,\s]+", text.strip())), 1):
        if not re.fullmatch(r"[A-Za-z0-9_-]{43}=", key, re.ASCII):
            raise ValueError(
                f"key {number} is not 32 bytes in URL-safe base64 (44 characters); `reminders secret generate-key` makes one"
            )
        if (raw := base64.urlsafe_b64decode(key)) in found:
            raise ValueError(f"key {number} is there twice")
        found[raw] = key
    if not found:
        raise ValueError("is empty; `reminders secret generate-key` makes a key")
    return tuple(found.values())


def long_secret(text: str) -> str:
    if len(text) < 24:
        raise ValueError("is too short for a signing secret; use at least 24 random characters")
    return text

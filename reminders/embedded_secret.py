"""What a laptop needs no settings for: a signing secret and an encryption key of its own, and leave to deliver to itself.

It applies while neither `DATABASE_URL` nor `REDIS_URL` is set, so that the ledger and the broker are the embedded ones
of this machine. Every process of one home (workers, receiver, commands) finds the same ones.
"""

from __future__ import annotations

import base64
import logging
import os
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reminders.domain.errors import SettingsError
from reminders.embedded.placement import why_closed
from reminders.settings import PREFIX, Secret, Settings
from reminders.settings_values import encryption_keys, long_secret

logger = logging.getLogger(__name__)

FILE_NAME = "webhook_secret"
KEY_FILE_NAME = "encryption_key"


@dataclass(frozen=True, slots=True)
class _Kept:
    """Something that is kept in a file of the home: what it is called, which setting replaces it, and what it must be."""

    file_name: str
    words: str
    setting: str
    make: Callable[[], str]
    check: Callable[[str], object]


_SIGNING = _Kept(FILE_NAME, "signing secret", "WEBHOOK_SECRET", lambda: secrets.token_urlsafe(32), long_secret)
_ENCRYPTING = _Kept(
    KEY_FILE_NAME,
    "encryption key",
    "KEYS",
    lambda: base64.urlsafe_b64encode(secrets.token_bytes(32)).decode("ascii"),
    encryption_keys,
)


def with_laptop_defaults(settings: Settings, environ: Mapping[str, str] | None = None) -> Settings:
    """`settings` with the signing secret and the encryption key of its home, and private destinations allowed, where nothing else is set.

    To be called before the embedded addresses are filled in: with either address set nothing changes. An explicit
    `REMINDERS_ALLOW_PRIVATE=no` stands. Raises `SettingsError` if a file of theirs cannot be used.
    """
    if settings.database_url is not None or settings.redis_url is not None:
        return settings
    environ = os.environ if environ is None else environ
    allow_private = settings.allow_private or not environ.get(PREFIX + "ALLOW_PRIVATE")
    secret = settings.webhook_secret
    if secret is None:
        secret, first_time = _kept_or_made(settings.home, _SIGNING)
        if first_time and allow_private:
            logger.warning(
                "settings.development: Neither DATABASE_URL nor REDIS_URL is set: this is for development, so webhooks may also go to http:// "
                "and to private addresses (REMINDERS_ALLOW_PRIVATE=no forbids it)"
            )
    keys = settings.keys or (_kept_or_made(settings.home, _ENCRYPTING)[0],)
    return replace(settings, webhook_secret=secret, keys=keys, allow_private=allow_private)


def development_secret(home: Path) -> Secret:
    """The signing secret of the home folder, made at the first call. Only its owner can read the file.

    Raises `SettingsError`.
    """
    return _kept_or_made(home, _SIGNING)[0]


def kept_at_home(home: Path) -> dict[str, Secret]:
    """What is kept in the home folder for development, by the name of the setting that replaces it; nothing is made."""
    found = {}
    for kept in (_SIGNING, _ENCRYPTING):
        with suppress(OSError):
            text = _read(home.expanduser() / kept.file_name)
            if text:
                found[PREFIX + kept.setting] = Secret(text)
    return found


def _kept_or_made(home: Path, kept: _Kept) -> tuple[Secret, bool]:
    """What is kept, and whether it was made just now."""
    home = home.expanduser()
    path = home / kept.file_name
    made = False
    try:
        text = _read(path)
        if text is None:
            made = True
            _make_home(home)
            _write_if_absent(path, kept.make(), kept.words)
            text = _read(path) or ""
    except OSError as error:
        raise SettingsError(
            f"The {kept.words} cannot be kept in {path}: {why_closed(home, error)}\n"
            f"Set REMINDERS_HOME to a folder you own, or set REMINDERS_{kept.setting}"
        ) from error
    try:
        kept.check(text)
    except ValueError:
        raise SettingsError(f"{path} holds no {kept.words}\nRemove the file, or set REMINDERS_{kept.setting}") from None
    return Secret(text), made


def _read(path: Path) -> str | None:
    with suppress(FileNotFoundError):
        return path.read_text(encoding="utf-8", errors="replace").strip()
    return None


def _make_home(home: Path) -> None:
    if not home.is_dir():
        # Like the embedded services do it, whoever comes first: others may pass through, and git looks away.
        home.mkdir(parents=True, exist_ok=True, mode=0o711)
        (home / ".gitignore").write_text("*\n")


def _write_if_absent(path: Path, text: str, words: str) -> None:
    """Several processes may come here at once: the first link wins, and nobody ever sees half a secret."""
    growing = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
        with suppress(FileExistsError):
            os.link(growing, path)
            logger.info("settings.made: The %s for development is made in %s", words, path)
    finally:
        growing.unlink()

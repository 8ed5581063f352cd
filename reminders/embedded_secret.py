"""What a laptop needs no settings for: a signing secret of its own, and leave to deliver to itself.

It applies while neither `DATABASE_URL` nor `REDIS_URL` is set, so that the ledger and the broker are the embedded ones
of this machine. Every process of one home (workers, receiver, commands) finds the same secret.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from reminders.domain.errors import SettingsError
from reminders.embedded.placement import why_closed
from reminders.settings import PREFIX, Secret, Settings

logger = logging.getLogger(__name__)

FILE_NAME = "webhook_secret"
_SHORTEST = 24
"""Characters, as for `REMINDERS_WEBHOOK_SECRET`."""


def with_laptop_defaults(settings: Settings, environ: Mapping[str, str] | None = None) -> Settings:
    """`settings` with the signing secret of its home, and private destinations allowed, where nothing else is set.

    To be called before the embedded addresses are filled in: with either address set nothing changes. An explicit
    `REMINDERS_ALLOW_PRIVATE=no` stands. Raises `SettingsError` if the secret's file cannot be used.
    """
    if settings.database_url is not None or settings.redis_url is not None:
        return settings
    environ = os.environ if environ is None else environ
    allow_private = settings.allow_private or not environ.get(PREFIX + "ALLOW_PRIVATE")
    secret = settings.webhook_secret
    if secret is None:
        secret, first_time = _kept_or_made(settings.home)
        if first_time and allow_private:
            logger.warning(
                "Neither DATABASE_URL nor REDIS_URL is set: this is for development, so webhooks may also go to http:// "
                "and to private addresses (REMINDERS_ALLOW_PRIVATE=no forbids it)"
            )
    return replace(settings, webhook_secret=secret, allow_private=allow_private)


def development_secret(home: Path) -> Secret:
    """The signing secret of the home folder, made at the first call. Only its owner can read the file.

    Raises `SettingsError`.
    """
    return _kept_or_made(home)[0]


def _kept_or_made(home: Path) -> tuple[Secret, bool]:
    """The secret, and whether it was made just now."""
    home = home.expanduser()
    path = home / FILE_NAME
    made = False
    try:
        text = _read(path)
        if text is None:
            made = True
            _make_home(home)
            _write_if_absent(path, secrets.token_urlsafe(32))
            text = _read(path) or ""
    except OSError as error:
        raise SettingsError(
            f"The signing secret cannot be kept in {path}: {why_closed(home, error)}\n"
            "Set REMINDERS_HOME to a folder you own, or set REMINDERS_WEBHOOK_SECRET"
        ) from error
    if len(text) < _SHORTEST:
        raise SettingsError(f"{path} holds no signing secret\nRemove the file, or set REMINDERS_WEBHOOK_SECRET")
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


def _write_if_absent(path: Path, text: str) -> None:
    """Several processes may come here at once: the first link wins, and nobody ever sees half a secret."""
    growing = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(growing, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(f"{text}\n")
        with suppress(FileExistsError):
            os.link(growing, path)
            logger.info("A signing secret for development is made in %s", path)
    finally:
        growing.unlink()

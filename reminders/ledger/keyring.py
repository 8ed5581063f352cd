"""The keys under which secrets are kept in the ledger: the newest encrypts, any decrypts.

What is encrypted is bound to what it belongs to, so that a ciphertext that was moved to another row is no secret there.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reminders.domain.errors import SecretUnreadable, SettingsError
from reminders.settings import Secret

if TYPE_CHECKING:
    from cryptography.fernet import Fernet

_KEY_LABEL = b"reminders encryption key fingerprint v1"
_SECRET_LABEL = b"reminders signing secret fingerprint v1"
_BINDING = 32


def generate_key() -> str:
    """A new key, for `REMINDERS_KEYS`: 32 random bytes in URL-safe base64."""
    from cryptography.fernet import Fernet  # noqa: PLC0415 - 7 MB, for those who encrypt at all

    return Fernet.generate_key().decode("ascii")


def secret_fingerprint(secret: bytes) -> str:
    """16 hexadecimal digits that tell secrets of 32 random bytes apart, and say nothing else about them."""
    return hashlib.sha256(_SECRET_LABEL + secret).hexdigest()[:16]


class Keyring:
    """The keys of `REMINDERS_KEYS`, newest first. There may be none: then nothing can be encrypted or decrypted."""

    def __init__(self, keys: Sequence[Secret]) -> None:
        self._ciphers = {_fingerprint(key): _cipher(key) for key in keys}
        self.fingerprints = tuple(self._ciphers)
        """Of the keys, 16 hexadecimal digits each, newest first."""

    @property
    def newest(self) -> str:
        """The fingerprint of the key that encrypts. Raises `SettingsError` where there is none."""
        if not self.fingerprints:
            raise SettingsError(
                "REMINDERS_KEYS is not set: secrets of one's own are only kept encrypted\n"
                "`reminders secret generate-key` makes a key; set it for the workers and for this command"
            )
        return self.fingerprints[0]

    def encrypt(self, secret: bytes, belongs_to: bytes) -> tuple[str, str]:
        """The ciphertext, as text, and the fingerprint of its key. Raises `SettingsError` where there is no key."""
        key = self.newest
        return self._ciphers[key].encrypt(hashlib.sha256(belongs_to).digest() + secret).decode("ascii"), key

    def decrypt(self, ciphertext: str, key: str, belongs_to: bytes) -> bytes:
        """The secret. Raises `SecretUnreadable`, which repeats neither."""
        cipher = self._ciphers.get(key)
        if cipher is None:
            raise SecretUnreadable(key, f"REMINDERS_KEYS has no key with the fingerprint {key}")
        from cryptography.fernet import InvalidToken  # noqa: PLC0415 - the same

        try:
            plain = cipher.decrypt(ciphertext)
        except InvalidToken:
            raise SecretUnreadable(key, "the ciphertext was damaged") from None
        if plain[:_BINDING] != hashlib.sha256(belongs_to).digest():
            raise SecretUnreadable(key, "the ciphertext belongs to another row")
        return plain[_BINDING:]


def _cipher(key: Secret) -> Fernet:
    from cryptography.fernet import Fernet  # noqa: PLC0415 - the same

    return Fernet(key.reveal())


def _fingerprint(key: Secret) -> str:
    return hashlib.sha256(_KEY_LABEL + base64.urlsafe_b64decode(key.reveal())).hexdigest()[:16]

"""Every error this package raises on purpose. Each message says what is wrong, where, and what to do."""

from __future__ import annotations


class RemindersError(Exception):
    """Base of all errors of this package; its text is fit for a person."""


class InvalidInput(RemindersError):
    """A value that cannot be accepted. Nothing was written.

    `field` names the parameter or column at fault.
    """

    def __init__(self, field: str, message: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.reason = message


class NotHere(InvalidInput):
    """A destination that is spelled as it must be, and that the present settings do not deliver to."""


class NotPublic(NotHere):
    """A destination that would do, but that its `host` is not public. A tenant may be allowed it."""

    def __init__(self, field: str, message: str, host: str) -> None:
        super().__init__(field, message)
        self.host = host


class Conflict(RemindersError):
    """The same identity was scheduled before with other content. The caller's transaction is untouched."""


class NotFound(RemindersError):
    """No such reminder, destination or dead letter."""


class Refused(RemindersError):
    """The request is well formed, but the state of the reminder does not allow it."""


class SettingsError(RemindersError):
    """The environment does not describe a working installation; lists every fault at once."""


class SecretUnreadable(RemindersError):
    """A secret that a delivery must be signed with cannot be had. Nothing may be signed with another one instead.

    `key` is the fingerprint of the encryption key that is missing or does not fit; empty where it is not about a key.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class ServiceUnavailable(RemindersError):
    """Postgres or Redis cannot be reached or started; says what was tried."""

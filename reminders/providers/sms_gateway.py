"""What an SMS gateway is: one adapter, a module `sms_NAME` beside this one, found by the scheme of `REMINDERS_SMS_URL`.

A module becomes an adapter by having `gateway(address, settings)`, which returns a `Gateway` and raises `SettingsError`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import parse_qsl, unquote, urlsplit

from reminders.domain.errors import SettingsError
from reminders.domain.look_ups import Undecided
from reminders.domain.outcomes import Outcome
from reminders.providers.destination_url import Target
from reminders.settings import Secret, Settings

_PORTS = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Listed:
    """A text that a gateway has: its own name for it, and when it was created there (aware, by the gateway's clock).

    `failed` says that the gateway has given it up, so that it was accepted and will not arrive.
    """

    reference: str
    text: str
    created_at: datetime
    failed: bool


class Gateway(Protocol):
    """One gateway, with the account and the sender that the settings name."""

    def send(self, to: str, text: str, deadline: float) -> Outcome:
        """Hand one text over, once. Returns within `deadline` seconds and never raises.

        `Delivered` means accepted by the gateway: it answers for the text from then on, and has a reference for it.
        """

    def sent_to(self, to: str, since: datetime, deadline: float) -> Sequence[Listed] | Undecided:
        """All texts that it has from our sender to `to`, at least those created since `since` (aware).

        Returns within `deadline` seconds and never raises: what cannot be read to its end is `Undecided`.
        """


@dataclass(frozen=True, slots=True)
class GatewayAddress:
    """`REMINDERS_SMS_URL` taken apart. Texts are unescaped; `path` has no slash at its end."""

    scheme: str
    host: str
    port: int
    path: str
    user: str
    password: Secret
    options: Mapping[str, str]

    def target(self, path: str) -> Target:
        """Where a request for `path`, below the address's own, goes."""
        return Target(self.scheme, self.host, self.port, self.path + path)


def gateway_of(settings: Settings) -> Gateway:
    """The gateway that the settings name. Raises `SettingsError`, which repeats nothing of the address but names."""
    if settings.sms_url is None:
        raise SettingsError(
            "REMINDERS_SMS_URL is not set: without it no SMS can be sent; "
            "write twilio://ACCOUNT_SID:AUTH_TOKEN@api.twilio.com?from=%2B4915112345678"
        )
    text = settings.sms_url.reveal()
    name, _, transport = text.partition("://")[0].partition("+")
    if transport not in {"", "http"}:
        raise SettingsError("REMINDERS_SMS_URL has something other than +http after the gateway's name")
    adapter = _adapter(name)
    return adapter(_address(text, transport or "https", settings), settings)


def _adapter(name: str) -> Callable[[GatewayAddress, Settings], Gateway]:
    fault = SettingsError("REMINDERS_SMS_URL begins with the name of no gateway; known is twilio://")
    if not re.fullmatch(r"[a-z][a-z0-9]{0,30}", name, re.ASCII):
        raise fault
    path = f"{__package__}.sms_{name}"
    try:
        module = importlib.import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        raise fault from None
    adapter: Callable[[GatewayAddress, Settings], Gateway] | None = getattr(module, "gateway", None)
    if adapter is None:
        raise fault
    return adapter


def _address(text: str, scheme: str, settings: Settings) -> GatewayAddress:
    try:
        parts = urlsplit(text)
        port = parts.port
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise SettingsError("REMINDERS_SMS_URL is not a URL, or its port or what follows the ? is malformed") from None
    host = parts.hostname or ""
    if not host or not parts.username or not parts.password or parts.fragment:
        raise SettingsError(
            "REMINDERS_SMS_URL must have user, password and host, each percent-encoded, and no fragment (#)"
        )
    if not re.fullmatch(r"[A-Za-z0-9._:-]+", host, re.ASCII):
        raise SettingsError("REMINDERS_SMS_URL has a malformed host; write international names as xn--")
    if not re.fullmatch(r"[A-Za-z0-9._~/-]*", parts.path, re.ASCII):
        raise SettingsError("REMINDERS_SMS_URL has a path with characters that gateways' paths do not have")
    if scheme == "http" and not (settings.allow_private or _is_loopback(host)):
        raise SettingsError(
            "REMINDERS_SMS_URL asks for plain HTTP, which would show credentials and texts to the network; "
            "leave +http out (it is for this machine, or with REMINDERS_ALLOW_PRIVATE=1)"
        )
    if len({name for name, _ in options}) != len(options):
        raise SettingsError("REMINDERS_SMS_URL gives the same option twice")
    return GatewayAddress(
        scheme=scheme,
        host=host,
        port=port or _PORTS[scheme],
        path=parts.path.rstrip("/"),
        user=unquote(parts.username),
        password=Secret(unquote(parts.password)),
        options=dict(options),
    )


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

"""The environment, read once, typed, with every fault reported together.

Durations are seconds. Secrets are `Secret` values: their text never shows in `repr`, logs or errors.
"""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from reminders.domain.durations import parse_delays
from reminders.domain.errors import SettingsError
from reminders.domain.slow_calls import SLOW_PER_SLOT
from reminders.domain.tenants import MAIN, Mode, read_dispatcher, read_mode
from reminders.settings_mail import Sender, SmtpServer, sender, smtp_server, unsubscribe_url
from reminders.settings_values import (
    basic_auth,
    encryption_keys,
    events,
    file_name,
    file_or_word,
    gateway_url,
    host_token,
    log_form,
    long_secret,
    names,
    or_never,
    schema,
    seconds,
    share,
    switch,
    token,
    whole,
)

logger = logging.getLogger(__name__)

PREFIX = "REMINDERS_"
EXTRA = "REMINDERS_X_"
"""How the settings of other packages' providers begin; we only hand them on."""
FINALIZE_BUDGET = 5.0
"""Seconds kept free, inside the claim and inside the shutdown grace, for recording an outcome."""
SHORTEST_RETENTION = 86400.0
"""Seconds for which what has ended is kept at least: `90` for ninety days is a slip that deletes nearly everything."""


class Secret:
    """Text that must not be shown. `reveal()` gives it to the one place that needs it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "Secret('***')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)


@dataclass(frozen=True)
class Settings:
    """One process's settings. Build it with `load`; the field names are the variable names in lower case."""

    database_url: Secret | None = None
    redis_url: Secret | None = None
    home: Path = Path(".reminders")
    schema: str = "reminders"
    scan_every: float = 60.0
    batch: int = 500
    in_flight: int = 0
    lease: float = 60.0
    redeliver: float = 120.0
    claim: float = 30.0
    http_deadline: float = 10.0
    visibility: float = 600.0
    max_attempts: int = 8
    retry_delays: tuple[float, ...] = (5.0, 30.0, 300.0, 1800.0, 7200.0, 18000.0, 36000.0)
    max_wait: float = 72 * 3600.0
    disable_after: float = 5 * 86400.0
    breaker_window: float = 60.0
    breaker_calls: int = 5
    breaker_share: float = 0.5
    breaker_open: float = 30.0
    dedup_window: float = 7 * 86400.0
    grace: float = 20.0
    retention: float = 90 * 86400.0
    evidence_keep: float = 1096 * 86400.0
    """Seconds for which is kept what people have said and done, once it no longer stands."""
    allow_erase_tasks: bool = False
    """Whether users are erased, and things purged before their time, by tasks over the broker."""
    processes: int = 2
    concurrency: int = 32
    webhook_secret: Secret | None = None
    sms_url: Secret | None = None
    sms_max_parts: int = 4
    smtp_url: SmtpServer | None = None
    mail_from: Sender | None = None
    unsubscribe_url: str | None = None
    keys: tuple[Secret, ...] = ()
    """What encrypts secrets in the ledger, newest first."""
    allow_private: bool = False
    new_tenants: Mode = "live"
    dispatcher: str = MAIN
    flower_auth: Secret | None = None
    flower_events: str = "all"
    metrics_token: Secret | None = None
    log: str = "lines"
    """How processes write their log: `lines` for people, or `json`."""
    trail: bool = False
    """Whether they log every stage of every reminder."""
    redis_ca: str | None = None
    """The file of the authority that the broker's certificate is checked by, or `UNVERIFIED`."""
    reconcile: Path | None = None
    """The configuration of reconciliation, a TOML file."""
    reconcile_token: Secret | None = None
    reconcile_keep: float = 730 * 86400.0
    accept: tuple[str, ...] = ()
    """Findings of `reminders doctor` that an operator has accepted, by name: they stop nothing."""
    extras: tuple[tuple[str, Secret], ...] = ()
    """What other packages' providers are set up with: the variables `REMINDERS_X_*`, by the rest of their names."""

    def x(self, name: str) -> str | None:
        """The text of the variable `REMINDERS_X_<name>`; None if it is not set, or empty. It may be a secret."""
        return next((text.reveal() for key, text in self.extras if key == name), None)

    @property
    def reconcile_bearers(self) -> dict[str, str]:
        """The bearer token that settlement files are fetched with, under the one host that is to see it."""
        if self.reconcile_token is None:
            return {}
        host, _, token = self.reconcile_token.reveal().partition(":")
        return {host.lower(): token}

    @property
    def in_flight_limit(self) -> int:
        """How many deliveries may be between publish and finalize: `IN_FLIGHT`, or four times the worker slots."""
        return self.in_flight or 4 * self.processes * self.concurrency

    @property
    def slow_limit(self) -> int:
        """How many slow calls may be open besides: what the processes carry that the in-flight limit stands for."""
        return SLOW_PER_SLOT * self.in_flight_limit // 4


def _secret(read: Callable[[str], str]) -> Callable[[str], Secret]:
    return lambda text: Secret(read(text))


_YEAR = 366 * 86400.0
_PARSERS: dict[str, Callable[[str], Any]] = {
    "home": Path,
    "schema": schema,
    "scan_every": seconds(1, 3600),
    "batch": whole(1, 10_000),
    "in_flight": whole(1, 1_000_000),
    "lease": seconds(1, 3600),
    "redeliver": seconds(1, 86400),
    "claim": seconds(1, 3600),
    "http_deadline": seconds(0.1, 600),
    "visibility": seconds(1, 86400),
    "max_attempts": whole(1, 1000),
    "retry_delays": parse_delays,
    "max_wait": seconds(1, _YEAR),
    "disable_after": or_never(seconds(1, _YEAR)),
    "breaker_window": seconds(1, 3600),
    "breaker_calls": whole(1, 200),
    "breaker_share": or_never(share),
    "breaker_open": seconds(1, 900),
    "dedup_window": seconds(1, _YEAR),
    "grace": seconds(1, 3600),
    "retention": seconds(SHORTEST_RETENTION, 100 * _YEAR),
    "evidence_keep": seconds(30 * SHORTEST_RETENTION, 100 * _YEAR),
    "allow_erase_tasks": switch,
    "processes": whole(1, 64),
    "concurrency": whole(1, 1000),
    "webhook_secret": _secret(long_secret),
    "sms_url": _secret(gateway_url),
    "sms_max_parts": whole(1, 10),
    "smtp_url": smtp_server,
    "mail_from": sender,
    "unsubscribe_url": unsubscribe_url,
    "keys": lambda text: tuple(map(Secret, encryption_keys(text))),
    "allow_private": switch,
    "new_tenants": read_mode,
    "dispatcher": read_dispatcher,
    "flower_auth": _secret(basic_auth),
    "flower_events": events,
    "metrics_token": _secret(token),
    "log": log_form,
    "trail": switch,
    "redis_ca": file_or_word,
    "reconcile": file_name,
    "reconcile_token": _secret(host_token),
    "reconcile_keep": seconds(30 * SHORTEST_RETENTION, 100 * _YEAR),
    "accept": names,
}


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Read the environment. Raises `SettingsError` with one line per fault; warns about names it does not know."""
    environ = os.environ if environ is None else environ
    values: dict[str, Any] = {}
    faults: list[str] = []
    for name in ("DATABASE_URL", "REDIS_URL"):
        if environ.get(name):
            values[name.lower()] = Secret(environ[name])
    for field, parse in _PARSERS.items():
        text = environ.get(PREFIX + field.upper(), "")
        if not text:
            continue
        try:
            values[field] = parse(text)
        except ValueError as error:
            faults.append(f"{PREFIX}{field.upper()}: {error}")
    _warn_of_unknown_names(environ)
    extras = sorted(name for name in environ if name.startswith(EXTRA) and environ[name])
    settings = Settings(**values, extras=tuple((name.removeprefix(EXTRA), Secret(environ[name])) for name in extras))
    if not faults:
        faults = _bad_combinations(settings)
    if faults:
        raise SettingsError("\n".join(faults))
    return settings


def _bad_combinations(settings: Settings) -> list[str]:
    s = settings
    needed = s.http_deadline + FINALIZE_BUDGET
    rules = [
        (needed < s.claim, f"REMINDERS_HTTP_DEADLINE ({s.http_deadline:g} s) plus {FINALIZE_BUDGET:g} s for the outcome must be below REMINDERS_CLAIM ({s.claim:g} s)"),
        (needed < s.grace, f"REMINDERS_HTTP_DEADLINE ({s.http_deadline:g} s) plus {FINALIZE_BUDGET:g} s for the outcome must be below REMINDERS_GRACE ({s.grace:g} s)"),
        (s.claim < s.visibility, f"REMINDERS_CLAIM ({s.claim:g} s) must be below REMINDERS_VISIBILITY ({s.visibility:g} s)"),
        (s.dedup_window >= s.max_wait, f"REMINDERS_DEDUP_WINDOW ({s.dedup_window:g} s) must not be below REMINDERS_MAX_WAIT ({s.max_wait:g} s)"),
        (s.retention >= s.dedup_window, f"REMINDERS_RETENTION ({s.retention:g} s) must not be below REMINDERS_DEDUP_WINDOW ({s.dedup_window:g} s)"),
        (max(s.retry_delays) <= s.max_wait, f"REMINDERS_RETRY_DELAYS (longest {max(s.retry_delays):g} s) must not exceed REMINDERS_MAX_WAIT ({s.max_wait:g} s)"),
    ]  # fmt: skip
    return [fault for holds, fault in rules if not holds]


def _warn_of_unknown_names(environ: Mapping[str, str]) -> None:
    known = {PREFIX + field.name.upper() for field in fields(Settings)} - {
        PREFIX + "DATABASE_URL",
        PREFIX + "REDIS_URL",
        PREFIX + "EXTRAS",
    }
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in known or name.startswith(EXTRA):
            continue
        nearest = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {nearest[0]}?" if nearest else ""
        logger.warning("settings.unknown: %s is not a setting of reminders%s", name, hint)

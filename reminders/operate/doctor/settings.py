"""The settings: time-outs in their order, secrets, channels. Bad values and combinations are refused before these checks."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reminders.celery_options import UNVERIFIED
from reminders.operate.doctor.check import Check, listed
from reminders.settings import Secret, Settings

LEAST_CHARACTERS = 10
"""Different ones that a secret must have; 24 random ones have more."""
_PLACEHOLDER = re.compile(
    r"change.?me|example|placeholder|your.?secret|password|secret|0123456789|abcdefgh|qwerty", re.IGNORECASE
)
STOP_OF_HEROKU = 30.0
"""Seconds between SIGTERM and SIGKILL on a platform that sets `DYNO`."""


@dataclass(frozen=True, slots=True)
class Configured:
    """What is asked about the settings.

    `at_home` says whether Postgres is the embedded one of this home. `home_secrets` are what is kept there for development,
    by setting. `faults` says of each installed channel that cannot send why; `ready` are those that can. `channels` are
    those of reminders that are due next, `key_fingerprints` those of the keys in use in the ledger, and `own_fingerprints`
    those of `REMINDERS_KEYS`.
    """

    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    at_home: bool
    home_secrets: Mapping[str, Secret]
    faults: Mapping[str, str]
    ready: Sequence[str]
    channels: Sequence[str] = ()
    key_fingerprints: Sequence[str] = ()
    own_fingerprints: Sequence[str] = ()


def _secrets(settings: Settings) -> dict[str, str]:
    """What is secret and made up by somebody, by setting."""
    found = {
        "REMINDERS_WEBHOOK_SECRET": settings.webhook_secret,
        "REMINDERS_FLOWER_AUTH": settings.flower_auth,
        "REMINDERS_METRICS_TOKEN": settings.metrics_token,
    }
    texts = {name: secret.reveal() for name, secret in found.items() if secret is not None}
    if (auth := texts.get("REMINDERS_FLOWER_AUTH")) is not None:
        texts["REMINDERS_FLOWER_AUTH"] = auth.partition(":")[2]
    return texts


def _weak(configured: Configured) -> str | None:
    weak = [name for name, text in _secrets(configured.settings).items() if _is_weak(name, text)]
    return f"{listed(weak)}: a placeholder, or too few different characters" if weak else None


def _is_weak(name: str, text: str) -> bool:
    # A password for people may be shorter.
    least = LEAST_CHARACTERS // 2 if name == "REMINDERS_FLOWER_AUTH" else LEAST_CHARACTERS
    return len(set(text)) < least or _PLACEHOLDER.search(text) is not None


def _embedded(configured: Configured) -> str | None:
    if configured.at_home:
        return None
    settings = configured.settings
    own = {
        "REMINDERS_WEBHOOK_SECRET": () if settings.webhook_secret is None else (settings.webhook_secret,),
        "REMINDERS_KEYS": settings.keys,
    }
    same = [name for name, secret in configured.home_secrets.items() if secret in own.get(name, ())]
    return f"{listed(same)}: the same as in {settings.home}" if same else None


def _keys(configured: Configured) -> str | None:
    missing = [key for key in configured.key_fingerprints if key not in configured.own_fingerprints]
    return f"REMINDERS_KEYS has no key with the fingerprint {listed(missing)}" if missing else None


def _no_channel(configured: Configured) -> str | None:
    if configured.ready:
        return None
    reasons = [f"{channel}: {fault}" for channel, fault in configured.faults.items()]
    return listed(reasons) if reasons else "none is installed"


def _only_log(configured: Configured) -> str | None:
    if not configured.ready or not set(configured.ready) <= {"log"}:
        return None
    return "REMINDERS_WEBHOOK_SECRET, REMINDERS_SMTP_URL and REMINDERS_SMS_URL are not set: only `log` can send"


def _channel(configured: Configured) -> str | None:
    if not configured.ready:
        return None
    wanted = [
        f"{channel}: {configured.faults.get(channel, 'it is not installed')}"
        for channel in configured.channels
        if channel not in configured.ready
    ]
    return listed(wanted) if wanted else None


def _private(configured: Configured) -> str | None:
    private = configured.settings.allow_private and not configured.at_home
    return "REMINDERS_ALLOW_PRIVATE is on" if private else None


def _flower(configured: Configured) -> str | None:
    return (
        "REMINDERS_FLOWER_AUTH is not set"
        if configured.settings.flower_auth is None and not configured.at_home
        else None
    )


def _tls(configured: Configured) -> str | None:
    settings = configured.settings
    if settings.redis_url is None:
        return None
    url = settings.redis_url.reveal()
    if re.match(r"rediss://.*[?&]ssl_cert_reqs=(cert_)?none\b", url, re.IGNORECASE):
        return "REDIS_URL says ssl_cert_reqs=none"
    # The address goes first.
    if url.lower().startswith("rediss://") and settings.redis_ca == UNVERIFIED and "ssl_cert_reqs=" not in url.lower():
        return f"REMINDERS_REDIS_CA is {UNVERIFIED}"
    return None


def _reconcile(configured: Configured) -> str | None:
    path = configured.settings.reconcile
    if path is None or (path.is_file() and os.access(path, os.R_OK)):
        return None
    return f"REMINDERS_RECONCILE is {str(path)!r}, which is {'not readable' if path.is_file() else 'no file'} here"


def _redelivery(configured: Configured) -> str | None:
    s = configured.settings
    if s.redeliver <= s.visibility:
        return None
    return f"REMINDERS_REDELIVER ({s.redeliver:g} s) is above REMINDERS_VISIBILITY ({s.visibility:g} s)"


def _calls_in_claim(configured: Configured) -> str | None:
    s = configured.settings
    if s.claim <= s.redeliver:
        return None
    return f"REMINDERS_CLAIM ({s.claim:g} s) is above REMINDERS_REDELIVER ({s.redeliver:g} s)"


def _grace(configured: Configured) -> str | None:
    grace = configured.settings.grace
    if "DYNO" not in configured.environ or grace < STOP_OF_HEROKU:
        return None
    return f"REMINDERS_GRACE is {grace:g} s, and this platform kills after {STOP_OF_HEROKU:g} s"


SETTINGS: tuple[Check[Configured], ...] = (
    Check(
        "timeouts_redeliver",
        "warning",
        "`REMINDERS_REDELIVER` is at most `REMINDERS_VISIBILITY`: a lost message comes back from the ledger, not from Redis.",
        "Lower the one or raise the other; the shipped values are 120 s and 10 min.",
        _redelivery,
    ),
    Check(
        "timeouts_claim",
        "warning",
        "`REMINDERS_CLAIM` is at most `REMINDERS_REDELIVER`: work whose worker died is repaired before it is sent anew.",
        "Lower the one or raise the other; the shipped values are 30 s and 120 s.",
        _calls_in_claim,
    ),
    Check(
        "timeouts_grace",
        "warning",
        "`REMINDERS_GRACE` is below what the platform allows between SIGTERM and SIGKILL (known for Heroku).",
        "Lower `REMINDERS_GRACE`, and `REMINDERS_HTTP_DEADLINE` with it.",
        _grace,
    ),
    Check(
        "secret_weak",
        "warning",
        f"`REMINDERS_WEBHOOK_SECRET`, `REMINDERS_METRICS_TOKEN` and the password of `REMINDERS_FLOWER_AUTH` are random, secret and token of {LEAST_CHARACTERS} different characters at least.",
        "Make a new one: `python -c 'import secrets; print(secrets.token_urlsafe(32))'`. Receivers need the new signing secret too, and whoever scrapes the token.",
        _weak,
    ),
    Check(
        "secret_embedded",
        "warning",
        "The secrets of a home folder, made for development, sign nothing in production.",
        "Make new ones (`secret_weak` says how; `reminders secret generate-key` for a key), or set `REMINDERS_HOME` to another folder.",
        _embedded,
    ),
    Check(
        "keys_missing",
        "fatal",
        "`REMINDERS_KEYS` holds every key under which signing secrets are kept in the ledger.",
        "Add the key, for the workers too; if it is lost, `reminders secret rotate --grace 0s` and tell the receivers.",
        _keys,
    ),
    Check(
        "channel_none",
        "fatal",
        "One channel at least can send.",
        "Set what it says: `REMINDERS_WEBHOOK_SECRET` for webhooks.",
        _no_channel,
    ),
    Check(
        "secrets_missing",
        "warning",
        "What one channel besides `log` signs or logs in with is set.",
        "Set `REMINDERS_WEBHOOK_SECRET`, or what the channel that you use asks for, as for the workers.",
        _only_log,
    ),
    Check(
        "channel_not_ready",
        "warning",
        "Every channel of the reminders that are due next can send.",
        "Set what it says for the workers, or install the provider's package.",
        _channel,
    ),
    Check(
        "private_destinations",
        "warning",
        "Webhooks go to public addresses over https:// only, save where a tenant is allowed others.",
        "Unset `REMINDERS_ALLOW_PRIVATE`; `reminders tenant allow` opens single places to single tenants.",
        _private,
    ),
    Check(
        "flower_password_missing",
        "note",
        "`REMINDERS_FLOWER_AUTH` is set, or the line `web` is not run.",
        "Set it to `user:password`.",
        _flower,
    ),
    Check(
        "reconcile_unreadable",
        "warning",
        "The configuration that `REMINDERS_RECONCILE` names can be read: without it no settlement file is worked on.",
        "Put the file there, on every host with a `maintenance` worker, or correct the path.",
        _reconcile,
    ),
    Check(
        "redis_certificate_unchecked",
        "note",
        "The certificate of Redis is checked.",
        "Name its authority: `rediss://...?ssl_ca_certs=/path/ca.pem`, or in `REMINDERS_REDIS_CA`.",
        _tls,
    ),
)
"""Checks of the settings."""

"""Wires the concrete parts together, from settings, once per process."""

from __future__ import annotations

import logging
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy.exc import TimeoutError as PoolTimeout

from reminders.broker.gauge import RedisGauge
from reminders.broker.publishing import KombuPublisher
from reminders.broker.tokens import RedisTokens
from reminders.calendar.zones import known_zones
from reminders.domain.breaker import BreakerPolicy, Samples
from reminders.domain.delivery import Delivery
from reminders.domain.errors import RemindersError, SettingsError
from reminders.embedded import attach
from reminders.embedded_secret import with_laptop_defaults
from reminders.ledger import known, shutdowns
from reminders.ledger.allowed_places import KeptAllowedPlaces
from reminders.ledger.claiming import PostgresClaims
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.dispatchers import claim_of_scanners
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.keyring import Keyring
from reminders.ledger.own_secrets import PostgresSecrets
from reminders.ledger.putting_off import PostgresTurns
from reminders.ledger.rates import KeptRates
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.shadowing import PostgresShadow
from reminders.ledger.status import PERIODS
from reminders.ledger.template_versions import TemplateVersions
from reminders.ledger.tenant_registry import Dispatcher
from reminders.pipeline.admission import Admission
from reminders.pipeline.deliver import Deliver, DeliverPolicy, seconds_since_boot
from reminders.pipeline.finalize import Finalize, RetryPolicy
from reminders.pipeline.news import News
from reminders.pipeline.open_calls import open_calls
from reminders.pipeline.own_secrets import OwnSecrets
from reminders.pipeline.provider import GuardsPlaces, Provider, can_look_up, template_parts
from reminders.pipeline.repair import RepairPolicy
from reminders.pipeline.scan import Scan, ScanPolicy
from reminders.pipeline.shadow import Shadow
from reminders.providers import registry
from reminders.providers.signing import derive_secret
from reminders.settings import Secret, Settings, load

logger = logging.getLogger(__name__)

DATABASE_FAULTS: tuple[type[Exception], ...] = (*DATABASE_AWAY, PoolTimeout)
"""Our own faults before a claim commits: Postgres down, restarting, out of connections; a deadlock, a lock time-out."""
MOST_CONNECTIONS = 12
"""Connections of one worker process: a statement takes a millisecond, so many threads share few."""


def with_services(settings: Settings) -> Settings:
    """Fill in the embedded Postgres and Redis of this home for the addresses that are not set.

    Raises `SettingsError` if one is needed and none runs.
    """
    if settings.database_url is not None and settings.redis_url is not None:
        return settings
    settings = with_laptop_defaults(settings)
    services = attach(settings.home)
    if services is None:
        missing = "DATABASE_URL" if settings.database_url is None else "REDIS_URL"
        raise SettingsError(
            f"{missing} is not set and no embedded services run under {settings.home}\n"
            f"Set {missing}, or start `reminders up` in another terminal"
        )
    return replace(
        settings,
        database_url=settings.database_url or Secret(services.database_url),
        redis_url=settings.redis_url or Secret(services.redis_url),
    )


@lru_cache(maxsize=1)
def installation() -> Settings:
    """This process's settings, with both addresses known."""
    return with_services(load())


@lru_cache(maxsize=1)
def database() -> Database:
    """This process's pool of connections."""
    settings = installation()
    pool = min(settings.concurrency + 2, MOST_CONNECTIONS)
    return open_database(settings, pool_size=pool)


def open_database(settings: Settings, *, pool_size: int = 2) -> Database:
    """A pool of its own. Raises `SettingsError` if there is no address."""
    if settings.database_url is None:
        raise SettingsError("DATABASE_URL is not set")
    return Database(settings.database_url.reveal(), schema=settings.schema, pool_size=pool_size)


def scan_of(settings: Settings, ledger: PostgresScan) -> Scan:
    """A scanner over `ledger`, publishing to the broker of `settings`."""
    policy = ScanPolicy(
        batch=settings.batch,
        in_flight=settings.in_flight_limit,
        lease=settings.lease,
        redeliver=settings.redeliver,
        repair=RepairPolicy(settings.max_attempts, settings.max_wait),
        slow=settings.slow_limit,
    )
    news = News(ledger.look_for_news, PERIODS * settings.scan_every)
    return Scan(ledger, KombuPublisher(settings), RedisGauge(settings), policy, faults=DATABASE_FAULTS, news=news)


def dispatcher_of(settings: Settings) -> Dispatcher:
    """Who this installation is among those of the ledger."""
    return Dispatcher(settings.dispatcher, settings.new_tenants)


@lru_cache(maxsize=1)
def scan_ledger() -> PostgresScan:
    return scan_ledger_of(installation(), database())


def scan_ledger_of(settings: Settings, db: Database, now: datetime | None = None) -> PostgresScan:
    """The ledger as a scanner of these settings sees it; `now` replaces the database's clock."""
    return PostgresScan(
        db,
        now,
        window=settings.dedup_window,
        max_wait=settings.max_wait,
        claim=settings.claim,
        dispatcher=dispatcher_of(settings),
    )


@lru_cache(maxsize=1)
def scan() -> Scan:
    """This process's scanner."""
    return scan_of(installation(), scan_ledger())


def scan_looked_at() -> float | None:
    """When this process's scanner last began a look, by `time.monotonic`; None before there is one."""
    return scan().looked_at if scan.cache_info().currsize else None


@dataclass(frozen=True, slots=True)
class Channels:
    """The installed channels of one process: those that can send, and why the others cannot, in a line each."""

    ready: Mapping[str, Provider]
    faults: Mapping[str, str]
    formats: Mapping[str, int]
    """The body format of each that could be loaded, ready or not: a first claim pins it, and may be given back."""
    look_ups: frozenset[str]
    """Those, ready or not, whose far side can be asked for a key."""
    templated: frozenset[str] = frozenset()
    """Those, ready or not, whose messages are written by templates."""
    deduplicates: Mapping[str, bool] = field(default_factory=dict)
    """Of each that could be loaded, whether its destinations are expected to deduplicate."""
    loaded: Mapping[str, Provider] = field(default_factory=dict)
    """All that could be loaded, ready or not: they can write what they would send."""


def channels(settings: Settings) -> Channels:
    """Ask each installed channel whether it can send with `settings`."""
    ready: dict[str, Provider] = {}
    faults: dict[str, str] = {}
    formats: dict[str, int] = {}
    deduplicates: dict[str, bool] = {}
    loaded: dict[str, Provider] = {}
    look_ups: set[str] = set()
    templated: set[str] = set()
    for channel in registry.channels():
        try:
            provider = registry.load(channel, settings)
            formats[channel] = provider.body_format
            deduplicates[channel] = provider.deduplicates
            loaded[channel] = provider
            if can_look_up(provider):
                look_ups.add(channel)
            if template_parts(provider):
                templated.add(channel)
            provider.ready()
        except RemindersError as error:
            faults[channel] = " ".join(str(error).split())
        except Exception as error:  # noqa: BLE001 - another package's: one broken channel must not stop the others
            faults[channel] = f"its provider raised {type(error).__name__} when asked whether it is ready"
        else:
            ready[channel] = provider
    return Channels(ready, faults, formats, frozenset(look_ups), frozenset(templated), deduplicates, loaded)


def tell_ledger(settings: Settings, db: Database) -> None:
    """Let SQL's `schedule` know the channels that are installed here, and the zones of this release's `tzdata`.

    A channel that cannot be loaded is left out.
    """
    known.tell(db, channels(settings).deduplicates, known_zones())


def deliver_of(settings: Settings, db: Database, *, worker: str) -> Deliver:
    """The deliver stage of one worker process called `worker`.

    A reminder of a channel that cannot send here keeps its attempts: its claim is given back, and it is tried again.
    """
    installed = channels(settings)
    allowed = KeptAllowedPlaces(db)
    for provider in installed.loaded.values():
        if isinstance(provider, GuardsPlaces):
            provider.go_by(allowed.of)
    retry = RetryPolicy(settings.max_attempts, settings.retry_delays, settings.max_wait)
    breaker = BreakerPolicy(
        settings.breaker_window, settings.breaker_calls, settings.breaker_share, settings.breaker_open
    )
    finalize = PostgresFinalize(db, worker=worker, disable_after=settings.disable_after, breaker=breaker)
    given: dict[str, Any] = {
        "worker": worker,
        "formats": installed.formats,
        "look_ups": installed.look_ups,
        "templated": installed.templated,
        "window": settings.dedup_window,
        "dispatcher": dispatcher_of(settings),
    }
    templates = TemplateVersions(db)
    return Deliver(
        claims=PostgresClaims(db, **given, max_wait=settings.max_wait),
        providers=installed.ready.get,
        finalize=Finalize(finalize, retry, DATABASE_FAULTS, Samples(breaker)),
        policy=DeliverPolicy(settings.claim, settings.http_deadline),
        faults=DATABASE_FAULTS,
        secrets=own_secrets_of(settings, db),
        templates=templates,
        shadow=Shadow(PostgresShadow(db, **given), installed.loaded.get, templates, allowed.of),
        calls=open_calls,
    )


def own_secrets_of(settings: Settings, db: Database) -> OwnSecrets:
    """What deliveries to places with secrets of their own are signed with, for one worker process."""
    ledger = PostgresSecrets(db, Keyring(settings.keys))
    master = settings.webhook_secret
    if master is None:
        return OwnSecrets(ledger, None, clock=seconds_since_boot)

    def derive(delivery: Delivery) -> bytes:
        return derive_secret(master.reveal().encode(), delivery.tenant_id, delivery.channel, delivery.destination)

    return OwnSecrets(ledger, derive, clock=seconds_since_boot)


def admission_of(settings: Settings, db: Database, *, worker: str) -> Admission:
    """The deliver stage of one worker process, under caps."""
    turns = PostgresTurns(db, max_wait=settings.max_wait)
    scanners = claim_of_scanners(db, settings.dispatcher)
    if scanners is not None and scanners != settings.claim:
        logger.warning(
            "worker.claims_differ: REMINDERS_CLAIM is %g s here and %g s for the scanners, which know slow calls by it; set it alike",
            settings.claim, scanners,
        )  # fmt: skip
    return Admission(deliver_of(settings, db, worker=worker), KeptRates(db), RedisTokens(settings), turns)


@lru_cache(maxsize=1)
def deliver() -> Admission:
    """This process's deliver stage."""
    return admission_of(installation(), database(), worker=worker_name(os.getpid()))


@lru_cache(maxsize=1)
def worker_name(pid: int) -> str:
    """What claims call this process, by its id: no other ever has the name, though hosts give ids again."""
    return f"{socket.gethostname()}:{pid}:{secrets.token_hex(4)}"


def record_shutdown(ago: float) -> None:
    """Note in the ledger that this process was told to stop `ago` seconds ago.

    Over a connection of its own, since those of the pool may all be in use. Raises `DATABASE_FAULTS`.
    """
    own = open_database(installation(), pool_size=1)
    try:
        shutdowns.record_shutdown(own, worker_name(os.getpid()), ago)
    finally:
        own.close()

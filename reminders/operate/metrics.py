"""The metrics in the exposition format of Prometheus: drawn from the ledger and the broker when asked, kept nowhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import version
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from sqlalchemy.exc import TimeoutError as PoolTimeout

from reminders.broker.link import BrokerAway, Link
from reminders.broker.observing import Observed, observe
from reminders.ledger.counting import BOUNDS
from reminders.ledger.database import DATABASE_AWAY, Database
from reminders.ledger.measuring import Measures, measure
from reminders.operate.metric_names import BY_NAME
from reminders.pipeline.tally import GIVEN_UP, PUBLISH_REFUSED, REFUSED
from reminders.settings import Settings

logger = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
OUTCOMES = ("delivered", "retry", "rejected", "unknown", "blocked")
LETTERS = ("destination", "pipeline", "unknown")
HELD = ("cap", "channel", "destination", "drain", "pause", "quiet_hours", "tenant_off")
WAKERS = {"scan_due": "beat", "watch": "scanner"}
SUPPRESSED = ("claimed", "dead", "delivered", "parked")
"""Reasons for which there is no claim that say that there was one before."""
_NEVER = float("inf")
_AWAY: tuple[type[Exception], ...] = (*DATABASE_AWAY, PoolTimeout)

Values = Mapping[Any, float]
"""Of a metric, by tuples of its labels' values."""


class Metrics:
    """Everything that is to be known of an installation from outside its processes. One call at a time."""

    def __init__(self, settings: Settings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._link = Link(settings)

    def text(self) -> bytes:
        """One scrape. Never raises for Postgres or Redis: what is away is told by `reminders_source_up`."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(_Families(list(self._families())))
        return generate_latest(registry)

    def close(self) -> None:
        self._link.close()

    def _families(self) -> Iterator[Metric]:
        started = time.monotonic()
        measures, observed = self._measures(), self._observed()
        yield _one("reminders_source_up", {("ledger",): measures is not None, ("broker",): observed is not None})
        if measures is not None:
            yield from _of_ledger(measures)
        if observed is not None:
            yield from _of_broker(observed)
        yield _one("reminders_beat_period_seconds", {(): self._settings.scan_every})
        yield _one("reminders_build_info", {(version("reminders"),): 1})
        yield _one("reminders_scrape_seconds", {(): time.monotonic() - started})

    def _measures(self) -> Measures | None:
        try:
            return measure(self._database)
        except _AWAY as error:
            logger.warning(
                "metrics.ledger_away error=%s: what is counted in the ledger is left out", type(error).__name__
            )
            return None

    def _observed(self) -> Observed | None:
        try:
            return observe(self._link)
        except BrokerAway as error:
            logger.warning(
                "metrics.broker_away error=%s: what is counted on the broker is left out", type(error).__name__
            )
            return None


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._found = families

    def collect(self) -> Iterable[Metric]:
        return self._found


def _of_ledger(m: Measures) -> Iterator[Metric]:
    channels = sorted({channel for _, channel, _ in m.totals})
    for name in ("called", "delivered"):
        yield _histogram(f"reminders_{name}_late_seconds", name, m.totals, channels)
    yield _one("reminders_attempts_total", _by_outcome("attempts", m.totals, channels))
    yield _one("reminders_look_ups_total", _by_outcome("look_ups", m.totals, channels))
    retries = {(channel,): m.totals.get(("retries", channel, ""), 0.0) for channel in channels}
    yield _one("reminders_retries_total", retries)
    yield _one("reminders_counted_lag_seconds", {(): _NEVER if m.counted_lag is None else m.counted_lag})
    yield _one("reminders_oldest_due_age_seconds", {(): m.oldest_due_age})
    yield _one("reminders_due", _keyed(m.due))
    yield _one("reminders_in_flight", _keyed(m.in_flight))
    yield _one("reminders_leases_past_end", {(): m.leases_past_end})
    yield _one("reminders_claims_past_end", {(): m.claims_past_end})
    yield _one("reminders_parked", {(): m.parked})
    yield _one("reminders_held", {(reason,): m.held.get(reason, 0) for reason in HELD})
    yield _one("reminders_review_open", {(kind,): m.review.get(kind, (0, 0.0))[0] for kind in LETTERS})
    ages = {(kind,): m.review.get(kind, (0, 0.0))[1] for kind in LETTERS}
    yield _one("reminders_review_oldest_age_seconds", ages)
    yield _one("reminders_unknown", {(): m.unknown})
    yield _one("reminders_unknown_oldest_age_seconds", {(): m.unknown_age})
    yield _one("reminders_notices_open", {(): m.notices})
    yield _one("reminders_breakers", _keyed(m.breakers))
    yield _one("reminders_beat_tick_age_seconds", {(): _NEVER if m.tick_age is None else m.tick_age})
    ticks = {by: m.ticks.get(name, (0, 0)) for name, by in WAKERS.items()}
    yield _one("reminders_ticks_total", {(by,): taken for by, (taken, _) in ticks.items()})
    yield _one("reminders_ticks_dropped_total", {(by,): dropped for by, (_, dropped) in ticks.items()})
    yield _one("reminders_clock_skew_seconds", {(): m.clock_skew})
    yield _one("reminders_oldest_transaction_age_seconds", {(): m.transaction_age})
    yield _one("reminders_transactions_unseen", {(): m.transactions_unseen})


def _of_broker(o: Observed) -> Iterator[Metric]:
    refused = _named(o.counted, REFUSED)
    yield _one("reminders_processes", _keyed(o.processes))
    yield _one("reminders_progress_age_seconds", _keyed(o.progress_age))
    yield _one("reminders_processes_silent", _keyed(o.silent))
    yield _one("reminders_silence_seconds", _keyed(o.silence))
    yield _one("reminders_queue_messages", _keyed(o.queues))
    yield _one("reminders_unacknowledged_messages", {(): o.unacknowledged})
    yield _one("reminders_publish_failures_total", {(): o.counted.get(PUBLISH_REFUSED, 0)})
    # One that appears with its first value has not increased, for Prometheus; an alert asks for this one.
    yield _one("reminders_claims_refused_total", _keyed({"expired": 0, **refused}))
    yield _one("reminders_duplicates_suppressed_total", {(): sum(refused.get(reason, 0) for reason in SUPPRESSED)})
    yield _one("reminders_given_up_total", _keyed({"expired": 0, "dead": 0, **_named(o.counted, GIVEN_UP)}))
    yield _one("reminders_foreign_messages_total", {(): o.dropped})


def _one(name: str, values: Values) -> Metric:
    """The family of a gauge or counter, with its values by their labels'."""
    of = BY_NAME[name]
    kind: Any = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}[of.kind]
    family: Metric = kind(name, of.meaning, labels=of.labels)
    for labels, value in sorted(values.items()):
        family.add_metric(labels, float(value))  # type: ignore[attr-defined]
    return family


def _histogram(name: str, of: str, totals: Mapping[tuple[str, str, str], float], channels: Iterable[str]) -> Metric:
    family = HistogramMetricFamily(name, BY_NAME[name].meaning, labels=BY_NAME[name].labels)
    for channel in channels:
        counts = {float(label): value for (of_, on, label), value in totals.items() if (of_, on) == (of, channel)}
        reached, buckets = 0.0, []
        for bound in BOUNDS:
            reached += counts.get(bound, 0.0)
            buckets.append((floatToGoString(bound), reached))  # type: ignore[no-untyped-call]
        family.add_metric([channel], buckets, totals.get((f"{of}_seconds", channel, ""), 0.0))
    return family


def _by_outcome(of: str, totals: Mapping[tuple[str, str, str], float], channels: Iterable[str]) -> Values:
    return {(channel, outcome): totals.get((of, channel, outcome), 0.0) for channel in channels for outcome in OUTCOMES}


def _named(counted: Mapping[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): number for name, number in counted.items() if name.startswith(prefix)}


def _keyed(values: Mapping[str, float]) -> Values:
    return {(label,): value for label, value in values.items()}

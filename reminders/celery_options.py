"""Every Celery option of this project, with its reason. The app, beat, Flower and `celeryconfig.py` share them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from reminders.domain.errors import SettingsError
from reminders.settings import Settings

logger = logging.getLogger(__name__)

QUEUES = ("scan", "deliver", "retry", "alone", "maintenance")
DELIVERY_QUEUES = ("deliver", "retry", "alone")
KEY_PREFIX = "reminders:"
"""Begins every Redis key of ours, kombu's included."""
CLIENT_NAME = "reminders"
"""Begins the name of every connection of ours to Redis; the visibility timeout follows, so that `doctor` sees everybody's."""
SCAN_TASK = "reminders.scan_due"
WOKEN_BY_WATCH = "woken_by_watch"
"""The header of a scan message that a scanner sent itself. Beat's have none, as those of earlier releases."""
DELIVER_TASK = "reminders.deliver"
PARTITIONS_TASK = "reminders.make_partitions"
PURGE_TASK = "reminders.purge"
COUNT_TASK = "reminders.count_attempts"
COUNT_EVERY = 15.0
"""Seconds between two counts of what was attempted: metrics and the SLO lag by so much."""
RECONCILE_TASK = "reminders.reconcile"
RECONCILE_TICK_TASK = "reminders.reconcile_tick"
RECONCILE_EVERY = 300.0
"""Seconds between two looks at whether the file of the night is due, and whether any was left alone."""
UNVERIFIED = "unverified"
"""Of `REMINDERS_REDIS_CA`: encrypt, and check nothing. Hosts such as Heroku sign their brokers' certificates themselves."""
SOCKET_TIMEOUT = 5.0
"""Seconds without an answer after which a Redis connection counts as lost."""


def broker_url(settings: Settings) -> str:
    """The broker's address: `REDIS_URL`, or the embedded Redis that runs under `REMINDERS_HOME`.

    Raises `SettingsError` when neither is there, or when the address is none that the transport can use.
    """
    if settings.redis_url is not None:
        url = settings.redis_url.reveal()
    else:
        from reminders.embedded import attach  # noqa: PLC0415 - an installation with its own Redis needs none of it

        services = attach(settings.home)
        if services is None or not services.redis_url:
            raise SettingsError(
                f"REDIS_URL is not set and no embedded Redis runs under {settings.home}\n"
                "Set REDIS_URL=redis://host:6379/0, or start `reminders up` in another terminal"
            )
        url = services.redis_url
    if url.startswith("unix://"):
        url = "redis+socket://" + url.removeprefix("unix://")
    if not url.startswith(("redis://", "rediss://", "redis+socket://")):
        scheme = url.partition("://")[0] if "://" in url else "no scheme"
        raise SettingsError(
            f"REDIS_URL begins with {scheme!r}, which is no Redis\nWrite redis://, rediss:// or redis+socket://"
        )
    try:
        _ = urlsplit(url).port
    except ValueError as error:
        raise SettingsError(f"REDIS_URL is malformed: {error}\nWrite redis://user:password@host:6379/0") from None
    return url


def split_tls(url: str, authority: str | None = None) -> tuple[str, dict[str, Any] | bool]:
    """The address without its `ssl_*` parameters, and what `broker_use_ssl` must say.

    `rediss://` verifies the certificate and the host's name unless `authority` or the address itself says otherwise.
    `authority` is `REMINDERS_REDIS_CA`: a file of certificates to trust, or `unverified`. In the address,
    `?ssl_ca_certs=/path/ca.pem` and `?ssl_cert_reqs=none` say the same, and go first. Raises `SettingsError`.
    """
    parts = urlsplit(url)
    if parts.scheme != "rediss":
        return url, False
    import ssl  # noqa: PLC0415 - 4 MB in every supervising parent

    checks = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
    tls: dict[str, Any] = {"ssl_cert_reqs": ssl.CERT_REQUIRED}
    if authority == UNVERIFIED:
        tls["ssl_cert_reqs"] = ssl.CERT_NONE
    elif authority is not None:
        if not Path(authority).is_file():
            raise SettingsError(
                f"REMINDERS_REDIS_CA: there is no file {authority}\n"
                f"Name a file of certificates in PEM, or write {UNVERIFIED!r} for a broker whose certificate nobody vouches for"
            )
        tls["ssl_ca_certs"] = authority
    others = []
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if not name.startswith("ssl_"):
            others.append((name, text))
        elif name == "ssl_cert_reqs":
            wanted = text.lower().removeprefix("cert_")
            if wanted not in checks:
                raise SettingsError(f"REDIS_URL: ssl_cert_reqs={text} is unknown\nWrite required, optional or none")
            tls[name] = checks[wanted]
        elif name == "ssl_check_hostname":
            tls[name] = text.lower() not in {"false", "0", "no"}
        else:
            tls[name] = text
    if tls["ssl_cert_reqs"] == ssl.CERT_NONE:
        tls["ssl_check_hostname"] = False
    return urlunsplit(parts._replace(query=urlencode(others))), tls


def tell_if_unverified(tls: object) -> None:
    """Log that `broker_use_ssl` lets anybody be the broker, if it does: for each process that takes part, once."""
    if isinstance(tls, dict) and tls["ssl_cert_reqs"].name == "CERT_NONE":
        logger.warning(
            "broker.unverified: the check of the broker's certificate is turned off; anyone on the way can read along"
        )


def transport_options(settings: Settings) -> dict[str, Any]:
    """What kombu's Redis transport is told, in every process alike."""
    return {
        # The smallest value of any connected process counts for all, so it stands here, for shells and Flower too.
        "visibility_timeout": int(settings.visibility),
        # One Redis may serve several applications.
        "global_keyprefix": KEY_PREFIX,
        # One list a queue: the lengths we read are exact, and nothing uses priorities (queues do that job).
        "priority_steps": [0],
        # A broker that vanished without closing its connections is noticed, also by a publisher.
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "socket_keepalive": True,
        "health_check_interval": 25,
        # A command whose reply was lost is not sent again unseen: an uncertain publish must be reported as such.
        "retry_on_timeout": False,
        # kombu's 10 made acknowledgements fail under 64 threads. Connections are opened when needed only.
        "max_connections": 2 * settings.concurrency + 32,
        # Shows in CLIENT LIST whose connection it is.
        "client_name": f"{CLIENT_NAME}/{int(settings.visibility)}",
    }


def options(settings: Settings) -> dict[str, Any]:
    """Celery's options for `settings`. Raises `SettingsError` when there is no broker to name."""
    # The supervising parents want names and the broker's address of this module: that needs no Celery, which is 15 MB.
    from celery.schedules import crontab  # noqa: PLC0415
    from kombu.entity import Exchange, Queue  # noqa: PLC0415

    url, tls = split_tls(broker_url(settings), settings.redis_ca)
    return {
        # -- messages
        "task_serializer": "json",  # the only one that cannot run code when read
        "accept_content": ["json"],
        "event_serializer": "json",
        "task_protocol": 2,
        "task_ignore_result": True,  # the ledger has the outcome; a second store would cost a round trip and disagree
        "result_backend": None,
        "enable_utc": True,
        "timezone": "UTC",
        # -- broker
        "broker_url": url,
        "broker_use_ssl": tls,
        "broker_transport_options": transport_options(settings),
        "broker_connection_timeout": SOCKET_TIMEOUT,
        "broker_connection_retry": True,
        "broker_connection_retry_on_startup": True,  # a worker may start before its broker
        "broker_connection_max_retries": None,  # for ever: an outage of an hour must end without a person
        "broker_pool_limit": settings.concurrency + 16,  # every thread may publish a retry at once
        "broker_heartbeat": 0,  # Redis has none; keepalive, health checks and the watch thread do that job
        "task_publish_retry": True,
        "task_publish_retry_policy": {"max_retries": 3, "interval_start": 0, "interval_step": 0.2, "interval_max": 1},
        # -- queues: the anonymous exchange needs no binding, so a flushed Redis cannot make messages vanish
        "task_queues": [Queue(name, exchange=Exchange(""), routing_key=name) for name in QUEUES],  # type: ignore[no-untyped-call]
        "task_default_exchange": "",
        "task_default_queue": "maintenance",
        "task_default_routing_key": "maintenance",
        "task_create_missing_queues": False,  # a mistyped queue is an error, not a queue that nobody reads
        "task_routes": {SCAN_TASK: {"queue": "scan"}, DELIVER_TASK: {"queue": "deliver"}},
        # -- acknowledging
        "task_acks_late": True,  # acknowledge after the outcome is committed
        "task_acks_on_failure": True,  # the ledger brings a failed task back; the broker would do it at once, for ever
        "task_acks_on_timeout": True,
        "task_reject_on_worker_lost": False,  # a task that kills its process would be run again for ever
        "worker_cancel_long_running_tasks_on_connection_loss": False,  # a call that has begun must record its outcome
        "worker_enable_prefetch_count_reduction": False,  # it trickles back by acknowledgements that may never come
        # -- worker
        "worker_pool": "threads",  # a delivery waits for the network nearly all its time
        "worker_concurrency": settings.concurrency,
        "worker_prefetch_multiplier": 1,  # what a worker holds, nobody else can take; a killed one holds it longest
        "worker_detect_quorum_queues": False,  # a look at every queue that only RabbitMQ needs
        "worker_enable_remote_control": True,  # Flower
        "worker_hijack_root_logger": False,  # a host application keeps its handlers
        "worker_redirect_stdouts": False,
        # -- events: Flower turns them on while it runs; they cost a third of the throughput
        "worker_send_task_events": False,
        "task_send_sent_event": False,
        "task_annotations": _annotations(settings),
        # -- beat
        "beat_scheduler": "celery.beat:Scheduler",  # in memory: a tick is a wake-up, nothing of it is worth a file
        "beat_max_loop_interval": min(5.0, settings.scan_every),
        "beat_schedule": {
            **_reconciliation(settings),
            "scan-due": {
                "task": SCAN_TASK,
                "schedule": settings.scan_every,
                "options": {"expires": settings.scan_every},  # the next one is due then
            },
            # Beat forgets on restart when it ran last, so this is hourly: once a day might never come.
            "make-partitions": {"task": PARTITIONS_TASK, "schedule": 3600.0, "options": {"expires": 3600.0}},
            "count-attempts": {"task": COUNT_TASK, "schedule": COUNT_EVERY, "options": {"expires": COUNT_EVERY}},
            # A night that is missed is made up for by the next.
            "purge": {"task": PURGE_TASK, "schedule": crontab(hour="3", minute="20"), "options": {"expires": 3600.0}},
        },
    }


def _reconciliation(settings: Settings) -> dict[str, Any]:
    if settings.reconcile is None:
        return {}
    options = {"expires": RECONCILE_EVERY}
    return {"reconcile": {"task": RECONCILE_TICK_TASK, "schedule": RECONCILE_EVERY, "options": options}}


def _annotations(settings: Settings) -> dict[str, dict[str, Any]]:
    if settings.flower_events == "control":
        return {DELIVER_TASK: {"send_events": False}}
    return {}

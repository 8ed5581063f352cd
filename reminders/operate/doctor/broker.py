"""Redis: what queues need of it, and who else is connected."""

from __future__ import annotations

from dataclasses import dataclass

from reminders.broker.facts import BrokerFacts
from reminders.operate.doctor.check import Check, listed
from reminders.settings import Settings

OLDEST_REDIS, NEWEST_REDIS = (6, 2), 7
"""The oldest version, and the newest major version, that this release was tested with."""
MOSTLY = 0.8
"""Share of a limit that may be in use."""
SHORTEST_IDLE = 60
"""Seconds that a silent connection must be left; ours ask every 25 s whether the server is there."""


@dataclass(frozen=True, slots=True)
class Broker:
    """What is asked about the broker."""

    facts: BrokerFacts
    settings: Settings


def _version(broker: Broker) -> str | None:
    version = broker.facts.version
    return f"Redis {_dotted(version)}" if version[:2] < OLDEST_REDIS else None


def _untested(broker: Broker) -> str | None:
    version = broker.facts.version
    return f"Redis {_dotted(version)}" if version[0] > NEWEST_REDIS else None


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _replica(broker: Broker) -> str | None:
    return "the server is a replica" if broker.facts.replica else None


def _refuses(broker: Broker) -> str | None:
    return None if broker.facts.replica else broker.facts.refuses_writes


def _dispatchers(broker: Broker) -> str | None:
    own, others = (
        broker.settings.dispatcher,
        [name for name in broker.facts.dispatchers if name != broker.settings.dispatcher],
    )
    return f"workers of dispatcher {listed(others)} speak here, and this is {own}" if others else None


def _evicts(broker: Broker) -> str | None:
    facts = broker.facts
    return f"maxmemory-policy is {facts.policy}" if facts.policy != "noeviction" else None


def _evicted(broker: Broker) -> str | None:
    return f"{broker.facts.evicted:,} keys were evicted since Redis started" if broker.facts.evicted else None


def _memory(broker: Broker) -> str | None:
    used, most = broker.facts.memory, broker.facts.most_memory
    return f"{used / 2**20:,.0f} of {most / 2**20:,.0f} MiB are in use" if most and used > MOSTLY * most else None


def _persistence(broker: Broker) -> str | None:
    facts = broker.facts
    return "neither append-only file nor snapshots" if not facts.append_only and facts.snapshots is False else None


def _idle(broker: Broker) -> str | None:
    idle = broker.facts.idle_timeout
    return f"timeout is {idle} s" if idle and idle < SHORTEST_IDLE else None


def _clients(broker: Broker) -> str | None:
    used, most = broker.facts.clients, broker.facts.most_clients
    return f"{used:,} of {most:,} clients are connected" if most and used > MOSTLY * most else None


def _visibility(broker: Broker) -> str | None:
    own = int(broker.settings.visibility)
    others = sorted(
        {
            f"{each.visibility} s at {each.address}"
            for each in broker.facts.connected or ()
            if each.visibility is not None and each.visibility != own
        }
    )
    return f"here {own} s; {listed(others)}" if others else None


def _others(broker: Broker) -> str | None:
    others = [
        f"{each.address}{f' ({each.name})' if each.name else ''}"
        for each in broker.facts.connected or ()
        if each.consumes and not each.ours
    ]
    return listed(others) if others else None


def _hidden(broker: Broker) -> str | None:
    return "CLIENT LIST is refused" if broker.facts.connected is None else None


BROKER: tuple[Check[Broker], ...] = (
    Check(
        "redis_too_old",
        "warning",
        f"Redis is version {_dotted(OLDEST_REDIS)} or newer.",
        "Upgrade the server.",
        _version,
    ),
    Check(
        "redis_untested",
        "note",
        f"Redis is not newer than {NEWEST_REDIS}, the newest version that this release was tested with.",
        "Try it on staging first (`reminders drill --here`), or install a newer release of reminders.",
        _untested,
    ),
    Check(
        "redis_replica",
        "fatal",
        "`REDIS_URL` leads to a server that takes writes.",
        "Point `REDIS_URL` at the primary, or at a name that follows a failover.",
        _replica,
        at_start=True,
    ),
    Check(
        "redis_refuses_writes",
        "fatal",
        "It takes writes: nothing is published otherwise, and no worker can say that it is there.",
        "Mend what it says: enough replicas for `min-replicas-to-write` (0 asks for none), room for its snapshots and append-only file, "
        "memory (`maxmemory`), or rights of the user of `REDIS_URL`.",
        _refuses,
    ),
    Check(
        "redis_of_two_dispatchers",
        "warning",
        "Workers of one dispatcher alone use this database: those of another take its messages, and may claim none of them.",
        "Give each installation a Redis, or a database number, of its own (`redis://host/1`); or the same `REMINDERS_DISPATCHER`.",
        _dispatchers,
    ),
    Check(
        "redis_evicts",
        "fatal",
        "`maxmemory-policy` is `noeviction`: any other drops whole queues silently when memory is short.",
        "`CONFIG SET maxmemory-policy noeviction`, and the same in its configuration file or in the provider's console.",
        _evicts,
        at_start=True,
    ),
    Check(
        "redis_evicted",
        "warning",
        "No key was ever evicted.",
        "Mend `redis_evicts`; what was on the queues comes back from the ledger by itself.",
        _evicted,
    ),
    Check(
        "redis_memory",
        "warning",
        f"At most {MOSTLY:.0%} of `maxmemory` is in use: with `noeviction` a full server refuses messages.",
        "Raise `maxmemory`, lower `REMINDERS_IN_FLIGHT`, or move other applications to another Redis.",
        _memory,
    ),
    Check(
        "redis_persistence",
        "note",
        "Redis keeps its data through a restart. The ledger brings back what it does not, a little later.",
        "`CONFIG SET appendonly yes`, and the same in its configuration file.",
        _persistence,
    ),
    Check(
        "redis_idle_timeout",
        "warning",
        f"Redis closes no connection that was silent for less than {SHORTEST_IDLE} s.",
        "`CONFIG SET timeout 0`, or 300.",
        _idle,
    ),
    Check(
        "redis_connections",
        "warning",
        f"At most {MOSTLY:.0%} of `maxclients` are connected.",
        "Raise `maxclients`, or run fewer processes.",
        _clients,
    ),
    Check(
        "visibility_differs",
        "warning",
        "Everybody connected has the same `REMINDERS_VISIBILITY`: the shortest counts for all, and redelivers too early.",
        "Give workers, Flower and shells the same settings, and restart those that differ.",
        _visibility,
    ),
    Check(
        "redis_other_consumers",
        "note",
        "Nobody else consumes from this database of Redis; who does with the key prefix `reminders:` has a say in the visibility timeout.",
        "Make sure that they are another application with keys of its own, or give it another database or Redis.",
        _others,
    ),
    Check(
        "redis_clients_hidden",
        "note",
        "Redis shows who is connected, so that `visibility_differs` can see it.",
        "Allow the user of `REDIS_URL` the command CLIENT LIST.",
        _hidden,
    ),
)
"""Checks of the broker."""

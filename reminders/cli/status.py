"""`reminders status`: the ledger's and the broker's state at a glance."""

from __future__ import annotations

import math
from typing import Any

import click

from reminders.bootstrap import DATABASE_FAULTS
from reminders.broker.gauge import RedisGauge
from reminders.broker.link import BrokerAway, Link
from reminders.cli.drain import drains_for_people
from reminders.cli.live_view import show_until_interrupted
from reminders.cli.pause import pauses_for_people
from reminders.cli.printing import print_fields, print_json
from reminders.cli.rate import rates_for_people
from reminders.cli.session import Session, session
from reminders.cli.slo import print_slo
from reminders.cli.values import json_option
from reminders.ledger.settlement_status import reconciliation_status
from reminders.ledger.status import PERIODS, ledger_status
from reminders.settings import Settings

ANSWERS_WITHIN = 15.0
"""Seconds after which a Postgres that says nothing counts as away."""

DAYS = 7
"""That `--slo` shows, unless told otherwise."""


class Seconds(click.FloatRange):
    """A number of seconds between two pictures. No comparison keeps `nan` out."""

    def __init__(self) -> None:
        super().__init__(min=0.1, max=3600)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = float(super().convert(value, param, ctx))
        if math.isnan(seconds):
            self.fail(f"{value!r} is not a number.", param, ctx)
        return seconds


@click.command(short_help="What is due, in flight, late, dead.")
@click.option(
    "--watch",
    metavar="[SECONDS]",
    is_flag=False,
    flag_value="2",
    type=Seconds(),
    help="Show it again every so many seconds (2), until Ctrl-C.",
)
@click.option("--slo", is_flag=True, help="Show instead how many reminders were called for in time, by day and tenant.")
@click.option("--days", type=click.IntRange(1, 400), help=f"With --slo: how many, UTC.  [default: {DAYS}]")
@click.option("--tenant", help="With --slo: of this tenant alone.")
@json_option
def status(*, watch: float | None, slo: bool, days: int | None, tenant: str | None, as_json: bool) -> None:
    """Show what is due, in flight, late and dead, and what waits on the broker.

    Live states are counted exactly, ended ones over the last 24 hours. "oldest due" is how long the reminder that has waited
    longest is due without being sent yet; a retry is due when its delay ends, and what a pause holds is not counted, what waits for a turn under a cap or in a drain is. "last
    tick" is beat's last one that a scanner took; a scanner that wakes itself makes none. Exits 0 also while Redis is away.
    """
    if slo:
        if watch is not None:
            raise click.UsageError("--slo is shown once: not with --watch.")
        print_slo(days=DAYS if days is None else days, tenant=tenant, as_json=as_json)
        return
    for name, given in (("--days", days), ("--tenant", tenant)):
        if given is not None:
            raise click.UsageError(f"{name} goes with --slo.")
    with session(broker=True) as ledger:
        if watch is None:
            _show(ledger, as_json=as_json)
        else:
            show_until_interrupted(lambda: _show_if_it_answers(ledger, as_json=as_json), watch, framed=not as_json)


def _show_if_it_answers(ledger: Session, *, as_json: bool) -> None:
    """A server that is away is told, and asked again the next time."""
    try:
        _show(ledger, as_json=as_json)
    except DATABASE_FAULTS as error:
        first = str(error).strip().partition("\n")[0] or type(error).__name__
        if as_json:
            print_json({"ledger_error": first})
        else:
            print_fields([("ledger", f"away: {first}"), *_broker_for_people(broker_status(ledger.settings))])


def _show(ledger: Session, *, as_json: bool) -> None:
    with ledger.database.answering_within(ANSWERS_WITHIN):
        shown = ledger_status(ledger.database, scan_every=ledger.settings.scan_every)
        reconciled = reconciliation_status(ledger.database)
    found = {**shown, "reconciliation": reconciled, **broker_status(ledger.settings)}
    if as_json:
        print_json(
            {**found, **{name: [each.fields() for each in found[name]] for name in ("pauses", "drains", "rates")}}
        )
    else:
        _print_for_people(found)


def broker_status(settings: Settings) -> dict[str, Any]:
    """What the broker shows, or null for all of it and `broker_error`, which is null otherwise.

    `silent_workers` are those that fell silent without having signed off, and were not replaced. `unacknowledged` counts delivery messages that workers alive have taken and not finished, as far as they can hold any.
    """
    gauge = RedisGauge(settings)
    try:
        queues, workers, dropped, deliveries = gauge.queues(), gauge.workers(), gauge.dropped(), gauge.in_flight()
        gone = gauge.silent()
    finally:
        gauge.close()
    if queues is None or workers is None or dropped is None or deliveries is None or gone is None:
        unknown = dict.fromkeys(("queues", "unacknowledged", "workers", "silent_workers", "dropped_messages"))
        return {**unknown, "broker_error": why_broker_is_away(settings) or "it answers again now"}
    alive = [
        {"node": worker.node, "pid": worker.pid, "queues": list(worker.queues), "capacity": worker.capacity}
        for worker in workers
    ]
    return {
        "queues": queues,
        "unacknowledged": deliveries.held,
        "workers": alive,
        "silent_workers": [
            {
                "node": each.presence.node,
                "pid": each.presence.pid,
                "queues": list(each.presence.queues),
                "seconds": round(each.seconds, 1),
            }
            for each in gone
        ],
        "dropped_messages": dropped,
        "broker_error": None,
    }


def why_broker_is_away(settings: Settings) -> str | None:
    """What keeps us from the broker, on one line; None if it answers."""
    link = Link(settings)
    try:
        with link.redis() as client:
            client.ping()
    except BrokerAway as error:
        return str(error).partition("\n")[0]
    finally:
        link.close()
    return None


def _print_for_people(found: dict[str, Any]) -> None:
    late = found["oldest_due_age_seconds"]
    print_fields(
        [
            ("reminders", _listed(found["counts"], "{count:,} {name}") or "none"),
            (
                "oldest due",
                f"{late:,.1f} s late" if late else "none waits; `reminders late` tells of retries and calls too",
            ),
            ("in flight", f"{found['in_flight']:,}"),
            ("held", f"{found['held']:,}"),
            ("wait for a hold", _waiting_for_people(found["waiting_for_holds"])),
            *pauses_for_people(found["pauses"]),
            ("tenants", _tenants_for_people(found)),
            ("nobody runs", _away_for_people(found["dispatchers_away"])),
            *drains_for_people(found["drains"]),
            *rates_for_people(found["rates"]),
            (
                "breakers",
                f"{found['breakers_open']:,} open: `reminders destination list`" if found["breakers_open"] else None,
            ),
            ("in quiet hours", f"{found['quiet']:,} of those pending" if found["quiet"] else None),
            ("dead letters", f"{found['dead_letters_open']:,} open"),
            (
                "notices",
                _notices_for_people(found["notices"]) if found["notices"] else "none",
            ),
            ("reconciliation", _reconciliation_for_people(found["reconciliation"])),
            ("last tick", _tick_for_people(found)),
            ("dropped ticks", f"{found['dropped_ticks']:,}"),
            *_broker_for_people(found),
        ]
    )


def _waiting_for_people(places: dict[str, int]) -> str | None:
    """Of those pending; nothing where no destination and no channel keeps any."""
    told = []
    if places["destination"]:
        told.append(f"{places['destination']:,} for their destination's: `reminders destination list`")
    if places["channel"]:
        told.append(f"{places['channel']:,} for their channel's: `reminders notice list`")
    return "; ".join(told) or None


def _notices_for_people(unseen: dict[str, int]) -> str:
    kinds = _listed({kind.replace("_", " "): count for kind, count in sorted(unseen.items())}, "{count:,} {name}")
    return f"{sum(unseen.values()):,} unseen ({kinds}): `reminders notice list`"


def _tenants_for_people(found: dict[str, Any]) -> str | None:
    """Nothing where all are live and of one dispatcher."""
    modes, dispatchers = found["tenants"], found["dispatchers"]
    told = [_listed(modes, "{count:,} {name}")] if modes["off"] or modes["shadow"] else []
    told += [_listed(dispatchers, "{count:,} of {name}")] if len(dispatchers) > 1 else []
    return "; ".join(told) or None


def _away_for_people(away: list[str]) -> str | None:
    """The dispatchers that have tenants and no scanner."""
    if not away:
        return None
    return f"{', '.join(away)}: their tenants wait. Start a scanner with REMINDERS_DISPATCHER={away[0]}, or `reminders handover`"


def _reconciliation_for_people(found: dict[str, Any] | None) -> str | None:
    """None where nothing was ever reconciled: then there is no line about it."""
    if found is None:
        return None
    last = found["last_finished_at"]
    more = _listed(
        {
            "running": found["running"],
            "broken off (`reminders reconcile --runs`)": found["broken_off"],
            "being fetched": found["fetching"],
            "refused lately (`reminders reconcile --files`)": found["refused"],
        },
        "{count:,} {name}",
    )
    return ", ".join(filter(None, [f"last finished {last}" if last else "none finished", more]))


def _tick_for_people(found: dict[str, Any]) -> str:
    last = found["last_tick_at"]
    if last is None:
        return "none yet: does beat run?"
    return last if found["beat_ticks"] else f"{last}, more than {PERIODS} periods ago: does beat run, and a scanner?"


def _broker_for_people(found: dict[str, Any]) -> list[tuple[str, object]]:
    if found["queues"] is None:
        return [("broker", f"away: {found['broker_error']}")]
    workers = [f"{worker['node']} ({'+'.join(worker['queues'])})" for worker in found["workers"]]
    # One a line; the name is said once.
    names = ["workers", *[""] * len(workers)]
    return [
        ("queues", _listed(found["queues"], "{count:,} on {name}") or "empty"),
        ("with workers", f"{found['unacknowledged']:,} unacknowledged"),
        *zip(names, workers or ["none: does `reminders up`, or a line of the Procfile, run?"], strict=False),
        *(
            (
                "silent",
                f"{each['node']} ({'+'.join(each['queues'])}), process {each['pid']}, for {each['seconds']:,.0f} s: frozen, or killed",
            )
            for each in found["silent_workers"]
        ),
        *(
            [("not ours", _listed(found["dropped_messages"], "{count:,} for {name}"))]
            if found["dropped_messages"]
            else []
        ),
    ]


def _listed(counts: dict[str, int], form: str) -> str:
    return ", ".join(form.format(name=name, count=count) for name, count in counts.items() if count)

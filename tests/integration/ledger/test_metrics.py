"""The exposition: every metric, with the values of a ledger in every state; nothing personal in it; looks that stay cheap."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

import reminders
from integration.ledger.counted import counted
from integration.ledger.pauses import held, paused
from integration.ledger.world import ScriptedProvider, World
from promql import samples
from reminders.broker import presence, silence
from reminders.broker.link import Link
from reminders.broker.presence import Presence, announce
from reminders.domain.outcomes import Blocked, Rejected, Retry, Unknown
from reminders.ledger import measuring
from reminders.ledger.caller import fetch
from reminders.ledger.counting import count_attempts
from reminders.ledger.database import INDEXES_ONLY
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.status import ledger_status
from reminders.operate.metric_names import DEFINITIONS
from reminders.operate.metrics import LETTERS, OUTCOMES, Metrics
from reminders.pipeline import tally
from reminders.settings import Settings


@pytest.fixture
def metrics(world: World, settings: Settings, broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Metrics]:
    """Scrapes that have time, and processes that may be silent for a while: on a busy machine both are slow here."""
    monkeypatch.setattr(measuring, "LOOK_SECONDS", 60.0)
    monkeypatch.setattr(measuring, "STATEMENT_SECONDS", 20)
    for module in (presence, silence):
        monkeypatch.setattr(module, "SILENT_AFTER", 60.0)
    tally.events.take()
    metrics = Metrics(settings, world.database)
    yield metrics
    metrics.close()


def scraped(metrics: Metrics) -> dict[str, float]:
    """Values by name and labels, as `name{label="value"}`."""
    found = {}
    for labels, value in samples(metrics.text().decode()).items():
        known = dict(labels)
        name = known.pop("__name__")
        inner = ",".join(f'{label}="{text}"' for label, text in sorted(known.items()))
        found[f"{name}{{{inner}}}" if inner else name] = value
    return found


def run(world: World, made, *outcomes, now: datetime | None = None) -> str:
    world.published(now)
    return world.deliver(ScriptedProvider(*outcomes), now=now)(made.id, made.delivery_key)


def test_every_metric_is_there_and_no_other(world, metrics):
    run(world, world.schedule())
    counted(world, 1)
    tally.events.add("refused:busy")
    announce_counts(metrics)
    text = metrics.text().decode()
    told = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    assert told == {each.name: each.kind for each in DEFINITIONS}
    assert dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE)) == {e.name: e.meaning for e in DEFINITIONS}
    labels = {(name, label) for name, inner in re.findall(r"^(\w+)\{(.*?)\}", text, re.MULTILINE) for label in re.findall(r"(\w+)=", inner)}  # fmt: skip
    expected = {(each.name, label) for each in DEFINITIONS for label in each.labels}
    assert {(re.sub("_bucket$|_count$|_sum$", "", name), label) for name, label in labels if label != "le"} == expected


def announce_counts(metrics: Metrics) -> None:
    announce(metrics._link, Presence("d@h", 1, ("deliver",), 4), counted=tally.events.take())


def test_where_reminders_are(world, metrics):
    parked, late, sent = world.schedule(), world.schedule(), world.schedule()
    run(world, parked, Retry("busy", "later", status_code=503))
    world.sql("UPDATE reminders.due SET status = 'leased' WHERE id = %s", str(late.id))
    world.sql("UPDATE reminders.due SET wake_at = now() - interval '1 hour' WHERE status IN ('leased', 'published')")
    assert world.claim(sent) is not None
    asked = time.monotonic()
    found = scraped(metrics)
    assert found["reminders_parked"] == 1
    assert (found['reminders_due{status="leased"}'], found["reminders_leases_past_end"]) == (1, 1)
    assert (found['reminders_in_flight{status="sending"}'], found['reminders_in_flight{status="published"}']) == (1, 0)
    assert found["reminders_claims_past_end"] == 0
    # Due a minute ago, by its due time, not by the lease's end.
    assert 60 <= found["reminders_oldest_due_age_seconds"] < 1800
    grown = ledger_status(world.database)["oldest_due_age_seconds"] - found["reminders_oldest_due_age_seconds"]
    assert -0.1 <= grown <= time.monotonic() - asked + 0.1


def test_a_retry_on_its_way_is_as_old_as_its_retry(world, metrics):
    made = world.schedule()
    run(world, made, Retry("busy", "later", status_code=503))
    world.sql("UPDATE reminders.reminders SET due_at = now() - interval '3 hours'")
    world.sql("UPDATE reminders.due SET wake_at = now()")
    assert len(world.published()) == 1
    assert scraped(metrics)["reminders_oldest_due_age_seconds"] < 3600


def test_held_by_reason(world, metrics):
    held(world, world.schedule())
    world.schedule(tenant_id="b")
    world.sql(
        "UPDATE reminders.due SET wake_at = now() + interval '1 hour', quiet_until = now() + interval '1 hour' WHERE lane = 'b'"
    )
    found = scraped(metrics)
    told = {reason: found[f'reminders_held{{reason="{reason}"}}'] for reason in ("pause", "quiet_hours", "cap", "drain", "tenant_off")}  # fmt: skip
    assert told == {"pause": 1, "quiet_hours": 1, "cap": 0, "drain": 0, "tenant_off": 0}
    assert found["reminders_oldest_due_age_seconds"] == 0


def test_review_and_what_is_unknown(world, metrics):
    run(world, world.schedule(), Rejected("gone", "no"))
    in_review = world.schedule(deduplicates=False)
    run(world, in_review, Unknown("timeout", "no answer"))
    run(world, world.schedule(), Unknown("timeout", "no answer"))
    world.sql("UPDATE reminders.dead_letters SET opened_at = now() - interval '1 hour' WHERE kind = 'unknown'")
    found = scraped(metrics)
    assert {kind: found[f'reminders_review_open{{kind="{kind}"}}'] for kind in LETTERS} == {
        "destination": 1, "unknown": 1, "pipeline": 0,
    }  # fmt: skip
    assert found['reminders_review_oldest_age_seconds{kind="unknown"}'] == pytest.approx(3600, abs=600)
    assert found["reminders_unknown"] == 1
    assert found["reminders_unknown_oldest_age_seconds"] == pytest.approx(3600, abs=600)
    world.sql(
        "UPDATE reminders.dead_letters SET state = 'discarded', closed_at = now(), actor = 'a', action_reason = 'r'"
    )
    assert scraped(metrics)["reminders_unknown_oldest_age_seconds"] < 600


def test_counters_never_fall_when_reminders_are_gone(world, metrics):
    for _ in range(3):
        run(world, world.schedule())
    counted(world, 3)
    before = scraped(metrics)
    world.sql("DELETE FROM reminders.delivery_attempts")
    world.sql("DELETE FROM reminders.notification_deliveries")
    world.sql("DELETE FROM reminders.reminders")
    count_attempts(world.database, lag=0.0)
    after = scraped(metrics)
    counters = [name for name in before if "_total" in name or "late_seconds" in name]
    assert before['reminders_attempts_total{channel="log",outcome="delivered"}'] == 3
    assert {name: after[name] for name in counters} == {name: before[name] for name in counters}
    assert {
        outcome for outcome in OUTCOMES if f'reminders_attempts_total{{channel="log",outcome="{outcome}"}}' in after
    } == set(OUTCOMES)


def test_buckets_are_cumulative_and_end_in_the_count(world, metrics):
    for seconds in (0, 3, 3, 50, 100000):
        made, now = world.schedule(), world.lapse(0)
        due_at = now - timedelta(seconds=seconds)
        world.sql("UPDATE reminders.due SET wake_at = %s WHERE id = %s", due_at, str(made.id))
        world.sql(
            "UPDATE reminders.reminders SET due_at = %s, created_at = now() - interval '9 days' WHERE id = %s",
            due_at, str(made.id),
        )  # fmt: skip
        run(world, made, now=now)
    counted(world, 5)
    found = scraped(metrics)
    name = "reminders_called_late_seconds"
    reached = [
        found[f'{name}_bucket{{channel="log",le="{bound}"}}']
        for bound in ("1.0", "2.0", "5.0", "30.0", "60.0", "86400.0", "+Inf")
    ]
    assert reached == [1, 1, 3, 3, 4, 4, 5]
    assert found[f'{name}_count{{channel="log"}}'] == 5
    assert found[f'{name}_sum{{channel="log"}}'] == pytest.approx(100056)


def test_refused_claims_and_suppressed_duplicates(world, metrics):
    made = world.schedule()
    run(world, made)
    for _ in range(2):
        world.deliver(ScriptedProvider())(made.id, made.delivery_key)
    other = world.schedule()
    world.published()
    paused(world, tenant_id="tenant-a")
    assert world.deliver(ScriptedProvider())(other.id, other.delivery_key) == "paused"
    announce_counts(metrics)
    found = scraped(metrics)
    assert found['reminders_claims_refused_total{reason="delivered"}'] == 2
    assert found['reminders_claims_refused_total{reason="paused"}'] == 1
    assert found["reminders_duplicates_suppressed_total"] == 2


def test_ticks_by_who_sent_them(world, metrics):
    ledger = PostgresScan(world.database)
    ledger.record_tick(taken=1)
    ledger.record_tick(dropped=2)
    ledger.record_tick(taken=3, by_beat=False)
    world.sql("UPDATE reminders.ticks SET last_at = now() - interval '1 hour' WHERE name = 'scan_due'")
    found = scraped(metrics)
    assert found["reminders_beat_tick_age_seconds"] == pytest.approx(3600, abs=600)
    assert (found['reminders_ticks_total{by="beat"}'], found['reminders_ticks_total{by="scanner"}']) == (1, 3)
    assert found['reminders_ticks_dropped_total{by="beat"}'] == 2


def test_processes_count_by_queue_and_the_stalest_tells(metrics, settings):
    link = Link(settings)
    announce(link, Presence("a@h", 1, ("deliver", "retry"), 4), progress_age=3.0)
    announce(link, Presence("b@h", 2, ("deliver",), 4), progress_age=70.0)
    found = scraped(metrics)
    link.close()
    told = {queue: (found[f'reminders_processes{{queue="{queue}"}}'], found[f'reminders_progress_age_seconds{{queue="{queue}"}}']) for queue in ("deliver", "retry", "scan")}  # fmt: skip
    assert told == {"deliver": (2, 70.0), "retry": (1, 3.0), "scan": (0, 0.0)}


def test_an_open_transaction_is_seen_and_so_is_what_may_not_be_seen(world, metrics):
    connection = world.connect()
    connection.cursor().execute("SELECT pg_sleep(0.2)")
    assert scraped(metrics)["reminders_oldest_transaction_age_seconds"] >= 0.2
    connection.rollback()
    assert scraped(metrics)["reminders_oldest_transaction_age_seconds"] < 0.2
    assert scraped(metrics)["reminders_transactions_unseen"] == 0


def test_nothing_personal_is_told(world, metrics):
    given = {
        "tenant_id": "secret-tenant", "user_id": "secret-user", "destination": "secret-place", "reference": "secret-order",
        "kind": "secret-kind",
    }  # fmt: skip
    made = world.schedule(**given)
    run(world, made, Rejected("secret-class", "secret words"))
    held(world, world.schedule(**{**given, "reference": "secret-2"}), tenant_id="secret-tenant")
    counted(world, 1)
    announce_counts(metrics)
    text = metrics.text().decode()
    assert 'outcome="rejected"} 1.0' in text
    assert "secret" not in text
    assert str(made.id) not in text
    assert made.delivery_key not in text


@pytest.mark.parametrize(
    "statement", [each for each in vars(measuring).values() if isinstance(each, measuring.Statement)], ids=lambda s: s.name
)  # fmt: skip
@pytest.mark.parametrize("rows", [0, 10, 300])
def test_no_statement_of_a_scrape_reads_a_table_that_grows(world, statement, rows):
    """Whatever the statistics say: here that tables are empty, or so small that it seems cheap to read one."""
    world.committed(reminders.schedule_many, [world.wanted() for _ in range(rows)])
    world.sql("ANALYZE reminders.reminders, reminders.due, reminders.destinations")
    grows = {
        "due",
        "reminders",
        "notification_deliveries",
        "dead_letters",
        "notices",
        "destinations",
        "delivery_attempts",
    }
    given = {name: 10 for name in ("most", "looked_up", "holds", "looked_at") if name in statement.types}
    explained = replace(statement, name=f"explain_{statement.name}", sql=f"EXPLAIN (FORMAT TEXT) {statement.sql}")
    with world.database.transaction() as connection:
        connection.cursor().execute(INDEXES_ONLY)
        plan = "\n".join(row[0] for row in fetch(connection, "reminders", explained, **given))
    assert {table for table in re.findall(r"Seq Scan on (\w+)", plan) if table in grows} == set(), plan
    # An index without a condition and without an end is the whole table too.
    for scan in re.findall(
        r"Index (?:Only )?Scan using (due_pkey|reminders_pkey|\w+_deliveries_pkey) on .*\n(.*)", plan
    ):
        assert "Index Cond" in scan[1], plan


def test_what_a_hold_keeps_waiting_is_counted_by_whose_it_is(world, metrics):
    hour = timedelta(hours=1)
    made = {place: [world.schedule(destination=place, channel=channel) for _ in range(number)]
            for place, channel, number in (("busy", "log", 3), ("well", "log", 1), ("refused", "log", 0))}  # fmt: skip
    later = world.schedule(destination="busy", due_at=world.now + hour)
    run(world, made["busy"][0], Blocked("destination", hour, "http_503", "HTTP 503", 503))
    for each in made["busy"][1:]:
        assert world.deliver(ScriptedProvider())(each.id, each.delivery_key) == "destination_held"
    held_by = {
        reason: scraped(metrics)[f'reminders_held{{reason="{reason}"}}'] for reason in ("destination", "channel")
    }
    assert held_by == {"destination": 3, "channel": 0}
    assert ledger_status(world.database)["waiting_for_holds"] == {"destination": 3, "channel": 0}
    assert world.status(later.id)[0] == "pending"
    world.sql("UPDATE reminders.channel_holds SET hold_until = now()")
    run(world, made["well"][0], Blocked("provider", 2 * hour, "smtp_auth", "535", 535))
    assert ledger_status(world.database)["waiting_for_holds"] == {"destination": 3, "channel": 1}
    world.sql("UPDATE reminders.destinations SET hold_until = now() - interval '1 second'")
    assert ledger_status(world.database)["waiting_for_holds"] == {"destination": 0, "channel": 1}


def test_so_is_what_waits_for_the_probe_of_a_breaker(world, metrics):
    made = world.schedule()
    world.published()
    world.sql(
        """INSERT INTO reminders.destinations (id, tenant_id, channel, address, breaker_opened_at, breaker_times, hold_until, hold_reason)
           SELECT destination_id, tenant_id, channel, destination, now(), 1, now() - interval '1 second', 'r' FROM reminders.reminders"""
    )
    assert world.deliver(ScriptedProvider())(made.id, made.delivery_key) == "destination_held"
    assert scraped(metrics)['reminders_held{reason="destination"}'] == 1


def test_a_scrape_waits_for_nobody(world, metrics, monkeypatch):
    made = world.schedule()
    world.published()
    holder = world.connect()
    holder.cursor().execute("SELECT 1 FROM reminders.due FOR UPDATE")
    assert scraped(metrics)['reminders_source_up{source="ledger"}'] == 1
    holder.rollback()
    holder.cursor().execute("LOCK TABLE reminders.due IN ACCESS EXCLUSIVE MODE")
    monkeypatch.setattr(measuring, "STATEMENT_SECONDS", 1)
    found = scraped(metrics)
    holder.rollback()
    assert found['reminders_source_up{source="ledger"}'] == 0
    assert found['reminders_source_up{source="broker"}'] == 1
    assert "reminders_due" not in str(found)
    assert world.status(made.id)[0] == "published"


def test_an_old_release_that_says_nothing_of_its_progress_counts_as_alive(metrics, settings, broker):
    link = Link(settings)
    announce(link, Presence("a@h", 1, ("scan",), 1))
    broker.delete("reminders:progress:a@h:1")
    found = scraped(metrics)
    link.close()
    assert (found['reminders_processes{queue="scan"}'], found['reminders_progress_age_seconds{queue="scan"}']) == (1, 0)


def test_flushed_counts_begin_anew(world, metrics, broker):
    tally.events.add(tally.PUBLISH_REFUSED, 4)
    announce_counts(metrics)
    assert scraped(metrics)["reminders_publish_failures_total"] == 4
    broker.flushall()
    tally.events.add(tally.PUBLISH_REFUSED)
    announce_counts(metrics)
    assert scraped(metrics)["reminders_publish_failures_total"] == 1


def test_a_reminder_due_tomorrow_is_not_due(world, metrics):
    world.schedule(due_at=world.now + timedelta(days=1))
    found = scraped(metrics)
    assert (found['reminders_due{status="pending"}'], found["reminders_oldest_due_age_seconds"]) == (0, 0)

"""Every alert fires on the fault that it is for, made on a real ledger and a real Redis, and on no other; and none without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from alert_rules import MINUTE, PROMTOOL, by_promtool, rules
from integration.ledger.world import ScriptedProvider, World
from promql import History, fires, samples
from promql_values import Vector
from reminders.broker.link import Link
from reminders.broker.presence import Presence, announce, sign_off
from reminders.celery_options import QUEUES
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Rejected, Unknown
from reminders.ledger import measuring
from reminders.ledger.counting import count_attempts
from reminders.ledger.database import Database
from reminders.ledger.scanning import PostgresScan
from reminders.operate.metrics import Metrics
from reminders.pipeline import tally
from reminders.settings import Secret, Settings

FAULT, NOW, END = 10, 12, 14
"""Minutes: up to the first nothing is wrong; asked at the second; scraped until the third."""
NOWHERE = "127.0.0.1:1"


@dataclass
class Scene:
    """An installation in good order, at first, and who observes it."""

    world: World
    settings: Settings
    link: Link
    monkeypatch: pytest.MonkeyPatch
    without: set[str] = field(default_factory=set)
    progress_age: float = 0.0
    threshold: tuple[str, str] | None = None
    """What to write instead of what in every expression: where a fault of its length would take a quarter of an hour."""
    observed: Database | None = None
    """Instead of the ledger's own."""
    silent: bool = False
    """Nobody scrapes from the fault on."""
    ends: list[Callable[[], None]] = field(default_factory=list)

    def deliver(self, count: int, *, minutes_ago: float = 0.0, provider: ScriptedProvider | None = None) -> None:
        made = [self.world.schedule() for _ in range(count)]
        self.world.sql(
            "UPDATE reminders.due SET wake_at = now() - make_interval(secs => %s) WHERE status = 'pending'", minutes_ago * MINUTE
        )  # fmt: skip
        self.world.sql(
            "UPDATE reminders.reminders SET due_at = now() - make_interval(secs => %s), created_at = now() - interval '1 day' WHERE id = ANY(%s::uuid[])",
            minutes_ago * MINUTE, [str(each.id) for each in made],
        )  # fmt: skip
        self.world.published()
        worker = self.world.deliver(provider or ScriptedProvider())
        for each in made:
            worker(each.id, each.delivery_key)
        count_attempts(self.world.database, lag=0.0)

    def scrape(self) -> Vector:
        """As it is now, with the processes that are there."""
        for number, queue in enumerate(QUEUES):
            if queue not in self.without:
                age = self.progress_age if queue == "deliver" else 0.0
                each = Presence(f"{queue}@here", number, (queue,), 1)
                announce(
                    self.link, each, instead_of=each,
                    counted=tally.events.take(), progress_age=age,
                )  # fmt: skip
        metrics = Metrics(self.settings, self.observed or self.world.database)
        try:
            return samples(metrics.text().decode())
        finally:
            metrics.close()

    def expressions(self) -> dict[str, str]:
        if self.threshold is None:
            return rules()
        return {name: text.replace(*self.threshold) for name, text in rules().items()}


@pytest.fixture
def scene(world: World, settings: Settings, broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    tally.events.take()
    link = Link(settings)
    scene = Scene(world, settings, link, monkeypatch)
    PostgresScan(world.database).record_tick(taken=1)
    scene.deliver(25)
    yield scene
    for end in scene.ends:
        end()
    link.close()


def observed(scene: Scene, fault: Callable[[Scene], None]) -> History:
    """Ten minutes of nothing, then the fault, minute by minute; what is real is each scrape, not the time between two."""
    history = History()
    healthy = scene.scrape()
    for minute in range(FAULT):
        history.add(minute * MINUTE, healthy)
    fault(scene)
    if not scene.silent:
        faulty = scene.scrape()
        for minute in range(FAULT, END + 1):
            history.add(minute * MINUTE, faulty)
    return history


def nothing(_: Scene) -> None: ...


def nobody_scrapes(scene: Scene) -> None:
    scene.silent = True


def postgres_is_away(scene: Scene) -> None:
    scene.observed = Database(f"postgresql://nobody@{NOWHERE}/none", schema="reminders")


def redis_is_away(scene: Scene) -> None:
    scene.settings = replace(scene.settings, redis_url=Secret(f"redis://{NOWHERE}/0"))


def many_are_late(scene: Scene) -> None:
    scene.deliver(25, minutes_ago=10)


def some_are_late(scene: Scene) -> None:
    scene.deliver(38)
    scene.deliver(2, minutes_ago=10)


def a_few_are_late(scene: Scene) -> None:
    scene.deliver(118)
    scene.deliver(1, minutes_ago=10)


def one_stays_due(scene: Scene) -> None:
    scene.world.schedule()
    scene.world.sql("UPDATE reminders.due SET wake_at = now() - interval '10 minutes'")


def one_stays_published(scene: Scene) -> None:
    made = scene.world.schedule()
    scene.world.sql("UPDATE reminders.due SET wake_at = now() - interval '10 minutes'")
    scene.world.sql("UPDATE reminders.reminders SET due_at = now() - interval '10 minutes' WHERE id = %s", str(made.id))
    assert len(scene.world.published()) == 1


def some_expire(scene: Scene) -> None:
    scene.world.schedule()
    scene.world.sql("UPDATE reminders.due SET give_up_at = now()")
    scene.world.sql("UPDATE reminders.reminders SET expires_at = due_at + interval '1 second' WHERE status = 'live'")
    scene.world.scanning().once()


def some_expire_on_their_way_to_a_worker(scene: Scene) -> None:
    made = scene.world.schedule()
    scene.world.published()
    scene.world.sql(
        "UPDATE reminders.reminders SET due_at = now() - interval '2 s', expires_at = now() - interval '1 s' WHERE status = 'live'"
    )
    scene.world.deliver(ScriptedProvider())(made.id, made.delivery_key)
    assert scene.world.sql("SELECT status FROM reminders.reminders WHERE id = %s", str(made.id)) == [("expired",)]


def nobody_counts(scene: Scene) -> None:
    scene.world.sql("UPDATE reminders.counted_up_to SET recorded_at = recorded_at - interval '10 minutes'")


def an_outcome_is_unknown(scene: Scene) -> None:
    made = scene.world.schedule(deduplicates=False)
    claim = scene.world.opened(made)
    assert scene.world.finalize(claim, Unknown("timeout", "no answer")) == "dead"


def an_outcome_is_unknown_for_long(scene: Scene) -> None:
    made = scene.world.schedule()
    assert scene.world.finalize(scene.world.opened(made), Unknown("timeout", "no answer")) == "parked"
    scene.world.sql(
        "UPDATE reminders.notification_deliveries SET uncertain_since = now() - interval '2 hours' WHERE uncertain_since IS NOT NULL"
    )


def our_own_fault(scene: Scene) -> None:
    class Broken(ScriptedProvider):
        def render(self, delivery) -> bytes:
            raise ValueError

    scene.deliver(1, provider=Broken())


def a_letter_is_old(scene: Scene) -> None:
    scene.deliver(1, provider=ScriptedProvider(Rejected("gone", "refused")))
    scene.world.sql("UPDATE reminders.dead_letters SET opened_at = now() - interval '25 hours'")


def a_breaker_is_open(scene: Scene) -> None:
    scene.world.sql(
        """INSERT INTO reminders.destinations (id, tenant_id, channel, address, breaker_opened_at, breaker_times, hold_until, hold_reason)
           VALUES (gen_random_uuid(), 't', 'log', 'x', now(), 1, now() + interval '1 minute', 'breaker open')"""
    )


def beat_is_silent(scene: Scene) -> None:
    scene.world.sql("UPDATE reminders.ticks SET last_at = last_at - interval '5 minutes'")
    PostgresScan(scene.world.database).record_tick(taken=1, by_beat=False)


def beat_never_was(scene: Scene) -> None:
    scene.world.sql("DELETE FROM reminders.ticks")


def nobody_consumes_a_queue(scene: Scene) -> None:
    scene.without = {"retry"}
    scene.link.close()
    with scene.link.redis() as client:
        client.delete("reminders:workers")


def a_process_is_stalled(scene: Scene) -> None:
    scene.progress_age = 180.0


def one_of_two_processes_is_frozen(scene: Scene) -> None:
    announce(scene.link, Presence("deliver2@here", 99, ("deliver",), 1))
    with scene.link.redis() as client:
        for member in client.zrange("reminders:workers", 0, -1):
            client.zincrby("reminders:workers", -60, member)
        for key in client.scan_iter("reminders:since:*"):
            client.set(key, "1")


def one_is_stopped_and_another_killed_and_replaced(scene: Scene) -> None:
    stopped, killed = (Presence(f"deliver{number}@here", 97 + number, ("deliver",), 1) for number in (2, 3))
    announce(scene.link, stopped)
    sign_off(scene.link, stopped)
    one_of_two_processes_is_frozen(scene)
    announce(scene.link, replace(killed, node="deliver2@here", pid=101))


def a_scanner_dies_with_a_lease(scene: Scene) -> None:
    scene.world.schedule()
    PostgresScan(scene.world.database).lease(1, -1.0, uuid7())


def a_claim_is_not_repaired(scene: Scene) -> None:
    scene.world.opened(scene.world.schedule())
    scene.world.sql("UPDATE reminders.due SET wake_at = now() - interval '1 second' WHERE status = 'sending'")


def redis_refuses_messages(scene: Scene) -> None:
    scene.world.schedule()
    scene.world.broker.accepts = 0
    scene.world.scanning().once()
    scene.world.broker.accepts = None
    assert len(scene.world.published(now=scene.world.lapse(61))) == 1


def a_transaction_stays_open(scene: Scene) -> None:
    connection = scene.world.connect()
    connection.cursor().execute("SELECT 1")
    scene.ends.append(connection.rollback)
    scene.threshold = (
        "reminders_oldest_transaction_age_seconds > 900",
        "reminders_oldest_transaction_age_seconds > 0.05",
    )
    end = time.monotonic() + 0.1
    while time.monotonic() < end:
        scene.world.sql("SELECT pg_sleep(0.02)")


def the_clocks_differ(scene: Scene) -> None:
    scene.monkeypatch.setattr(
        measuring, "CLOCK", replace(measuring.CLOCK, name="clock_off", sql=measuring.CLOCK.sql + " - 30")
    )


BURNING = {"RemindersLateFast", "RemindersLate", "RemindersLateSlow"}
FAULTS: list[tuple[Callable[[Scene], None], set[str]]] = [
    (nothing, set()),
    (postgres_is_away, {"RemindersNotObserved"}),
    (redis_is_away, {"RemindersBrokerAway"}),
    (many_are_late, BURNING),
    (some_are_late, {"RemindersLate", "RemindersLateSlow"}),
    (a_few_are_late, {"RemindersLateSlow"}),
    (one_stays_due, {"RemindersOldestDue"}),
    (one_stays_published, {"RemindersOldestDue"}),
    (some_expire, {"RemindersExpire"}),
    (some_expire_on_their_way_to_a_worker, {"RemindersExpire"}),
    (nobody_counts, {"RemindersNotCounted"}),
    (an_outcome_is_unknown, {"RemindersUnknownOutcomes"}),
    (an_outcome_is_unknown_for_long, {"RemindersUnknownForLong"}),
    (our_own_fault, {"RemindersPipelineLetters"}),
    (a_letter_is_old, {"RemindersReviewWaits"}),
    (a_breaker_is_open, {"RemindersBreakerOpen"}),
    (beat_is_silent, {"RemindersBeatSilent"}),
    (beat_never_was, {"RemindersBeatSilent"}),
    (nobody_consumes_a_queue, {"RemindersNoProcess"}),
    (a_process_is_stalled, {"RemindersStalled"}),
    (one_of_two_processes_is_frozen, {"RemindersSilent"}),
    (one_is_stopped_and_another_killed_and_replaced, set()),
    (a_scanner_dies_with_a_lease, {"RemindersLeasesPastEnd"}),
    (a_claim_is_not_repaired, {"RemindersClaimsPastEnd"}),
    (redis_refuses_messages, {"RemindersPublishFails"}),
    (a_transaction_stays_open, {"RemindersOldTransaction"}),
    (the_clocks_differ, {"RemindersClockSkew"}),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=lambda each: getattr(each, "__name__", ""))
def test_a_fault_fires_its_alert_and_no_other(
    scene: Scene, fault: Callable[[Scene], None], expected: set[str], tmp_path: Path
) -> None:
    history = observed(scene, fault)
    firing = {name for name, text in scene.expressions().items() if fires(text, history, NOW * MINUTE)}
    before = {name for name, text in scene.expressions().items() if fires(text, history, (FAULT - 1) * MINUTE)}
    assert (before, firing) == (set(), expected)
    if PROMTOOL is not None and scene.threshold is None:
        assert by_promtool(history, NOW * MINUTE, {name: name in expected for name in rules()}, tmp_path) == ""


def test_a_scrape_that_is_absent_is_noticed(scene: Scene, tmp_path: Path) -> None:
    history = observed(scene, nobody_scrapes)
    at = (FAULT + 6) * MINUTE
    assert {name for name, text in rules().items() if fires(text, history, at)} == {"RemindersNotObserved"}
    if PROMTOOL is not None:
        assert by_promtool(history, at, {"RemindersNotObserved": True}, tmp_path) == ""
        assert "FAILED" in by_promtool(history, at, {"RemindersNotObserved": False}, tmp_path)


def test_every_alert_has_a_fault_here() -> None:
    assert set().union(*(expected for _, expected in FAULTS)) == set(rules())

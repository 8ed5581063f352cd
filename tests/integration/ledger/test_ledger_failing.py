"""A destination where every call has failed for a stated time is disabled, with one notice; a count never does it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from integration.ledger.test_ledger_destination_state import HOME, PLACE, run
from integration.ledger.world import AskedProvider, ScriptedProvider
from reminders.domain.look_ups import Found, Undecided
from reminders.domain.outcomes import Blocked, Delivered, Rejected, Retry, Unknown
from reminders.ledger.closing_letters import redrive
from reminders.ledger.destination_state import disable, enable
from reminders.ledger.destinations import find
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.notices import notices
from reminders.ledger.review import LetterFilter
from reminders.pipeline.ports import Report

DAY = 86400.0
DOWN = Retry("connect_refused", "the connection was refused")
REFUSED = Rejected("http_404", "HTTP 404", 404)
LOST = Unknown("reset", "the connection was reset")


def fail(world, seconds, outcome=DOWN, **changed):
    """One call to the destination that comes to `outcome`, `seconds` from now."""
    made = world.schedule(**changed)
    run(world, made, ScriptedProvider(outcome), seconds)
    return made


def since(world):
    rows = world.sql("SELECT failing_since FROM reminders.destinations WHERE id = %s", str(PLACE))
    return rows[0][0] if rows else None


def told(world):
    return [(each.kind, each.destination_id) for each in notices(world.database)]


@pytest.mark.parametrize("outcome", [DOWN, REFUSED, LOST], ids=lambda each: each.name)
def test_after_five_days_without_a_success_it_is_disabled_with_one_notice(world, outcome, caplog):
    fail(world, 0, outcome)
    began = since(world)
    for days in (1, 3, 4.99):
        fail(world, days * DAY, outcome)
    assert (since(world), find(world.database, *HOME).disabled_at, told(world)) == (began, None, [])
    waiting = world.schedule()
    last = fail(world, 5 * DAY + 1, outcome)
    found = find(world.database, *HOME)
    assert found.disabled_at is not None
    words = f"every call has failed since {began:%Y-%m-%d %H:%M} UTC; the last one: {outcome.reason}"
    assert (found.disabled_reason, found.failing_since) == (words, began)
    assert told(world) == [("destination_failing", PLACE)]
    assert [each.reason for each in notices(world.database)] == [words]
    (line,) = [each.message for each in caplog.records if "notice.new" in each.message]
    assert str(PLACE) in line
    assert "somewhere" not in line
    # What waits for it ends without a call, as after a 410, and so does the retry of the last one.
    provider = ScriptedProvider()
    for made in (waiting, last):
        if world.status(made.id)[0] != "dead":
            assert run(world, made, provider, 5 * DAY + 3600) == "dead"
    assert world.letters(waiting.id) == [("destination", "open", "destination_disabled")]
    assert (provider.calls, told(world)) == ([], [("destination_failing", PLACE)])


def test_its_reminders_are_kept_for_a_redrive_once_it_is_enabled(world):
    fail(world, 0, REFUSED)
    fail(world, 5 * DAY + 1, REFUSED)
    made = world.schedule()
    assert run(world, made, ScriptedProvider(), 5 * DAY + 2) == "dead"
    enabled = enable(world.database, HOME, "they are back")
    assert (enabled.disabled_at, enabled.failing_since) == (None, None)
    (seen,) = notices(world.database, seen=True)
    assert (told(world), seen.seen_by) == ([], "who enabled it")
    wanted = LetterFilter(destination=PLACE, error_class="destination_disabled")
    assert redrive(world.database, wanted, actor="ada", reason="back").done == [made.id]
    # A first failure begins to count anew.
    assert run(world, made, ScriptedProvider(DOWN), 6 * DAY) == "parked"
    assert find(world.database, *HOME).disabled_at is None
    assert since(world) > world.lapse(6 * DAY - 60)


def test_thousands_of_failures_within_five_days_do_not_disable_it(world):
    for _ in range(60):
        fail(world, 4 * DAY, REFUSED)
    assert (find(world.database, *HOME).disabled_at, told(world)) == (None, [])


def test_one_success_in_between_is_enough(world):
    fail(world, 0)
    fail(world, 4 * DAY, Delivered())
    assert since(world) is None
    fail(world, 6 * DAY)
    fail(world, 10 * DAY)
    assert find(world.database, *HOME).disabled_at is None


@pytest.mark.parametrize(
    "outcome",
    [
        Blocked("destination", timedelta(seconds=5), "http_429", "HTTP 429", 429),
        Blocked("provider", timedelta(seconds=5), "credentials", "our key was refused", 401),
        Retry("not_configured", "no secret", blameless=True),
        Rejected("forbidden_address", "not public", blameless=True),
        Unknown("internal", "a fault on our side", blameless=True),
        lambda: 1 / 0,
        "no outcome",
    ],
    ids=["held", "credentials", "not configured", "forbidden", "our fault", "raises", "none"],
)
def test_what_is_no_failure_of_the_destination_does_not_count(world, outcome):
    fail(world, 0, outcome)
    assert since(world) is None
    fail(world, 60, REFUSED)  # when it is held no more
    began = since(world)
    assert began is not None
    fail(world, 6 * DAY, outcome)
    assert (since(world), find(world.database, *HOME).disabled_at) == (began, None)


def test_a_body_that_cannot_be_made_does_not_count(world):
    provider = ScriptedProvider()
    provider.render = lambda _: 1 / 0
    assert run(world, world.schedule(), provider) == "dead"
    assert since(world) is None


def test_a_worker_that_died_does_not_count(world):
    world.opened(world.schedule())
    assert world.repair() == 1
    assert since(world) is None


def test_a_look_up_is_no_call_but_what_it_finds_was_one(world):
    world.look_ups = ("log",)
    made = world.schedule(deduplicates=False)
    provider = AskedProvider(LOST, answers=[Undecided("down", "HTTP 502"), Found("theirs")])
    assert run(world, made, provider) == "parked"
    assert since(world) is not None
    world.sql("UPDATE reminders.destinations SET failing_since = NULL")
    assert run(world, made, provider, 60) == "parked"
    assert since(world) is None
    world.sql("UPDATE reminders.destinations SET failing_since = now()")
    assert run(world, made, provider, 3600) == "delivered"
    assert (since(world), provider.asked) == (None, [made.delivery_key] * 2)


def test_another_destination_and_another_tenant_have_times_of_their_own(world):
    fail(world, 0)
    fail(world, 6 * DAY, destination="elsewhere")
    fail(world, 6 * DAY, tenant_id="tenant-b")
    rows = world.sql("SELECT count(failing_since), count(disabled_at) FROM reminders.destinations")
    assert rows == [(3, 0)]


@pytest.mark.parametrize(("after", "disabled"), [(3600.0, True), (8 * DAY, False), (0.0, False)])
def test_the_time_is_the_installations(world, after, disabled):
    fail(world, 0, REFUSED)
    now = world.lapse(6 * DAY)
    ledger = PostgresFinalize(world.database, worker="worker-1", disable_after=after, now=now)
    claim = world.opened(world.schedule(), now=now)
    world.finalizing(now=now, ledger=ledger)(claim, Report(REFUSED, 1, None))
    assert (find(world.database, *HOME).disabled_at is not None) is disabled


def test_what_an_operator_disabled_stays_as_it_is(world):
    claims = [world.opened(world.schedule()) for _ in range(2)]
    world.finalize(claims[0], REFUSED)
    disable(world.database, HOME, "they asked us to")
    world.finalize(claims[1], REFUSED, now=world.lapse(6 * DAY))
    assert (find(world.database, *HOME).disabled_reason, told(world)) == ("they asked us to", [])


def test_a_working_destination_is_written_by_nobody(world):
    fail(world, 0, Delivered())
    assert world.sql("SELECT count(*) FROM reminders.destinations") == [(0,)]
    fail(world, 0)
    fail(world, 0, Delivered())
    version = "SELECT xmin::text, ctid::text FROM reminders.destinations"
    before = world.sql(version)
    for _ in range(3):
        fail(world, 0, Delivered())
    assert world.sql(version) == before


def test_while_it_fails_only_the_first_failure_writes(world):
    fail(world, 0)
    version = "SELECT xmin::text, xmax::text, ctid::text FROM reminders.destinations"
    before = world.sql(version)
    for outcome in (DOWN, REFUSED, LOST):
        fail(world, 3600, outcome)
    assert world.sql(version) == before


def test_calls_that_fail_at_once_after_the_time_disable_it_once(world):
    fail(world, 0, REFUSED)
    now = world.lapse(6 * DAY)
    made = [world.schedule() for _ in range(8)]
    world.published(now)
    claims = [world.claim(each, now=now) for each in made]
    ended = [world.start(world.finalize, claim, REFUSED, now=now) for claim in claims]
    assert [each.result() for each in ended] == ["dead"] * 8
    assert told(world) == [("destination_failing", PLACE)]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("outcome", "failing"), [(Delivered(), False), (REFUSED, True)])
def test_what_is_recorded_alone_counts_too(world, outcome, failing):
    fail(world, 0)
    began = since(world)
    now = world.lapse(6 * DAY)
    made = world.schedule()
    claim = world.opened(made, now=now)
    with world.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM reminders.due WHERE id = %s FOR UPDATE", (str(made.id),))
        world.finalize(claim, outcome, now=now)
    found = find(world.database, *HOME)
    assert (found.failing_since, found.disabled_at is not None) == (began if failing else None, failing)


def test_a_success_that_is_reported_late_counts_too(world):
    made = world.schedule()
    claim = world.opened(made)
    world.repair()
    fail(world, 60)
    assert since(world) is not None
    assert world.finalize(claim, Delivered()) == "lapsed"
    assert since(world) is None


def test_a_call_that_ends_as_cancelled_counts_too(world):
    import reminders

    made = world.schedule()
    claim = world.opened(made)
    assert world.committed(reminders.cancel, made.id) == "requested"
    assert world.finalize(claim, DOWN) == "cancelled"
    assert since(world) is not None

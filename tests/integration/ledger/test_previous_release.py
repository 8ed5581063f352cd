"""The release before this one runs on this release's schema, at the same time, on the same rows: its statements, as they were
(tests/data/previous_release), each step by either release."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from integration.ledger.world import CLAIM, LEASE, REDELIVER, World
from reminders.domain.identity import uuid7
from reminders.domain.outcomes import Delivered, Rejected, Retry
from reminders.domain.retry_policy import Bury, Park
from reminders.ledger.finalizing import PostgresFinalize
from reminders.ledger.notices import notices
from reminders.ledger.noticing import look_for_news
from reminders.ledger.scanning import PostgresScan
from reminders.ledger.statement import Statement
from reminders.pipeline.ports import Report
from reminders.pipeline.schedule import to_request
from reminders.providers import registry
from reminders.settings import Settings

FROZEN = Path(__file__).parents[2] / "data" / "previous_release"
WINDOW, MAX_WAIT = 7 * 86400.0, 72 * 3600.0
RULES = {"look_ups": [], "window": WINDOW, "dispatcher": "main", "new_tenants": "live"}
OUTCOMES = {
    "delivered": Delivered("r"),
    "parked": Retry("http_503", "HTTP 503", 503),
    "dead": Rejected("http_410", "gone", 410, gone=True),
}


def frozen(name: str) -> Statement:
    _, types, sql = (FROZEN / f"{name}.sql").read_text().split("\n", 2)
    return Statement(f"before_{name}", sql, json.loads(types.removeprefix("-- ")))


class Before:
    """The release before."""

    def __init__(self, world: World) -> None:
        self._world = world

    def _run(self, statement: str, **given: Any) -> list[tuple[Any, ...]]:
        return self._world.database.fetch(frozen(statement), **given)

    def schedule(self, reference: str) -> tuple[UUID, str]:
        provider = registry.load("log", Settings())
        made = to_request(lambda _: provider, **self._world.wanted(reference=reference))
        row = {
            "id": str(made.id), "tenant_id": made.tenant_id, "user_id": made.user_id, "kind": made.kind, "channel": made.channel,
            "destination": made.destination, "destination_id": str(made.destination_id), "deduplicates": True,
            "reference": made.reference, "slot": made.slot, "data": json.loads(made.data), "due_at": made.due_at.isoformat(),
            "zone": made.zone, "expires_at": None, "identity_key": f"\\x{made.identity_key.hex()}",
            "request_hash": f"\\x{made.request_hash.hex()}", "delivery_key": made.delivery_key,
        }  # fmt: skip
        assert self._run("schedule", rows=json.dumps([row])) == [(str(made.id),)]
        return made.id, made.delivery_key

    def look(self) -> tuple[Any, ...]:
        return self._run("look", limit=10, young=0.0, dispatcher="main")[0]

    def lease(self, token: UUID) -> list[UUID]:
        rows = self._run(
            "lease", limit=10, seconds=LEASE, token=str(token), max_wait=MAX_WAIT, with_retries=True, dispatcher="main"
        )
        return [UUID(row[0]) for row in rows]

    def mark(self, ids: list[UUID], token: UUID) -> list[UUID]:
        rows = self._run("mark_published", ids=[str(each) for each in ids], token=str(token), deadline=REDELIVER)
        return [UUID(each) for (each,) in rows]

    def claim(self, made: tuple[UUID, str], token: UUID) -> int | None:
        given = {
            "id": str(made[0]),
            "key": made[1],
            "seconds": CLAIM,
            "token": str(token),
            "worker": "before:1:a",
            "templated": [],
        }
        rows = self._world.database.fetch_marked("pauses", 500, frozen("claim"), formats='{"log": 1}', **given, **RULES)
        return int(rows[0][0]) if rows else None

    def refusal(self, made: tuple[UUID, str]) -> str:
        row = self._run("refusal", id=str(made[0]), key=made[1], **RULES)[0]
        return "claimed" if "sending" in row else repr(row)

    def finalize(self, made: tuple[UUID, str], number: int, _token: UUID, outcome: str) -> str:
        said = OUTCOMES[outcome]
        given = {
            "id": str(made[0]), "key": made[1], "number": number, "outcome": said.name, "code": said.status_code, "duration": 3,
            "reference": "r" if outcome == "delivered" else None, "error_class": said.error_class, "reason": said.reason,
            "decision": outcome, "certain": False, "gone": outcome == "dead", "failed": outcome == "parked", "disable_after": 432000.0,
            "timed_out": False, "unwell": outcome == "parked", "trips": outcome == "parked", "open_for": 30.0, "open_longest": 900.0,
            "notice_id": str(uuid7()), "passing": False, "seconds": 5.0, "route": "deliver", "letter": "destination",
            "letter_id": str(uuid7()),
        }  # fmt: skip
        name = {"delivered": "finalize_delivered", "parked": "finalize_parked", "dead": "finalize_buried"}[outcome]
        rows = self._run(name, **given)
        return str(rows[0][0]) if rows else "lapsed"


class Now:
    """This release."""

    def __init__(self, world: World) -> None:
        self._world = world

    def schedule(self, reference: str) -> tuple[UUID, str]:
        made = self._world.schedule(reference=reference)
        return made.id, made.delivery_key

    def lease(self, token: UUID) -> list[UUID]:
        return [each.reminder_id for each in PostgresScan(self._world.database).lease(10, LEASE, token).messages]

    def mark(self, ids: list[UUID], token: UUID) -> list[UUID]:
        return PostgresScan(self._world.database).mark_published_if_leased(ids, token, REDELIVER)

    def claim(self, made: tuple[UUID, str], token: UUID) -> int | None:
        found = self._world.claims().claim(*made, token, CLAIM)
        return found and found.claim_number

    def refusal(self, made: tuple[UUID, str]) -> str:
        return self._world.claims().refusal(*made)

    def finalize(self, made: tuple[UUID, str], _number: int, token: UUID, outcome: str) -> str:
        claim = self._world.claims().claimed_with(*made, token)
        if claim is None:
            return "lapsed"
        ledger = PostgresFinalize(self._world.database, worker="now:1:b")
        report = Report(OUTCOMES[outcome], 3, None, trips=outcome == "parked")
        if outcome == "delivered":
            return ledger.finalize_delivered_if_sending(claim, report)
        if outcome == "parked":
            return ledger.finalize_parked_if_sending(claim, report, Park(5.0, "deliver"))
        return ledger.finalize_buried_if_sending(claim, report, Bury("destination"))


STEPS = ("schedule", "lease", "mark", "claim", "finalize")
TURNS = list(itertools.product((Before, Now), repeat=len(STEPS)))


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("who", TURNS, ids=["-".join(each.__name__.lower() for each in turns) for turns in TURNS])
def test_each_step_may_be_either_releases(world, who, outcome):
    schedules, leases, marks, claims, finalizes = (each(world) for each in who)
    made = schedules.schedule("order-1")
    lease, token = uuid7(), uuid7()
    assert leases.lease(lease) == [made[0]]
    assert marks.mark([made[0]], lease) == [made[0]]
    number = claims.claim(made, token)
    assert number == 1
    for other in (Before(world), Now(world)):
        assert other.claim(made, uuid7()) is None
        assert other.refusal(made) == "claimed"
        assert other.lease(uuid7()) == []
    assert finalizes.finalize(made, number, token, outcome) == "done"
    for other in (Before(world), Now(world)):
        assert other.finalize(made, number, token, outcome) == "lapsed"
    status = {"delivered": ("delivered", "delivered"), "parked": ("pending", "retrying"), "dead": ("dead", "dead")}[
        outcome
    ]
    assert world.status(made[0]) == status
    assert world.attempts(made[0]) == [(1, OUTCOMES[outcome].name, OUTCOMES[outcome].error_class)]


def test_what_the_release_before_tells_of_is_seen_by_this_one(world):
    for number, (outcome, turn) in enumerate((("dead", Before), ("dead", Now))):
        made = turn(world).schedule(f"order-{number}")
        if number:
            world.sql("UPDATE reminders.destinations SET disabled_at = NULL, disabled_reason = NULL RETURNING 1")
        lease, token = uuid7(), uuid7()
        Before(world).mark(Before(world).lease(lease), lease)
        claimed = Before(world).claim(made, token)
        assert claimed is not None
        assert Before(world).finalize(made, claimed, token, outcome) == "done"
    look_for_news(world.database, silence=None)
    assert sorted((each.kind, each.times) for each in notices(world.database)) == [
        ("dead_letter", 2),
        ("destination_gone", 1),
    ]


def test_its_look_tick_and_repair_work(world):
    before = Before(world)
    made = before.schedule("order-1")
    lease = uuid7()
    assert before.look()[-2:] != ()
    before.mark(before.lease(lease), lease)
    assert before.claim(made, uuid7()) == 1
    before._run("record_tick", name="scan_due", taken=1, dropped=0)
    late = datetime.now(UTC) + timedelta(seconds=CLAIM + 10)
    with world.database.transaction() as connection, connection.cursor() as cursor:
        for name, given in (
            ("lock_lapsed", {"now": late, "limit": 10}),
            ("repair_repeat", {"now": late, "keys": [made[1]], "excused": [], "decision": "repeat"}),
        ):
            bound = frozen(name).in_schema("reminders")
            cursor.execute(bound.plain, bound.arguments(given))
            assert len(cursor.fetchall()) == 1
    assert world.status(made[0]) == ("pending", "retrying")


def test_what_it_cancels_is_cancelled(world):
    made = Now(world).schedule("order-1")
    statement = frozen("cancel")
    given = {name: str(made[0]) for name in statement.types if name in {"id", "ids"}}
    world.database.fetch(statement, **given)
    assert world.status(made[0]) == ("cancelled", None)

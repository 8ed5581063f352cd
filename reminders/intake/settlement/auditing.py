"""Does everything that follows from the facts exist? Decisions, reminders and deliveries, compared and repaired."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal
from uuid import UUID

from reminders.intake.patience import patiently
from reminders.intake.settlement.applying import Applied
from reminders.intake.settlement.comparing import Item, differences
from reminders.intake.settlement.running import AlreadyRunning, Run, Workshop, begin
from reminders.intake.settlement.settling import PAGE, Settling
from reminders.intake.settlement.steps import settling_of
from reminders.ledger import settlement_groups, settlement_report, settlement_runs
from reminders.ledger.settlement_groups import Place

Finding = Literal[
    "decision_missing",
    "decision_differs",
    "decision_stale",
    "reminder_missing",
    "reminder_stale",
    "not_told",
    "not_delivered",
]
"""`stale` is what should be no more: a decision that no longer follows, the live reminder of one that was withdrawn."""
_NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that is not as it should be. `repaired` only where that was asked for and could be done here."""

    finding: Finding
    decision: str
    order: str | None
    line_id: str | None
    payout_id: str
    detail: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class ReconciliationAudit:
    """`found` holds as many as were asked for; `counts` has all, by finding, and `repaired` those that are no more.

    `decisions` were looked at. `statuses`: standing decisions of the source by name and by how their reminder stands, or
    why there is none. `run_id` is the run that repairs are on record under.
    """

    source: str
    decisions: int
    counts: Mapping[str, int]
    repaired: int
    found: tuple[Found, ...]
    statuses: Mapping[tuple[str, str], int]
    run_id: UUID | None


def audit(
    workshop: Workshop, *, repair: bool = False, actor: str, limit: int = 100
) -> ReconciliationAudit | AlreadyRunning:
    """Decide over all orders of the source, in pages, without writing, or with `repair` as a run does.

    What another run has in work just now is left to it. Raises as a run's steps do.
    """
    run: Run | None = None
    pages: Iterator[list[Item] | list[Applied]]
    if repair:
        begun = begin(workshop, "audit", actor=actor)
        if isinstance(begun, AlreadyRunning):
            return begun
        run, pages = begun, _repaired(begun)
    else:
        pages = _looked_at(workshop, settling_of(workshop))
    counts: Counter[str] = Counter()
    found: list[Found] = []
    decisions = repaired = 0
    # What is on record as missing is decided over with the other orders, and again with those that are overdue.
    missing: set[UUID] = set()
    for page in pages:
        for each in page:
            item = each.item if isinstance(each, Applied) else each
            if item.id in missing:
                continue
            if item.decision.name == "missing":
                missing.add(item.id)
            decisions += 1
            finding = _finding(each)
            if finding is not None:
                counts[finding.finding] += 1
                repaired += finding.repaired
                if len(found) < limit:
                    found.append(finding)
    with workshop.database.transaction() as connection:
        given = {"source": workshop.config.source}
        rows = settlement_report.sums(connection, workshop.database.schema, settlement_report.STATUSES, **given)
    statuses = {(name, standing): number for name, standing, number in rows}
    source, run_id = workshop.config.source, None if run is None else run.id
    return ReconciliationAudit(source, decisions, dict(counts), repaired, tuple(found), statuses, run_id)


def _repaired(run: Run) -> Iterator[list[Applied]]:
    try:
        for step in ("decide", "missing"):
            while (done := run.settle_next(step)) is not None:
                yield done
        run.finish()
    except BaseException:
        run.let_go()
        raise


def _looked_at(workshop: Workshop, settling: Settling) -> Iterator[list[Item]]:
    for step in ("decide", "missing"):
        after = ""
        while True:
            look = partial(_look, workshop, settling, step, after)
            items, after = patiently(look, workshop.patience, workshop.tell)
            if not after:
                break
            yield items


def _look(workshop: Workshop, settling: Settling, step: str, after: str) -> tuple[list[Item], str]:
    schema, source = workshop.database.schema, workshop.config.source
    with workshop.database.transaction() as connection:
        settlement_runs.take_turn(connection, schema, source)
        now = settlement_runs.now(connection, schema) if workshop.clock is None else workshop.clock()
        if step == "missing":
            if settlement_groups.others_read(connection, schema, _NOBODY, source):
                return [], ""
            return settling.look_for_missing(connection, after=after, now=now)
        settlement_runs.by_index(connection)
        keys, after = settlement_groups.of_source(connection, schema, Place(_NOBODY, source, after), PAGE)
        settlement_runs.as_usual(connection)
        return settling.look(connection, keys, now=now) if keys else [], after


def _finding(each: Item | Applied) -> Found | None:
    item = each.item if isinstance(each, Applied) else each
    decision, before = item.decision, item.before
    standing = None if before is None else before.standing
    finding: Finding
    match item.action:
        case "create":
            finding, detail = "decision_missing", "is not on record" if before is None else "was withdrawn, and follows"
        case "correct":
            assert before is not None
            finding, detail = "decision_differs", differences(before.decision, decision)
        case "withdraw":
            finding, detail = "decision_stale", "no longer follows"
        case "cancel":
            finding, detail = "reminder_stale", "was withdrawn, and its reminder is live"
        case "tell" if standing == "gone":
            finding, detail = "reminder_missing", "its reminder is not there, and left no trace"
        case "tell":
            finding, detail = "not_told", (before.told_reason if before is not None else None) or "refused"
        case _ if standing in {"dead", "expired"}:
            finding, detail = "not_delivered", f"its reminder is {standing}"
        case _:
            return None
    done = isinstance(each, Applied) and each.outcome != "unchanged" and each.record.told != "refused"
    return Found(finding, decision.name, decision.order_reference, decision.line_id, decision.payout_id, detail, done)

"""What follows from the facts against what is on record: which decisions are new, other, gone, or lack their reminder."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal
from uuid import UUID

from reminders.domain.deciding import decide
from reminders.domain.identity import derived_id
from reminders.domain.money import amount_text
from reminders.domain.settlement import OF_AN_ORDER, Decision, Order, SettlementLine
from reminders.ledger.settlement_decisions import Record

Action = Literal["create", "keep", "correct", "withdraw", "tell", "cancel"]
"""`tell`: the decision is on record as it is, and its reminder is to be made. `cancel`: it was withdrawn before, and its
reminder is live again or still."""


@dataclass(frozen=True, slots=True)
class Group:
    """An order, if it is known, with all its lines; or a line that names none."""

    key: str
    order: Order | None
    lines: Sequence[SettlementLine]


@dataclass(frozen=True, slots=True)
class Item:
    """One decision and what is to be done about it. `before` is what is on record. `dated` is when its money moved."""

    action: Action
    id: UUID
    decision: Decision
    order: Order | None
    before: Record | None
    dated: datetime


def decision_id(source: str, decision: Decision) -> UUID:
    """The same for a decision whatever it says: by its line, or by its order and payout."""
    if decision.name in OF_AN_ORDER:
        assert decision.order_reference is not None
        return derived_id("decision", source, decision.name, "order", decision.order_reference, decision.payout_id)
    assert decision.line_id is not None
    return derived_id("decision", source, decision.name, "line", decision.line_id)


def compare(
    source: str, groups: Iterable[Group], on_record: Sequence[Record], *, now: datetime, grace: timedelta
) -> list[Item]:
    """All decisions of the groups, those on record that no longer follow included.

    `on_record` holds what there is of their orders and lines: a line's decision goes with the group the line is in now.
    """
    known = {record.id: record for record in on_record}
    items: list[Item] = []
    for group in groups:
        for decision in decide(group.order, group.lines, now=now, grace=grace):
            each = decision_id(source, decision)
            before = known.pop(each, None)
            items.append(
                Item(_action(decision, before), each, decision, group.order, before, _dated(decision, group, now))
            )
    for record in known.values():
        if record.withdrawn_at is None:
            items.append(Item("withdraw", record.id, record.decision, None, record, record.decided_at))
        elif record.standing == "live":
            items.append(Item("cancel", record.id, record.decision, None, record, record.decided_at))
    return items


def _action(decision: Decision, before: Record | None) -> Action:
    if before is None or before.withdrawn_at is not None:
        return "create"
    if before.decision != decision:
        return "correct"
    return "tell" if before.told == "refused" or before.standing == "gone" else "keep"


def _dated(decision: Decision, group: Group, now: datetime) -> datetime:
    if decision.name == "missing" and group.order is not None:
        return group.order.payout_expected_at or now
    for line in group.lines:
        if decision.line_id == line.line_id or (decision.line_id is None and decision.payout_id == line.payout_id):
            return line.payout_at or line.created_at
    return now


def differences(before: Decision, now: Decision) -> str:
    """In words, for a report."""
    texts = []
    for name in ("amount", "total", "expected"):
        was, is_now = getattr(before, name), getattr(now, name)
        if was != is_now or (was is not None and before.currency != now.currency):
            texts.append(f"{name} was {_money(was, before.currency)}, is {_money(is_now, now.currency)}")
    for name in ("order_reference", "payout_id", "reason"):
        was, is_now = getattr(before, name), getattr(now, name)
        if was != is_now:
            texts.append(f"{name.partition('_')[0]} was {was or 'none'}, is {is_now or 'none'}")
    return ", ".join(texts)


def _money(amount: Decimal | None, currency: str) -> str:
    return "none" if amount is None else f"{amount_text(amount, currency)} {currency}"

"""What a bookkeeper concludes from an order and its lines. Pure: the same facts give the same decisions, in any order.

Facts are all lines of one order over all files that were read so far, so the decisions never depend on which run, page
or file brought a line, nor on how often.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from reminders.domain.money import added, negative
from reminders.domain.settlement import Category, Decision, DecisionName, Order, SettlementLine

PAYING: frozenset[Category] = frozenset({"charge", "partial_capture_reversal", "charge_failure"})
"""Categories whose gross is what an order has been paid."""
OF_A_LINE: Mapping[Category, DecisionName] = {
    "refund": "refunded",
    "refund_failure": "refund_failed",
    "dispute": "disputed",
    "dispute_reversal": "dispute_won",
    "charge_failure": "failed",
}
"""What a single line of a category says, whatever else is known of its order."""
CONCERNS_AN_ORDER: frozenset[Category] = PAYING | frozenset(OF_A_LINE)
_BRINGS_MONEY: frozenset[Category] = frozenset({"refund_failure", "dispute_reversal"})
_NOT_PAID_OUT_YET = datetime.max.replace(tzinfo=UTC)
_NOTHING = Decimal(0)


def decide(order: Order | None, lines: Sequence[SettlementLine], *, now: datetime, grace: timedelta) -> list[Decision]:
    """The decisions that follow from one order and all its lines.

    `lines` are those that name the order, and those whose charge's line does. `order` is None when nobody knows it;
    then each line that concerns an order is an `unknown_order`. So is, of a known order, each line in another currency,
    which counts for nothing else; its decision names no order, since there is nothing its customer could be told.

    What an order was paid is judged once for each payout that has lines of `PAYING`, by all such lines up to and with
    it. Lines that are in no payout yet are not judged so. `now` and `grace` matter to `missing` alone: an order without
    a line that concerns it, whose payout was expected longer ago than `grace`.
    """
    concerned = _sorted(line for line in lines if line.category in CONCERNS_AN_ORDER)
    if order is None:
        reference = next((line.order_reference for line in concerned if line.order_reference), None)
        return [_unknown_order(line, _why_unknown(line, reference)) for line in concerned]
    if not concerned:
        return [_missing(order)] if _overdue(order, now, grace) else []
    last_paying = {line.payout_id: line.line_id for line in concerned if _pays(line, order)}
    decisions: list[Decision] = []
    paid = refunded = _NOTHING
    for line in concerned:
        if line.currency != order.currency:
            why = f"order {order.reference} is in {order.currency}, the line in {line.currency}"
            decisions.append(_unknown_order(line, why))
            continue
        if line.category in {"refund", "refund_failure"}:
            refunded = added(refunded, negative(line.gross))
        if line.category in OF_A_LINE:
            decisions.append(_of_line(order, line, refunded))
        if _pays(line, order):
            paid = added(paid, line.gross)
            if last_paying[line.payout_id] == line.line_id and paid > 0:
                decisions.append(_of_payment(order, line.payout_id, paid))
    return decisions


def _sorted(lines: Iterable[SettlementLine]) -> list[SettlementLine]:
    """As the money moved: by payout, then as the lines were made. Lines of one payout are always together."""
    found = list(lines)
    paid_out: dict[str, datetime] = {}
    for line in found:
        at = line.payout_at if line.payout_at is not None and line.payout_id else _NOT_PAID_OUT_YET
        paid_out[line.payout_id] = min(at, paid_out.get(line.payout_id, at))
    return sorted(found, key=lambda line: (paid_out[line.payout_id], line.payout_id, line.created_at, line.line_id))


def _pays(line: SettlementLine, order: Order) -> bool:
    return line.category in PAYING and line.payout_id != "" and line.currency == order.currency


def _of_payment(order: Order, payout_id: str, paid: Decimal) -> Decision:
    name: DecisionName = "settled" if paid == order.amount else "short_paid" if paid < order.amount else "over_paid"
    return Decision(name, order.reference, None, payout_id, order.currency, paid, expected=order.amount)


def _of_line(order: Order, line: SettlementLine, refunded: Decimal) -> Decision:
    return Decision(
        OF_A_LINE[line.category],
        order.reference,
        line.line_id,
        line.payout_id,
        line.currency,
        _as_told(line),
        total=refunded if line.category == "refund" else None,
        expected=order.amount,
    )


def _as_told(line: SettlementLine) -> Decimal:
    """The line's gross as people say it: what was refunded, disputed, or failed is positive."""
    return line.gross if line.category in _BRINGS_MONEY or line.category == "charge" else negative(line.gross)


def _unknown_order(line: SettlementLine, why: str) -> Decision:
    return Decision("unknown_order", None, line.line_id, line.payout_id, line.currency, _as_told(line), reason=why)


def _why_unknown(line: SettlementLine, reference: str | None) -> str:
    if reference is not None:
        return f"nobody knows order {reference}"
    if line.charge_id and line.category != "charge":
        return f"the line names no order, and neither does a line of its charge {line.charge_id}"
    return "the line names no order"


def _overdue(order: Order, now: datetime, grace: timedelta) -> bool:
    return order.payout_expected_at is not None and order.payout_expected_at + grace < now


def _missing(order: Order) -> Decision:
    return Decision("missing", order.reference, None, "", order.currency, _NOTHING, expected=order.amount)

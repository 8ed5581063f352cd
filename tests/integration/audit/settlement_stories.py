"""Stories of reconciliation that are in order, and how each of its invariants is broken."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal

from integration.settlement.shop import Row, Shop, file_of
from reminders.domain.settlement import Order
from reminders.intake.settlement.config import Rule
from reminders.intake.settlement.files import pages
from reminders.ledger import settlement_files as kept
from reminders.ledger.settlement_files import Received, StoredPage
from reminders.settings import Settings

RULES = {
    "settled": Rule(kind="note", channel="log", due=timedelta(days=2)),
    "unknown_order": Rule(
        kind="note", channel="log", due=timedelta(days=2), tenant_id="ops", user_id="desk", destination="somewhere"
    ),
}
ROWS = (Row("t1", "order-1"), Row("t2", "order-9"), Row("p1", gross="-100.00", category="payout"))


class Orders:
    """A matcher that knows these orders alone."""

    def __init__(self, *references: str) -> None:
        self._references = references

    def match(self, connection, references: Sequence[str]) -> Mapping[str, Order]:
        return {
            each: Order(each, "tenant-a", f"user of {each}", Decimal("50.00"), "EUR", {"log": "somewhere"})
            for each in references
            if each in self._references
        }

    def expected(self, connection, **_) -> Sequence[Order]:
        return []


class Made:
    """What plants need to know of a decision's reminder."""

    def __init__(self, id_: str, key: str) -> None:
        self.id, self.delivery_key = id_, key


def shop(w) -> Shop:
    return Shop(w.database, Settings(allow_private=True))


def reconciled(w, *orders: str) -> None:
    shop(w).run(ROWS, Orders(*(orders or ("order-1",))), rules=RULES)


def of_decision(w, name: str) -> Made:
    ((id_, key),) = w.sql(
        "SELECT r.id::text, r.delivery_key FROM reminders.reconciliation_decisions d JOIN reminders.reminders r"
        " ON r.id = d.reminder_id WHERE d.name = %s",
        name,
    )
    return Made(id_, key)


def decided(w) -> Made:
    reconciled(w)
    return of_decision(w, "unknown_order")


def withdrawn(w) -> Made:
    """The second order turns up later."""
    reconciled(w)
    reconciled(w, "order-1", "order-9")
    return of_decision(w, "unknown_order")


def begun(w) -> None:
    """Its first page is in."""
    here = shop(w)
    content = file_of(ROWS)
    workshop = here.workshop(Orders("order-1"), rules=RULES)
    run, header = here.begin(content, workshop)
    (page,) = pages(io.BytesIO(content), workshop.config.format)
    assert run.page_of_lines(header, page).new == 3


def file_kept(w, finish: bool = True) -> None:
    url = None if finish else "https://files.example.com/f.csv"
    file_id = kept.add(w.database, source="stripe", name="f.csv", actor="ada", url=url)
    stored = [StoredPage(number, number + 1, 1, b"x\n") for number in (1, 2)]
    kept.append(w.database, file_id, 0, Received(9, stored, b"id", b"", 4))
    if finish:
        kept.finish(w.database, file_id, 9, b"\x01" * 32)


SETTLEMENT_STORIES = {
    "decided": decided,
    "decided, and withdrawn": withdrawn,
    "decided twice": lambda w: (reconciled(w), reconciled(w)),
    # What is under way has a reminder of somebody beside it: it is not to be looked at a month later.
    "lines taken in, and not decided yet": lambda w: (begun(w), w.schedule()),
    "a settlement file kept": file_kept,
    "a settlement file on its way": lambda w: (file_kept(w, finish=False), w.schedule()),
}


def _broken(make, *statements, of_reminder=False):
    def plant(w):
        made = make(w)
        for statement in statements:
            w.sql(statement.format(id=made.id if made else ""))
        return str(made.id if made and of_reminder else None)

    return plant


GONE = ("DELETE FROM reminders.due WHERE id = '{id}'", "DELETE FROM reminders.reminders WHERE id = '{id}'")
OF_UNKNOWN = "UPDATE reminders.reconciliation_decisions SET {} WHERE name = 'unknown_order'"


def _a_day_later(make):
    def made_and_aged(w):
        make(w)
        w.age(25 * 3600.0)

    return made_and_aged


SETTLEMENT_PLANTS = {
    "decided_reminder_gone": _broken(decided, *GONE, of_reminder=True),
    "decided_reminder_of_another": _broken(decided, OF_UNKNOWN.format("identity_key = sha256('x')"), of_reminder=True),
    "withdrawn_but_live": _broken(decided, OF_UNKNOWN.format("withdrawn_at = now()"), of_reminder=True),
    "decision_without_line": _broken(
        decided, "DELETE FROM reminders.settlement_lines WHERE line_id = 't2'", of_reminder=True
    ),
    "line_off_its_order": _broken(
        decided, "UPDATE reminders.settlement_lines SET group_key = 'l:t1' WHERE line_id = 't1'"
    ),
    "run_unfinished": _broken(_a_day_later(begun)),
    "kept_file_incomplete": _broken(file_kept, "DELETE FROM reminders.reconciliation_file_pages WHERE number = 1"),
    "kept_file_left_alone": _broken(_a_day_later(lambda w: file_kept(w, finish=False))),
}

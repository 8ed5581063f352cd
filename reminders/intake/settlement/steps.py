"""A run of reconciliation: three steps in pages, each page one transaction that also moves the run on.

First all lines of the file, as facts; then decisions, over all lines of each order that the file touched, whatever file
they came in; then orders of which nothing has come. Not while reading: an order's two charges may stand on two pages, and
its customer must not be told what the first of them says.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeVar
from uuid import UUID

from psycopg2.extensions import connection as DriverConnection  # noqa: N812 - a class with a module's naming

from reminders.domain.errors import Refused
from reminders.domain.settlement import SettlementLine
from reminders.intake.patience import patiently
from reminders.intake.records import Reject
from reminders.intake.settlement.applying import Applied, Applying
from reminders.intake.settlement.comparing import Item
from reminders.intake.settlement.config import Reconciliation
from reminders.intake.settlement.cutting import FilePage
from reminders.intake.settlement.formats import Header
from reminders.intake.settlement.matching import AskedMatcher
from reminders.intake.settlement.reporting import Report, report
from reminders.intake.settlement.settling import PAGE, Settling
from reminders.intake.settlement.telling import Teller
from reminders.intake.settlement.workshop import LinesDone, LostRun, Workshop
from reminders.ledger import settlement_groups, settlement_lines, settlement_runs
from reminders.ledger.database import DATABASE_AWAY
from reminders.ledger.settlement_groups import Place
from reminders.ledger.settlement_lines import FilePlace
from reminders.ledger.settlement_runs import Stand

_Result = TypeVar("_Result")


def settling_of(workshop: Workshop) -> Settling:
    """What decides over pages of orders, with its own memory of channels."""
    applying = Applying(workshop.database.schema, workshop.config, Teller(workshop.settings, workshop.config.source))
    return Settling(workshop.database.schema, workshop.config, AskedMatcher(workshop.matcher), applying)


class Run:
    """A run that this process holds. A kill anywhere repeats nothing and loses nothing: another goes on where it stands.

    Every step raises `LostRun` once another process has taken the run over, `ServiceUnavailable` if Postgres stays away,
    and `MatcherFault` if the application's matcher or hook fails; its page is rolled back then.
    """

    def __init__(self, workshop: Workshop, run_id: UUID, fence: int, stand: Stand) -> None:
        self.id = run_id
        self.fence = fence
        """Together with `id` what a later task gives to `go_on`."""
        self._workshop = workshop
        self._db = workshop.database
        self._config = workshop.config
        self._stand = self._moved = stand
        self._settling = settling_of(workshop)

    @property
    def step(self) -> str:
        """What is to be done next: `lines`, `decide`, `missing`, or `done`."""
        return self._stand.step

    @property
    def next_page(self) -> int:
        """The first page of the file that is not in yet; those before it are passed over."""
        return self._stand.next_page

    @property
    def only_page(self) -> int | None:
        """The one page that this run takes in, if it is of one alone."""
        return self._stand.only_page

    def page_of_lines(self, header: Header, page: FilePage) -> LinesDone | None:
        """Take in one page of the file. None if it is in already, or is none of this run's."""
        if self.step != "lines" or page.number != self.next_page:
            if self.step == "lines" and self.only_page is None and page.number > self.next_page:
                raise ValueError(f"page {page.number} before page {self.next_page}")
            return None
        lines, rejects, repeated = _read(header, page, self._config)

        def take_in(connection: DriverConnection, stand: Stand) -> LinesDone | None:
            if stand.step != "lines" or page.number != stand.next_page:
                return None
            settlement_runs.by_index(connection)
            source, place = self._config.source, FilePlace(page.number, page.first_line)
            taken = settlement_lines.take_in(connection, self._db.schema, source, self.id, lines, page=place)
            refused = [
                repeated_id(each, f"on page {taken.refused[each.line_id]}")
                for each in lines
                if each.line_id in taken.refused
            ]
            if rejects or refused:
                found = [(each.line, each.field, each.reason) for each in (*rejects, *refused)]
                settlement_lines.reject(connection, self._db.schema, self.id, found)
            numbers = {
                "new": taken.new,
                "changed": taken.changed,
                "unchanged": taken.unchanged + repeated,
                "rejected": len(rejects) + len(refused),
            }
            settlement_runs.count(connection, self._db.schema, self.id, **numbers)
            self._turn_page(connection, stand)
            return LinesDone(page.number, sum(numbers.values()), **numbers)

        return self._in_turn(take_in)

    def decide_next(self) -> bool:
        """Decide over the next orders that the run has touched. False when none are left, and `step` has moved on."""
        return self.settle_next("decide") is not None

    def missing_next(self) -> bool:
        """Decide over the next orders whose payout is overdue. False when none are left, and `step` has moved on."""
        return self.settle_next("missing") is not None

    def settle_next(self, step: Literal["decide", "missing"]) -> list[Applied] | None:
        """One page of a step, with what became of its decisions. None when nothing is left of it."""

        def settle(connection: DriverConnection, stand: Stand) -> list[Applied] | None:
            if stand.step != step:
                return None
            now = self._now(stand)
            items, position = (self._touched if step == "decide" else self._overdue)(connection, stand, now)
            if not position:
                self._move(connection, replace(stand, step=_after(stand), position=""))
                return None
            done = self._settling.apply(connection, self.id, items, now=now, reminders=stand.reminders)
            self._move(connection, replace(stand, position=position))
            return done

        return self._in_turn(settle)

    def finish(self) -> Report:
        """End the run and tell what came of it. Raises `Refused` while a step is left."""
        if self.step != "done":
            raise Refused(f"run {self.id} is not done: step {self.step} is left")

        def end() -> Report:
            with self._db.transaction() as connection:
                if not settlement_runs.finish_if_ours(connection, self._db.schema, self.id, self.fence):
                    raise self._lost()
            return report(self._db, self.id)

        return patiently(end, self._workshop.patience, self._workshop.tell)

    def let_go(self, why: str | None = None) -> None:
        """Leave the run to whoever asks for it next, who goes on where it stands (Ctrl-C, a fault). Never raises."""
        with suppress(*DATABASE_AWAY), self._db.transaction() as connection:
            settlement_runs.let_go_if_ours(connection, self._db.schema, self.id, self.fence, why)

    def _touched(self, connection: DriverConnection, stand: Stand, now: datetime) -> tuple[list[Item], str]:
        place = Place(self.id, self._config.source, stand.position)
        settlement_runs.by_index(connection)
        if stand.kind == "audit":
            keys, position = settlement_groups.of_source(connection, self._db.schema, place, PAGE)
        else:
            keys = settlement_groups.touched(connection, self._db.schema, place, PAGE)
            position = keys[-1] if keys else ""
        settlement_runs.as_usual(connection)
        return self._settling.look(connection, keys, now=now) if keys else [], position

    def _overdue(self, connection: DriverConnection, stand: Stand, now: datetime) -> tuple[list[Item], str]:
        if settlement_groups.others_read(connection, self._db.schema, self.id, self._config.source):
            # The orders may stand in what that run has yet to read; it looks for missing ones itself.
            return [], ""
        return self._settling.look_for_missing(connection, after=stand.position, now=now)

    def _turn_page(self, connection: DriverConnection, stand: Stand) -> None:
        if stand.only_page is None and stand.next_page < stand.pages:
            self._move(connection, replace(stand, next_page=stand.next_page + 1))
            return
        if stand.kind == "file":
            settlement_groups.touch_missing(connection, self._db.schema, self.id, self._config.source)
        self._move(connection, replace(stand, step="decide", next_page=stand.next_page + 1))

    def _move(self, connection: DriverConnection, stand: Stand) -> None:
        settlement_runs.move(connection, self._db.schema, self.id, stand)
        self._moved = stand

    def _now(self, stand: Stand) -> datetime:
        return stand.now if self._workshop.clock is None else self._workshop.clock()

    def _in_turn(self, work: Callable[[DriverConnection, Stand], _Result]) -> _Result:
        """One page: a transaction that begins only when no other page of the source is under way."""

        def attempt() -> _Result:
            with self._db.transaction() as connection:
                settlement_runs.take_turn(connection, self._db.schema, self._config.source)
                stand = settlement_runs.continue_if_ours(connection, self._db.schema, self.id, self.fence)
                if stand is None:
                    raise self._lost()
                self._moved = stand
                result = work(connection, stand)
            # Crash here, or anywhere: the page and the run's place in the file are both committed or both not, and
            # whoever goes on with the run, or runs the file again, finds what is missing.
            self._stand = self._moved
            return result

        return patiently(attempt, self._workshop.patience, self._workshop.tell)

    def _lost(self) -> LostRun:
        return LostRun(f"run {self.id} was taken over by another process, or has ended; nothing is left to do here")


def repeated_id(line: SettlementLine, where: str) -> Reject:
    """Of a line whose id the file has before with other content."""
    return Reject(line.at, "line_id", f"{line.line_id} stands {where} with other content; the first one counts")


def _after(stand: Stand) -> str:
    return "missing" if stand.step == "decide" and stand.kind != "page" else "done"


def _read(header: Header, page: FilePage, config: Reconciliation) -> tuple[list[SettlementLine], list[Reject], int]:
    """The lines of a page, what was not taken, and how many lines stand there once more.

    Of different lines with the same id the first counts, as it does between pages.
    """
    lines: dict[str, SettlementLine] = {}
    rejects: list[Reject] = []
    repeated = 0
    for found in config.format.read_page(header, page):
        if isinstance(found, Reject):
            rejects.append(found)
            continue
        before = lines.get(found.line_id)
        if before == found:
            repeated += 1
        elif before is not None:
            rejects.append(repeated_id(found, f"in line {before.at}"))
        else:
            lines[found.line_id] = found
    return list(lines.values()), rejects, repeated

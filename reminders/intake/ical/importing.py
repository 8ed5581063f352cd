"""Import of a calendar: read it whole, see what changed since the last time, and write that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from reminders.domain.request import ReminderRequest
from reminders.intake.ical.asking import Asked, Wishes, asked_for
from reminders.intake.ical.comparing import Owner, compare, furthest
from reminders.intake.ical.components import Tree, read_tree
from reminders.intake.ical.content_lines import content_lines, read_bytes
from reminders.intake.ical.writing import CalendarTotals, CalendarWriter
from reminders.intake.rejects_file import RejectsFile


def read_calendar(source: BinaryIO, name: str) -> Tree:
    """Raises `RemindersError` if it is no calendar, or larger than any."""
    return read_tree(content_lines(read_bytes(source, name)))


def import_calendar(
    tree: Tree,
    wishes: Wishes,
    owner: Owner,
    *,
    writer: Callable[[Owner], CalendarWriter],
    to_request: Callable[..., ReminderRequest],
    rejects: RejectsFile,
    dry: bool,
) -> tuple[Asked, CalendarTotals, Path | None]:
    """Bring the ledger to what the calendar asks for; returns that, the totals, and the rejects file if there is one.

    A dry run writes neither ledger nor rejects file. Raises `RemindersError`.
    """
    if not owner.told:
        owner = replace(owner, name=tree.name)
    writing = writer(owner)
    known = writing.known()
    wishes = replace(wishes, until=furthest(known.entries, wishes.until))
    asked = asked_for(tree, wishes)
    changes = compare(asked, known, owner, wishes, to_request)
    writing.write(changes)
    totals = writing.totals
    found = sorted([*asked.rejects, *changes.rejects, *writing.rejects], key=lambda reject: reject.line)
    totals.events = asked.events
    totals.rejected = len(found)
    totals.skipped = asked.skipped + changes.outdated
    totals.read = totals.scheduled + totals.existing + totals.moved + totals.rejected + totals.skipped
    if dry:
        return asked, totals, None
    try:
        rejects.add(found)
        return asked, totals, rejects.keep()
    finally:
        rejects.discard()

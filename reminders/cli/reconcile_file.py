"""A settlement file that a command reads: run, kept for a task, or only checked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO

from reminders.cli.input_file import STDIN, opened, size_of
from reminders.cli.printing import for_people, print_json
from reminders.cli.reconcile_report import counted, money, section
from reminders.cli.session import Session
from reminders.domain.errors import RemindersError
from reminders.intake import progress
from reminders.intake.importing import Totals
from reminders.intake.records import Reject
from reminders.intake.settlement.config import Reconciliation
from reminders.intake.settlement.cutting import MalformedFile
from reminders.intake.settlement.first_pass import first_pass, second_pass
from reminders.intake.settlement.receiving import upload
from reminders.intake.settlement.reporting import Report
from reminders.intake.settlement.running import AlreadyRunning, LinesDone
from reminders.intake.settlement.whole_file import open_workshop, run_file

COMMAND = "reconcile"
LONGEST_NAME = 200


class Shown:
    """A `Watcher` that shows progress on stderr."""

    def __init__(self, shown: progress.PlainProgress | progress.BarProgress) -> None:
        self._shown = shown
        self._totals = Totals()

    def checked(self, records: int, pages: int) -> None:
        """See `Watcher`."""
        self._shown.now(f"{counted(records, 'record')} on {counted(pages, 'page')} checked")

    def page(self, done: LinesDone | None, number: int, bytes_read: int) -> None:  # noqa: ARG002 - the watcher's
        """See `Watcher`."""
        self._totals.read += 0 if done is None else done.read
        self._shown.advance(self._totals, bytes_read)

    def decided(self, pages: int) -> None:
        """See `Watcher`."""
        self._shown.now(f"{self._totals.read:,} records read; deciding, {pages:,} pages of orders")


def read_file(
    ledger: Session, file: str, config: Path, *, actor: str, page: int | None, reminders: bool
) -> Report | AlreadyRunning:
    """Run it to its end, showing progress."""
    with _readable_twice(file) as source, progress.shown(size_of(source), COMMAND) as shown:
        workshop = open_workshop(ledger.database, ledger.settings, config, shown.tell)
        return run_file(
            workshop, source, shown_name(file), actor=actor, only_page=page, reminders=reminders, watcher=Shown(shown)
        )


def keep_file(ledger: Session, file: str, config: Reconciliation, *, actor: str, as_json: bool) -> None:
    """Keep it in the ledger, and print its id and how a task is given it."""
    with _named_in_faults(file), opened(file) as source:
        file_id = upload(
            ledger.database, source, config.format, source=config.source, name=shown_name(file), actor=actor
        )
    if as_json:
        print_json({"file": str(file_id), "name": shown_name(file)})
        return
    print(f"Kept as {file_id}. To have a worker reconcile it:")
    print(f'  celery -A reminders call reminders.reconcile --kwargs \'{{"file": "{file_id}", "actor": "{actor}"}}\'')


def check_file(file: str, config: Reconciliation, limit: int, *, as_json: bool) -> int:
    """Read it without any ledger, and print what it holds. Returns how many lines would be rejected."""
    form = config.format
    sums: dict[tuple[str, str], list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 4)
    rejects: list[Reject] = []
    rejected = 0
    with _readable_twice(file) as source:
        first = first_pass(source, form)
        source.seek(0)
        header = form.read_header(first.header)
        for page, _ in second_pass(source, form, first):
            for line in form.read_page(header, page):
                if isinstance(line, Reject):
                    rejected += 1
                    rejects += [line] if len(rejects) < limit else []
                else:
                    held = sums[line.category, line.currency]
                    sums[line.category, line.currency] = [
                        old + new for old, new in zip(held, (Decimal(1), line.gross, line.fee, line.net), strict=True)
                    ]
    if as_json:
        print_json(
            {
                "dry_run": True,
                "pages": len(first.digests),
                "records": first.records,
                "rejected": rejected,
                "categories": [
                    {"category": category, "currency": currency, "count": int(count), "gross": f"{gross:f}", "fee": f"{fee:f}", "net": f"{net:f}"}
                    for (category, currency), (count, gross, fee, net) in sorted(sums.items())
                ],
                "rejects": [{"line": each.line, "field": each.field, "reason": each.reason} for each in rejects],
            }
        )  # fmt: skip
        return rejected
    print(
        f"{counted(first.records, 'record')} on {counted(len(first.digests), 'page')}; {rejected:,} would be rejected. "
        "Nothing was written."
    )
    rows = [
        (category, currency, f"{int(count):,}", money(gross), money(fee), money(net))
        for (category, currency), (count, gross, fee, net) in sorted(sums.items())
    ]
    section("Lines", ("category", "currency", "count", "gross", "fee", "net"), rows)
    refused = [(f"{each.line:,}", each.field, each.reason) for each in rejects]
    section("Rejected lines", ("line", "field", "reason"), refused, rejected)
    return rejected


def shown_name(file: str) -> str:
    """The file's name without its folder, fit to be stored and printed whatever bytes it has."""
    return for_people(Path(file).name)[:LONGEST_NAME]


@contextmanager
def _readable_twice(file: str) -> Iterator[BinaryIO]:
    with _named_in_faults(file), opened(file) as source:
        if file == STDIN or not source.seekable():
            raise RemindersError(
                f"{for_people(file)} can be read only once; a settlement file is checked to its end before anything is written\n"
                "Save it to a file first, or keep it in the ledger with --upload."
            )
        yield source


@contextmanager
def _named_in_faults(file: str) -> Iterator[None]:
    try:
        yield
    except MalformedFile as error:
        raise RemindersError(f"{for_people(file)}: {error}\nNothing was changed.") from error
